#include <optional>

#include "io/hdf5.h"
#include "io/pending_file.h"
#include "io/plan_file.h"
#include "io/plan_read.h"
#include "lib/comm/agree.h"

namespace relibra::io {
namespace {

using h5::native_type;

// A mistake of the caller, found before it becomes a file with holes.
void require_complete(const Comm& comm, const Plan& plan, const PlanCells& mine) {
  const std::int64_t before = comm.sum_below(mine.cells.size()), all = comm.sum(mine.cells.size());
  agreed(comm, [&] {
    const auto cells = static_cast<std::size_t>(mine.cells.size());
    const auto world = static_cast<std::size_t>(plan.header.topology.world());
    const bool follows = mine.cells.empty() || mine.cells.first == before;
    const bool lists = mine.copy_offset.size() == cells + 1 && mine.split_offset.size() == cells + 1 &&
                       mine.copy_offset.back() == std::ssize(mine.copies) &&
                       mine.split_offset.back() == std::ssize(mine.split);
    const bool tables =
        mine.rank_tokens.size() == cells * world && mine.rank_tokens_static.size() == cells * world;
    if (follows && lists && tables && all == plan.header.num_cells()) return;
    throw_environment({.where = "plan in memory",
                       .expected = "all " + std::to_string(plan.header.num_cells()) +
                                   " cells once, in rank order, with their lists and tables",
                       .found = "cells from " + std::to_string(mine.cells.first) + " to " +
                                std::to_string(mine.cells.last) + ", " + std::to_string(all) + " in all"});
  });
}

void put_attributes(const h5::File& file, const PlanHeader& h) {
  file.put_string("format", "relibra.plan");
  file.put_int32("version", 1);
  file.put_int64("step", h.step);
  file.put_string("policy", h.policy);
  file.put_int64("seed", static_cast<std::int64_t>(h.seed));
  file.put_string("tool", h.tool);
  file.put_int32("num_experts", h.num_experts);
  file.put_int32("num_layers", h.num_layers());
  file.put_int32("top_k", h.top_k);
  file.put_int32("num_micro_batches", h.num_micro_batches);
  file.put_int32("ep_size", h.topology.ep_size);
  file.put_int32("num_ep_groups", h.topology.ep_groups);
  file.put_int32("gpus_per_node", h.topology.gpus_per_node);
  file.put_int32("slots_per_rank", h.slots_per_rank);
  file.put_int32("replica_slots", h.replica_slots);
  file.put_int32("physical_slots", h.physical_slots);
  file.put_string("replica_domain", h.replica_domain == ReplicaDomain::node ? "node" : "group");
  file.put_string("dump_digest", h.dump_digest);
  file.put_int64("search_moves", h.search_moves);
}

/// Writes datasets of one file. What every rank holds is written by rank 0; what ranks share out is written
/// together. After each the ranks agree, so that a full disk does not leave some waiting in the next.
class PlanWriter {
 public:
  PlanWriter(const Comm& comm, const h5::File& file) : comm_(comm), file_(file) {}

  void replicated(const char* object, const std::vector<std::int64_t>& shape,
                  const std::vector<std::int32_t>& values) const {
    agreed(comm_, [&] {
      const auto data = file_.create(object, native_type<std::int32_t>(), shape);
      if (comm_.root())
        data.write_items({0, shape[0]}, native_type<std::int32_t>(), values.data(),
                         h5::Transfer::independent());
    });
  }

  /// `items` of the first `leading` dimensions are this rank's.
  template <class T>
  void shared(const char* object, const std::vector<std::int64_t>& shape, Range items,
              const std::vector<T>& values, int leading) const {
    agreed(comm_, [&] {
      const auto data = file_.create(object, native_type<T>(), shape);
      data.write_items(items, native_type<T>(), values.data(), h5::Transfer::collective(), leading);
    });
  }

