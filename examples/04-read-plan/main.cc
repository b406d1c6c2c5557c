// What a C++ trainer does with a plan: waits for it, proves that it is of this step's routing, and takes its
// arrays.
//
//   mpirun -n 2 read_plan PLAN DUMP...     prints all arrays, a line each, as 03-read-a-plan.py --cells does
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <thread>

#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/count/count.h"

namespace {

using namespace relibra;

/// A plan appears under its name only when it is whole, so it can be opened as soon as the name is there.
void wait_for(const Comm& comm, const std::string& path) {
  if (comm.root())
    while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(200));
  comm.barrier();
}

/// Collective. Counts the dump, all ranks together.
void verify_digest(const Comm& comm, const io::PlanFile& file, const std::vector<std::string>& dumps) {
  const auto source = io::open_dump(comm, dumps);
  const std::string digest = count_routing(comm, *source, {.max_missing = 1}).digest;
  if (digest != file.plan().header.dump_digest)
    throw Error(Fault::input, {.where = file.path(),
                               .expected = "a plan of routing " + digest,
                               .found = file.plan().header.dump_digest,
                               .advice = "plan this step's dump"})
        .as_agreed();
}

void print(const char* name, const std::vector<std::int64_t>& values) {
  std::cout << name;
  for (const std::int64_t value : values) std::cout << ' ' << value;
  std::cout << '\n';
}

/// Experts by slot of a rank: its C home slots, then the V replica slots of this cell.
std::vector<std::int64_t> slots_of(const Plan& plan, const PlanCells& cells, std::int64_t cell, RankId r) {
  const PlanHeader& h = plan.header;
  const std::int64_t layer = cell % h.num_layers();
  const std::int64_t first =
      (layer * h.topology.ep_size + h.topology.ep_rank_of(r).value()) * h.slots_per_rank;
  std::vector<std::int64_t> slots{r.value()};
  for (int c = 0; c < h.slots_per_rank; ++c)
    slots.push_back(plan.slot_expert[static_cast<std::size_t>(first + c)].value());
  const std::size_t copies = slots.size();
  slots.resize(copies + static_cast<std::size_t>(h.replica_slots), -1);
  for (const Copy& copy : cells.copies_of(cell))
    if (copy.rank == r) slots[copies + static_cast<std::size_t>(copy.slot)] = copy.expert.value();
  return slots;
}

/// Assignments from rank `source` to rank `to` of its EP group.
std::int64_t sent(const PlanHeader& h, const PlanCells& cells, std::int64_t cell, RankId source,
                  EpRankId to) {
  const std::int64_t row = (cell - cells.cells.first) * h.topology.world() + source.value();
  return cells.transfer[static_cast<std::size_t>(row * h.topology.ep_size + to.value())];
}

void print_transfers(const PlanHeader& h, const PlanCells& cells, std::int64_t cell) {
  const Topology& t = h.topology;
  for (const RankId r : all<RankId>(t.world())) {
    std::vector<std::int64_t> send{r.value()}, receive{r.value()};
    for (const EpRankId p : all<EpRankId>(t.ep_size)) {
      send.push_back(sent(h, cells, cell, r, p));
      receive.push_back(sent(h, cells, cell, t.rank_of(t.group_of(r), p), t.ep_rank_of(r)));
    }
    print("send", send);
    print("receive", receive);
  }
}

void print_cell(const Plan& plan, const PlanCells& cells, std::int64_t cell) {
  const PlanHeader& h = plan.header;
  print("cell", {cell / h.num_layers(), cell % h.num_layers()});
  std::vector<std::int64_t> homes;
  for (const EpRankId home : plan.placement.layer(LayerId(cell % h.num_layers())))
    homes.push_back(home.value());
  print("home", homes);
  for (const RankId r : all<RankId>(h.topology.world())) print("slots", slots_of(plan, cells, cell, r));
  for (const Copy& c : cells.copies_of(cell)) print("copy", {c.expert.value(), c.rank.value(), c.slot});
  for (const SplitEntry& s : cells.split_of(cell))
    print("split", {s.expert.value(), s.source.value(), s.rank.value(), s.tokens});
  print_transfers(h, cells, cell);
}

void read_plan(const Comm& comm, const std::string& path, const std::vector<std::string>& dumps) {
  wait_for(comm, path);
  const io::PlanFile file(comm, path);
  verify_digest(comm, file, dumps);
  // A trainer reads the cells that it needs; here rank 0 reads them all, and the others none.
  const PlanCells cells =
      file.read_cells({0, comm.root() ? file.plan().header.num_cells() : 0}, /*with_transfers=*/true);
  for (std::int64_t cell = cells.cells.first; cell < cells.cells.last; ++cell)
    print_cell(file.plan(), cells, cell);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "read_plan PLAN DUMP...\n");
    return 2;
  }
  try {
    MpiSession mpi(&argc, &argv);
    const Comm comm = Comm::world();
    try {
      read_plan(comm, argv[1], {argv + 2, argv + argc});
      return 0;
    } catch (const Error& error) {
      if (comm.root() || !error.agreed()) std::fprintf(stderr, "read_plan: %s\n", error.what());
      if (!error.agreed() && comm.size() > 1) MPI_Abort(comm.handle(), error.exit_status());
      return error.exit_status();
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "read_plan: %s\n", error.what());
    return error.exit_status();
  }
}
