#include "io/plan_read.h"

#include <limits>

#include "io/hdf5.h"

namespace relibra::io {
namespace {

constexpr std::int64_t kMostInt = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMostOfAnything =
    1 << 24;  // experts, layers, ranks: a damaged count must not size a table

[[noreturn]] void throw_value(const std::string& where, std::int64_t least, std::int64_t most,
                              std::int64_t found, const std::string& place = "") {
  throw_input({.where = where,
               .expected = "values from " + std::to_string(least) + " to " + std::to_string(most),
               .found = std::to_string(found) + place});
}

int int_attribute(const h5::File& file, const char* name, std::int64_t least, std::int64_t most) {
  const std::int64_t value = file.get_int(name);
  if (value < least || value > most) throw_value(file.name() + ":" + name, least, most, value);
  return static_cast<int>(value);
}

void require_format(const h5::File& file) {
  const auto format = file.find_string("format");
  if (format != "relibra.plan")
    throw_input({.where = file.name(),
                 .expected = "a plan (attribute format = \"relibra.plan\")",
                 .found = format ? "format \"" + *format + "\"" : "no such attribute"});
  if (const auto version = file.get_int("version"); version != 1)
    throw_input({.where = file.name() + ":version",
                 .expected = "1",
                 .found = std::to_string(version),
                 .advice = "a newer relibra may read it"});
}

ReplicaDomain read_domain(const h5::File& file) {
  const std::string domain = file.get_string("replica_domain");
  if (domain == "node") return ReplicaDomain::node;
  if (domain == "group") return ReplicaDomain::group;
  throw_input({.where = file.name() + ":replica_domain",
               .expected = "\"node\" or \"group\"",
               .found = "\"" + domain + "\""});
}

Topology read_topology(const h5::File& file) {
  Topology t;
  t.ep_size = int_attribute(file, "ep_size", 1, kMostOfAnything);
  t.ep_groups = int_attribute(file, "num_ep_groups", 1, kMostOfAnything / t.ep_size);
  t.gpus_per_node = int_attribute(file, "gpus_per_node", 1, kMostInt);
  if (t.gpus_per_node % t.ep_size != 0 && t.ep_size % t.gpus_per_node != 0)
    throw_input({.where = file.name() + ":gpus_per_node",
                 .expected = "a divisor or a multiple of ep_size " + std::to_string(t.ep_size),
                 .found = std::to_string(t.gpus_per_node)});
  return t;
}

PlanHeader read_header(const h5::File& file) {
  PlanHeader h;
  h.step = file.get_int("step");
  h.policy = file.get_string("policy");
  h.seed = static_cast<std::uint64_t>(file.get_int("seed"));
  h.tool = file.get_string("tool");
  h.num_experts = int_attribute(file, "num_experts", 1, kMostOfAnything);
  h.top_k = int_attribute(file, "top_k", 1, h.num_experts);
  h.num_micro_batches = int_attribute(file, "num_micro_batches", 0, kMostInt);
  h.topology = read_topology(file);
  h.slots_per_rank = int_attribute(file, "slots_per_rank", 1, kMostOfAnything);
  h.replica_slots = int_attribute(file, "replica_slots", 0, kMostOfAnything);
  h.physical_slots = int_attribute(file, "physical_slots", 1, h.slots_per_rank + h.replica_slots);
  h.replica_domain = read_domain(file);
  h.dump_digest = file.get_string("dump_digest");
  h.search_moves = file.get_int("search_moves");
  h.folded_copies = file.find_int("folded_copies").value_or(0);
  const auto layers = file.dataset("layers");
  layers.require_shape({int_attribute(file, "num_layers", 1, kMostOfAnything)});
  h.layers = layers.integers<std::int32_t>();
  return h;
}

/// All values of a dataset of this shape, each from `least` to `most`.
std::vector<std::int32_t> read_table(const h5::File& file, const char* object,
                                     const std::vector<std::int64_t>& shape, std::int64_t least,
                                     std::int64_t most) {
  const auto data = file.dataset(object);
  data.require_shape(shape);
  auto values = data.integers<std::int32_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < least || values[i] > most)
      throw_value(data.where(), least, most, values[i], " at element " + std::to_string(i));
  return values;
}

Placement read_placement(const h5::File& file, const char* object, const PlanHeader& h) {
  return placement_of(h,
                      read_table(file, object, {h.num_layers(), h.num_experts}, 0, h.topology.ep_size - 1));
}

std::vector<Move> read_moves(const h5::File& file) {
  const auto data = file.dataset("placement/moves");
  data.require_shape({-1, 4});
  const auto values = data.integers<std::int32_t>();
  std::vector<Move> moves;
  for (std::size_t i = 0; i < values.size(); i += 4)
    moves.push_back(
        {LayerId(values[i]), ExpertId(values[i + 1]), EpRankId(values[i + 2]), EpRankId(values[i + 3])});
  return moves;
}

/// Offsets of a CSR list over all cells; the list's columns must be as long as they say.
std::vector<std::int64_t> read_offsets(const h5::File& file, const std::string& list, std::int64_t cells,
                                       std::initializer_list<const char*> columns) {
  const auto data = file.dataset(list + "/offset");
  data.require_shape({cells + 1});
  auto offset = data.integers<std::int64_t>();
  if (offset.front() != 0)
    throw_input({.where = data.where(),
                 .expected = "offsets that start at 0",
                 .found = std::to_string(offset.front())});
  for (std::size_t i = 1; i < offset.size(); ++i)
    if (offset[i] < offset[i - 1])
      throw_input({.where = data.where(),
                   .expected = "offsets that never fall",
                   .found = std::to_string(offset[i]) + " after " + std::to_string(offset[i - 1]) +
                            " at cell " + std::to_string(i - 1)});
  for (const char* column : columns) {
    const auto entries = file.dataset(list + "/" + column);
    if (entries.type().kind != h5::ElementType::Kind::integer)
      throw_input({.where = entries.where(), .expected = "integers", .found = entries.type().text()});
    entries.require_shape({offset.back()});
  }
  return offset;
}

void require_table(const h5::File& file, const char* object, const std::vector<std::int64_t>& shape) {
  const auto data = file.dataset(object);
  if (data.type().kind != h5::ElementType::Kind::integer)
    throw_input({.where = data.where(), .expected = "integers", .found = data.type().text()});
  data.require_shape(shape);
}

}  // namespace

