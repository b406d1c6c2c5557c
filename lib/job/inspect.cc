#include "lib/job/inspect.h"

#include <algorithm>
#include <map>
#include <set>

#include "io/dump_file.h"
#include "io/hdf5.h"
#include "lib/comm/agree.h"
#include "lib/job/metrics.h"

namespace relibra {
namespace {

using Json = nlohmann::ordered_json;

int largest_plus_one(const std::vector<std::int32_t>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end()) + 1;
}

void count_columns(const Sequences& sequences, DumpFacts& facts) {
  std::vector<double> rows;
  std::vector<double> of_micro_batch(static_cast<std::size_t>(largest_plus_one(sequences.micro_batch)));
  for (std::int64_t s = 0; s < sequences.size(); ++s) {
    rows.push_back(static_cast<double>(sequences.rows(s)));
    facts.tokens += sequences.num_tokens[static_cast<std::size_t>(s)];
    if (!sequences.micro_batch.empty())
      of_micro_batch[static_cast<std::size_t>(sequences.micro_batch[static_cast<std::size_t>(s)])] +=
          rows.back();
  }
  facts.sequence_rows = statistics(std::move(rows));
  facts.rows_of_micro_batch = statistics(std::move(of_micro_batch));
  facts.source_ranks = largest_plus_one(sequences.source_rank);
  facts.prompt_groups = std::ssize(std::set<std::int32_t>(sequences.group.begin(), sequences.group.end()));
  std::map<std::string, std::int64_t> domains;
  for (const std::string& domain : sequences.domain) ++domains[domain];
  facts.domains.assign(domains.begin(), domains.end());
}

/// Collective. Of the layers that each rank owns.
DeepFindings look_deeply(const Comm& comm, RoutingSource& source, const CountOptions& options) {
  CountOptions tolerant = options;
  tolerant.max_missing = 1;  // inspect says what is there; plan decides whether it is enough
  const CountedRouting counted = count_routing(comm, source, tolerant);
  std::vector<double> busiest;
  const SequenceCounts& counts = counted.counts;
  for (std::int64_t l = counts.layers().first; l < counts.layers().last; ++l) {
    std::vector<std::int64_t> load(static_cast<std::size_t>(counts.experts()));
    for (std::int64_t s = 0; s < counts.sequences(); ++s) {
      const auto of = counts.of(LayerId(l), s);
      for (std::size_t e = 0; e < load.size(); ++e) load[e] += of[e];
    }
    std::int64_t total = 0;
    for (std::int64_t tokens : load) total += tokens;
    if (total > 0)
      busiest.push_back(static_cast<double>(*std::max_element(load.begin(), load.end()) * counts.experts()) /
                        static_cast<double>(total));
  }
  return {.digest = counted.digest,
          .routing = counted.findings,
          .busiest = statistics(comm.gather_all(std::span<const double>(busiest)))};
}

}  // namespace

FileKind kind_of(const Comm& comm, const std::string& path) {
  int is_plan = 0;
  agreed(comm, [&] {
    if (!comm.root()) return;
    io::h5::file_is_there(path);
    const std::string format = io::h5::File::open(path).find_string("format").value_or("");
    if (format != "relibra.plan" && format != "relibra.routing")
      throw_input(
          {.where = path + ": attribute 'format'",
           .expected = "'relibra.routing' (a dump) or 'relibra.plan'",
           .found = format.empty() ? "none" : "'" + format + "'",
           .advice = "docs/formats.md describes both; 'relibra import' makes dumps of other records"});
    is_plan = format == "relibra.plan";
  });
  comm.broadcast(is_plan);
  return is_plan ? FileKind::plan : FileKind::dump;
}

DumpFacts inspect_dump(const Comm& comm, const std::vector<std::string>& files, bool deep,
                       const CountOptions& count) {
  const auto source = io::open_dump(comm, files);
  const RoutingDump& dump = source->dump();
  DumpFacts facts;
  facts.header = dump.header;
  facts.id_type = source->id_type();
  facts.rows = dump.sequences.total_rows();
  facts.sequences = dump.sequences.size();
  facts.id_bytes = facts.rows * dump.header.num_layers() * dump.header.top_k *
                   static_cast<std::int64_t>(size_of(facts.id_type));
  facts.micro_batches = dump.header.num_micro_batches.value_or(largest_plus_one(dump.sequences.micro_batch));
  count_columns(dump.sequences, facts);
  if (deep) facts.deep = look_deeply(comm, *source, count);
  return facts;
}

const char* name_of(IdType type) {
  constexpr const char* kNames[] = {"u8", "i8", "u16", "i16", "i32"};
  return kNames[static_cast<int>(type)];
}

Json dump_json(const DumpFacts& f) {
  const RoutingHeader& h = f.header;
  const auto or_null = [](auto value) { return value == 0 ? Json(nullptr) : Json(value); };
  Json json = {{"kind", "dump"},
               {"step", h.step},
               {"num_experts", h.num_experts},
               {"top_k", h.top_k},
               {"num_layers", h.num_layers()},
               {"layers", h.layers},
               {"rows", f.rows},
               {"sequences", f.sequences},
               {"tokens", f.tokens},
               {"id_type", name_of(f.id_type)},
               {"id_bytes", f.id_bytes},
               {"weights", h.has_weights},
               {"missing_id", h.missing_id ? Json(*h.missing_id) : Json(nullptr)},
               {"model", h.model},
               {"producer", h.producer},
               {"sequence_rows", statistics_json(f.sequence_rows)},
               {"num_micro_batches", or_null(f.micro_batches)},
               {"rows_of_micro_batch", statistics_json(f.rows_of_micro_batch)},
               {"optimizer_steps", h.optimizer_steps},
               {"source_ranks", or_null(f.source_ranks)},
               {"prompt_groups", or_null(f.prompt_groups)},
               {"domains", Json::object()},
               {"deep", nullptr}};
  for (const auto& [name, sequences] : f.domains) json["domains"][name] = sequences;
  if (f.deep)
    json["deep"] = {{"digest", f.deep->digest},
                    {"assignments", f.deep->routing.assignments},
                    {"missing", f.deep->routing.missing},
                    {"suspicions", f.deep->routing.suspicions},
                    {"busiest_expert_over_mean", statistics_json(f.deep->busiest)}};
  return json;
}

Json plan_json(const Plan& plan, bool transfers, const PlanSamples& samples) {
  Json json = {{"kind", "plan"}};
  json.update(header_json(plan.header));
  json["sequences"] = plan.sequences();
  json["transfers"] = transfers;
  json["summary"] = summary_json(plan, samples, {});
  return json;
}

}  // namespace relibra
