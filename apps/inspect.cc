// relibra inspect: what is in a dump or a plan, in a screenful.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/summary.h"
#include "io/plan_file.h"
#include "lib/base/units.h"
#include "lib/job/inspect.h"
#include "lib/job/metrics.h"

namespace relibra {
namespace {

struct InspectArguments {
  std::vector<std::string> files;
  bool deep = false, json = false;
};

std::string of(const Statistics& s) {
  char text[120];
  std::snprintf(text, sizeof text, "mean %.1f, median %.0f, p99 %.0f, longest %.0f", s.mean, s.p50, s.p99,
                s.max);
  return text;
}

void print_columns(std::ostream& out, const DumpFacts& f) {
  out << "  micro-batches: ";
  if (f.rows_of_micro_batch.count > 0)
    out << f.micro_batches << ", fixed by the dump; rows " << of(f.rows_of_micro_batch);
  else if (f.micro_batches > 0)
    out << f.micro_batches << " to form";
  else
    out << "the planner forms them";
  if (f.header.optimizer_steps > 1) out << "; " << f.header.optimizer_steps << " optimizer steps";
  out << "\n  source ranks: ";
  if (f.source_ranks > 0)
    out << "fixed by the dump, 0.." << f.source_ranks - 1 << '\n';
  else
    out << "the planner assigns them\n";
  if (f.prompt_groups > 0) out << "  prompt groups: " << format_count(f.prompt_groups) << '\n';
  if (f.domains.empty()) return;
  out << "  domains:";
  for (const auto& [name, sequences] : f.domains) out << ' ' << name << ' ' << format_count(sequences);
  out << '\n';
}

void print_deep(std::ostream& out, const DeepFindings& deep) {
  const auto all = deep.routing.assignments + deep.routing.missing;
  out << "  digest " << deep.digest << '\n'
      << "  " << format_count(deep.routing.assignments) << " assignments, "
      << format_count(deep.routing.missing) << " missing ("
      << (all > 0 ? 100.0 * double(deep.routing.missing) / double(all) : 0.0) << " %)\n";
  char text[120];
  std::snprintf(text, sizeof text, "  busiest expert over mean, of %lld layers: mean %.2f, most %.2f\n",
                static_cast<long long>(deep.busiest.count), deep.busiest.mean, deep.busiest.max);
  out << text;
  for (const std::string& suspicion : deep.routing.suspicions) out << "  suspect: " << suspicion << '\n';
}

void print_dump(std::ostream& out, const std::vector<std::string>& files, const DumpFacts& f) {
  const RoutingHeader& h = f.header;
  out << files.front() << (files.size() > 1 ? " and other shards" : "") << ": dump of step " << h.step;
  if (!h.model.empty()) out << ", model " << h.model;
  if (!h.producer.empty()) out << ", by " << h.producer;
  out << "\n  " << h.num_layers() << " layers (blocks " << h.layers.front() << ".." << h.layers.back()
      << "), " << h.num_experts << " experts, top " << h.top_k << "\n  " << format_count(f.rows)
      << " rows of " << format_count(f.sequences) << " sequences, " << format_count(f.tokens)
      << " tokens; ids " << name_of(f.id_type) << ", " << format_bytes(double(f.id_bytes))
      << (h.has_weights ? ", with gate weights" : "") << "\n  rows a sequence: " << of(f.sequence_rows)
      << '\n';
  print_columns(out, f);
  if (f.deep)
    print_deep(out, *f.deep);
  else
    out << "  --deep reads and validates every row\n";
}

int inspect_plan(const Comm& comm, const InspectArguments& arguments) {
  if (arguments.files.size() > 1)
    throw_usage({.where = "FILE",
                 .expected = "one plan, or one dump and its shards",
                 .found = std::to_string(arguments.files.size()) + " files, the first a plan"});
  const io::PlanFile plan(comm, arguments.files.front());
  const PlanSamples samples = measure_tables(comm, view_of(plan));
  if (!comm.root()) return 0;
  if (arguments.json)
    std::cout << plan_json(plan.plan(), plan.has_transfers(), samples).dump(2) << '\n';
  else
    print_plan(std::cout, plan.path(), plan.plan(), samples);
  return 0;
}

int inspect(const Comm& comm, const InspectArguments& arguments) {
  if (kind_of(comm, arguments.files.front()) == FileKind::plan) return inspect_plan(comm, arguments);
  const DumpFacts facts = inspect_dump(comm, arguments.files, arguments.deep);
  if (!comm.root()) return 0;
  if (arguments.json)
    std::cout << dump_json(facts).dump(2) << '\n';
  else
    print_dump(std::cout, arguments.files, facts);
  return 0;
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<InspectArguments>();
  app.add_option("FILE", arguments->files, "a plan, or a dump (all shards of a step)")->required();
  app.add_flag("--deep", arguments->deep, "of a dump: read and validate every row");
  add_json(app, arguments->json);
  return [arguments](const Comm& comm) { return inspect(comm, *arguments); };
}

}  // namespace

extern const Command kInspectCommand = {"inspect", "show what is in a dump or a plan",
                                        "relibra inspect step7.h5 --deep", declare};

}  // namespace relibra