std::vector<std::int32_t> homes_of(const Placement& placement) {
  std::vector<std::int32_t> homes;
  for (LayerId l : all<LayerId>(placement.layers()))
    for (EpRankId r : placement.layer(l)) homes.push_back(r.value());
  return homes;
}

Placement placement_of(const PlanHeader& h, const std::vector<std::int32_t>& homes) {
  Placement placement(h.num_layers(), h.num_experts);
  auto home = homes.begin();
  for (LayerId l : all<LayerId>(h.num_layers()))
    for (EpRankId& r : placement.layer(l)) r = EpRankId(*home++);
  return placement;
}

PlanParts read_plan_parts(const std::string& path) {
  const auto file = h5::File::open(path);
  require_format(file);
  PlanParts parts;
  Plan& plan = parts.plan;
  const PlanHeader& h = plan.header = read_header(file);
  const std::int64_t world = h.topology.world();
  plan.placement = read_placement(file, "placement/expert_rank", h);
  plan.previous = read_placement(file, "placement/previous_rank", h);
  for (std::int32_t e :
       read_table(file, "placement/slot_expert", {h.num_layers(), h.topology.ep_size, h.slots_per_rank}, -1,
                  h.num_experts - 1))
    plan.slot_expert.emplace_back(e);
  parts.moves = read_moves(file);
  plan.micro_batch = read_table(file, "sequences/micro_batch", {-1}, 0, h.num_micro_batches - 1);
  plan.source_rank = read_table(file, "sequences/source_rank", {plan.sequences()}, 0, world - 1);
  parts.copy_offset = read_offsets(file, "replicas", h.num_cells(), {"expert", "rank", "slot"});
  parts.split_offset = read_offsets(file, "split", h.num_cells(), {"expert", "source", "rank", "tokens"});
  require_table(file, "metrics/rank_tokens", {h.num_micro_batches, h.num_layers(), world});
  require_table(file, "metrics/rank_tokens_static", {h.num_micro_batches, h.num_layers(), world});
  parts.has_transfers = file.has("transfer/assignments");
  if (parts.has_transfers)
    require_table(file, "transfer/assignments",
                  {h.num_micro_batches, h.num_layers(), world, h.topology.ep_size});
  return parts;
}

void require_entries_in_range(const std::string& path, const PlanHeader& h, const PlanCells& cells) {
  const auto check = [&](const char* object, std::size_t entry, std::int64_t value, std::int64_t least,
                         std::int64_t most) {
    if (value < least || value > most)
      throw_value(path + ":/" + object, least, most, value,
                  " at entry " + std::to_string(entry) + " of cells " + std::to_string(cells.cells.first) +
                      " to " + std::to_string(cells.cells.last));
  };
  const std::int64_t experts = h.num_experts, world = h.topology.world();
  for (std::size_t i = 0; i < cells.copies.size(); ++i) {
    check("replicas/expert", i, cells.copies[i].expert.value(), 0, experts - 1);
    check("replicas/rank", i, cells.copies[i].rank.value(), 0, world - 1);
    check("replicas/slot", i, cells.copies[i].slot, 0, h.replica_slots - 1);
  }
  for (std::size_t i = 0; i < cells.split.size(); ++i) {
    check("split/expert", i, cells.split[i].expert.value(), 0, experts - 1);
    check("split/source", i, cells.split[i].source.value(), 0, world - 1);
    check("split/rank", i, cells.split[i].rank.value(), 0, world - 1);
    check("split/tokens", i, cells.split[i].tokens, 1, kMostInt);
  }
}

}  // namespace relibra::io
