#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "io/hdf5.h"
#include "io/pending_file.h"
#include "io/plan_file.h"
#include "io/plan_read.h"
#include "io/slab_file.h"
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
  if (h.folded_copies > 0) file.put_int64("folded_copies", h.folded_copies);
}

/// A dataset that ranks share out: this rank's stretch of it, as bytes.
struct Slab {
  const char* object;
  hid_t type;
  std::vector<std::int64_t> shape;
  std::int64_t first = 0;  ///< byte in the dataset
  std::vector<std::byte> data;
};

template <class T>
Slab slab(const char* object, std::vector<std::int64_t> shape, std::int64_t first_element,
          const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {object,
          native_type<T>(),
          std::move(shape),
          first_element * static_cast<std::int64_t>(sizeof(T)),
          {bytes.begin(), bytes.end()}};
}

template <class List, class Get>
std::vector<std::int32_t> column(const List& list, Get&& get) {
  std::vector<std::int32_t> values;
  values.reserve(list.size());
  for (const auto& item : list) values.push_back(get(item));
  return values;
}

void put(const h5::File& file, const char* object, const std::vector<std::int64_t>& shape,
         const std::vector<std::int32_t>& values) {
  const auto type = native_type<std::int32_t>();
  file.create(object, type, shape)
      .write_items({0, shape[0]}, type, values.data(), h5::Transfer::independent());
}

void put_replicated(const h5::File& file, const Plan& plan) {
  const PlanHeader& h = plan.header;
  const std::int64_t layers = h.num_layers(), sequences = plan.sequences();
  put(file, "layers", {layers}, h.layers);
  put(file, "placement/expert_rank", {layers, h.num_experts}, homes_of(plan.placement));
  put(file, "placement/slot_expert", {layers, h.topology.ep_size, h.slots_per_rank},
      column(plan.slot_expert, [](ExpertId e) { return e.value(); }));
  put(file, "placement/previous_rank", {layers, h.num_experts}, homes_of(plan.previous));
  std::vector<std::int32_t> moves;
  for (const Move& m : moves_between(plan.previous, plan.placement))
    for (std::int32_t v : {m.layer.value(), m.expert.value(), m.from.value(), m.to.value()})
      moves.push_back(v);
  put(file, "placement/moves", {std::ssize(moves) / 4, 4}, moves);
  put(file, "sequences/micro_batch", {sequences}, plan.micro_batch);
  put(file, "sequences/source_rank", {sequences}, plan.source_rank);
}

/// Where this rank's part of a CSR list stands in the whole.
struct ListPlace {
  std::int64_t first = 0, total = 0;
};

ListPlace place_of(const Comm& comm, std::int64_t mine) {
  return {comm.sum_below(mine), comm.sum(mine)};
}

// Offset i+1 belongs to the rank of cell i; the leading 0 to rank 0.
Slab offset_slab(const char* object, std::int64_t num_cells, Range cells, bool root,
                 const std::vector<std::int64_t>& local, std::int64_t base) {
  std::vector<std::int64_t> values;
  if (root) values.push_back(0);
  for (std::size_t i = 1; i < local.size(); ++i) values.push_back(base + local[i]);
  return slab(object, {num_cells + 1}, root ? 0 : cells.first + 1, values);
}

void add_lists(const Comm& comm, const PlanHeader& h, const PlanCells& mine, std::vector<Slab>& slabs) {
  const ListPlace copies = place_of(comm, std::ssize(mine.copies));
  const auto copy = [&](const char* object, auto get) {
    slabs.push_back(slab(object, {copies.total}, copies.first, column(mine.copies, get)));
  };
  slabs.push_back(
      offset_slab("replicas/offset", h.num_cells(), mine.cells, comm.root(), mine.copy_offset, copies.first));
  copy("replicas/expert", [](const Copy& c) { return c.expert.value(); });
  copy("replicas/rank", [](const Copy& c) { return c.rank.value(); });
  copy("replicas/slot", [](const Copy& c) { return c.slot; });

  const ListPlace splits = place_of(comm, std::ssize(mine.split));
  const auto split = [&](const char* object, auto get) {
    slabs.push_back(slab(object, {splits.total}, splits.first, column(mine.split, get)));
  };
  slabs.push_back(
      offset_slab("split/offset", h.num_cells(), mine.cells, comm.root(), mine.split_offset, splits.first));
  split("split/expert", [](const SplitEntry& s) { return s.expert.value(); });
  split("split/source", [](const SplitEntry& s) { return s.source.value(); });
  split("split/rank", [](const SplitEntry& s) { return s.rank.value(); });
  split("split/tokens", [](const SplitEntry& s) { return s.tokens; });
}

void add_tables(const PlanHeader& h, const PlanCells& mine, bool transfers, std::vector<Slab>& slabs) {
  const std::int64_t m = h.num_micro_batches, l = h.num_layers(), w = h.topology.world(),
                     p = h.topology.ep_size, first = mine.cells.first;
  if (transfers) slabs.push_back(slab("transfer/assignments", {m, l, w, p}, first * w * p, mine.transfer));
  slabs.push_back(slab("metrics/rank_tokens", {m, l, w}, first * w, mine.rank_tokens));
  slabs.push_back(slab("metrics/rank_tokens_static", {m, l, w}, first * w, mine.rank_tokens_static));
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

std::int64_t bytes_of(const Plan& plan, const std::vector<Slab>& slabs) {
  std::int64_t bytes = std::int64_t{1} << 16;  // attributes, groups, headers
  bytes += 4 * (3 * std::ssize(plan.slot_expert) +
                8 * std::int64_t{plan.header.num_layers()} * plan.header.num_experts + 2 * plan.sequences());
  for (const Slab& s : slabs) {
    std::int64_t count = 1;
    for (std::int64_t n : s.shape) count *= n;
    bytes += count * static_cast<std::int64_t>(H5Tget_size(s.type));
  }
  return bytes;
}

/// Local, rank 0: the whole file but for the slabs, whose places it returns.
std::vector<std::int64_t> lay_out(const PendingFile& pending, const Plan& plan,
                                  const std::vector<Slab>& slabs) {
  reserve(pending.path(), bytes_of(plan, slabs), pending.target());
  auto file = h5::File::create(pending.path(), pending.target());
  put_attributes(file, plan.header);
  put_replicated(file, plan);
  std::vector<std::int64_t> places;
  for (const Slab& s : slabs) places.push_back(file.create(s.object, s.type, s.shape).file_offset());
  file.close();
  reserve(pending.path(), static_cast<std::int64_t>(std::filesystem::file_size(pending.path())),
          pending.target());
  return places;
}

}  // namespace

void write_plan(const Comm& comm, const Plan& plan, const PlanCells& mine, const std::string& path) {
  require_complete(comm, plan, mine);
  std::vector<Slab> slabs;
  const bool transfers = agree_on_transfers(comm, plan.header, mine);
  add_lists(comm, plan.header, mine, slabs);
  add_tables(plan.header, mine, transfers, slabs);

  PendingFile pending(comm, path);
  std::vector<std::int64_t> places;
  agreed(comm, [&] {
    if (comm.root()) places = lay_out(pending, plan, slabs);
  });
  comm.broadcast(places);
  agreed(comm, [&] {
    SlabFile file(pending.path(), path);
    for (std::size_t i = 0; i < slabs.size(); ++i) file.write(places[i] + slabs[i].first, slabs[i].data);
    file.flush();
  });
  pending.commit();
}

}  // namespace relibra::io