 private:
  const Comm& comm_;
  const h5::File& file_;
};

template <class List, class Get>
std::vector<std::int32_t> column(const List& list, Get&& get) {
  std::vector<std::int32_t> values;
  values.reserve(list.size());
  for (const auto& item : list) values.push_back(get(item));
  return values;
}

void put_replicated(const PlanWriter& out, const Plan& plan) {
  const PlanHeader& h = plan.header;
  const std::int64_t layers = h.num_layers(), sequences = plan.sequences();
  out.replicated("layers", {layers}, h.layers);
  out.replicated("placement/expert_rank", {layers, h.num_experts}, homes_of(plan.placement));
  out.replicated("placement/slot_expert", {layers, h.topology.ep_size, h.slots_per_rank},
                 column(plan.slot_expert, [](ExpertId e) { return e.value(); }));
  out.replicated("placement/previous_rank", {layers, h.num_experts}, homes_of(plan.previous));
  std::vector<std::int32_t> moves;
  for (const Move& m : moves_between(plan.previous, plan.placement))
    for (std::int32_t v : {m.layer.value(), m.expert.value(), m.from.value(), m.to.value()})
      moves.push_back(v);
  out.replicated("placement/moves", {std::ssize(moves) / 4, 4}, moves);
  out.replicated("sequences/micro_batch", {sequences}, plan.micro_batch);
  out.replicated("sequences/source_rank", {sequences}, plan.source_rank);
}

/// Where this rank's part of a CSR list stands in the whole.
struct ListPlace {
  std::int64_t first = 0, total = 0;
};

ListPlace place_of(const Comm& comm, std::int64_t mine) {
  return {comm.sum_below(mine), comm.sum(mine)};
}

// Offset i+1 belongs to the rank of cell i; the leading 0 to rank 0.
void put_offset(const PlanWriter& out, const char* object, std::int64_t num_cells, Range cells, bool root,
                const std::vector<std::int64_t>& local, std::int64_t base) {
  std::vector<std::int64_t> values;
  if (root) values.push_back(0);
  for (std::size_t i = 1; i < local.size(); ++i) values.push_back(base + local[i]);
  const Range items = root ? Range{0, cells.size() + 1} : Range{cells.first + 1, cells.last + 1};
  out.shared(object, {num_cells + 1}, items, values, 1);
}

void put_lists(const Comm& comm, const PlanWriter& out, const PlanHeader& h, const PlanCells& mine) {
  const auto copies = place_of(comm, std::ssize(mine.copies));
  const Range my_copies{copies.first, copies.first + std::ssize(mine.copies)};
  const auto copy = [&](const char* object, auto get) {
    out.shared(object, {copies.total}, my_copies, column(mine.copies, get), 1);
  };
  put_offset(out, "replicas/offset", h.num_cells(), mine.cells, comm.root(), mine.copy_offset, copies.first);
  copy("replicas/expert", [](const Copy& c) { return c.expert.value(); });
  copy("replicas/rank", [](const Copy& c) { return c.rank.value(); });
  copy("replicas/slot", [](const Copy& c) { return c.slot; });

  const auto splits = place_of(comm, std::ssize(mine.split));
  const Range my_splits{splits.first, splits.first + std::ssize(mine.split)};
  const auto split = [&](const char* object, auto get) {
    out.shared(object, {splits.total}, my_splits, column(mine.split, get), 1);
  };
  put_offset(out, "split/offset", h.num_cells(), mine.cells, comm.root(), mine.split_offset, splits.first);
  split("split/expert", [](const SplitEntry& s) { return s.expert.value(); });
  split("split/source", [](const SplitEntry& s) { return s.source.value(); });
  split("split/rank", [](const SplitEntry& s) { return s.rank.value(); });
  split("split/tokens", [](const SplitEntry& s) { return s.tokens; });
}

void put_tables(const PlanWriter& out, const PlanHeader& h, const PlanCells& mine, bool transfers) {
  const std::int64_t m = h.num_micro_batches, l = h.num_layers(), w = h.topology.world();
  if (transfers)
    out.shared("transfer/assignments", {m, l, w, h.topology.ep_size}, mine.cells, mine.transfer, 2);
  out.shared("metrics/rank_tokens", {m, l, w}, mine.cells, mine.rank_tokens, 2);
  out.shared("metrics/rank_tokens_static", {m, l, w}, mine.cells, mine.rank_tokens_static, 2);
}

// Cells without any transfer list cannot say whether one is wanted; then it is written, with nothing in it.
bool agree_on_transfers(const Comm& comm, const PlanHeader& h, const PlanCells& mine) {
  const auto entries = mine.cells.size() * h.topology.world() * h.topology.ep_size;
  const bool any = comm.max(mine.transfer.empty() ? 0 : 1) == 1 || h.num_cells() == 0;
  agreed(comm, [&] {
    if (any && std::ssize(mine.transfer) != entries)
      throw_environment({.where = "plan in memory",
                         .expected = std::to_string(entries) + " transfer entries for these cells",
                         .found = std::to_string(mine.transfer.size())});
  });
  return any;
}

}  // namespace

void write_plan(const Comm& comm, const Plan& plan, const PlanCells& mine, const std::string& path) {
  require_complete(comm, plan, mine);
  const bool transfers = agree_on_transfers(comm, plan.header, mine);
  PendingFile pending(comm, path);
  std::optional<h5::File> file;
  agreed(comm, [&] { file.emplace(h5::File::create(comm, pending.path(), path)); });
  agreed(comm, [&] { put_attributes(*file, plan.header); });
  const PlanWriter out(comm, *file);
  put_replicated(out, plan);
  put_lists(comm, out, plan.header, mine);
  put_tables(out, plan.header, mine, transfers);
  agreed(comm, [&] { file->flush_and_close(); });
  pending.commit();
}

}  // namespace relibra::io
