// relibra synth: a dump with the statistics of RL routing.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/options.h"
#include "lib/base/timer.h"
#include "lib/base/units.h"
#include "lib/job/synth.h"

namespace relibra {
namespace {

struct SynthArguments {
  std::string out, preset, counts, counts_model;
  std::optional<std::int64_t> sequences;
  std::optional<int> micro_batches;
  std::optional<double> scale;
  bool open_micro_batches = false, json = false;
  WorkloadOptions given;  ///< fields whose options have the workload's own defaults
  io::DumpWriteOptions write;
};

WorkloadOptions workload_of(const Comm& comm, const SynthArguments& arguments) {
  WorkloadOptions workload = workload_options(model_preset(arguments.preset));
  workload.seed = arguments.given.seed;
  workload.step = arguments.given.step;
  workload.drift = arguments.given.drift;
  workload.source_ranks = arguments.given.source_ranks;
  workload.missing_share = arguments.given.missing_share;
  workload.fixed_micro_batches = !arguments.open_micro_batches;
  if (arguments.scale) workload.scale = *arguments.scale;
  if (arguments.sequences) workload.sequences = *arguments.sequences;
  if (arguments.micro_batches) workload.micro_batches = *arguments.micro_batches;
  if (arguments.open_micro_batches) workload.micro_batches = 0;
  if (!arguments.counts.empty())
    workload.popularity = read_popularity(comm, arguments.counts, arguments.counts_model);
  return workload;
}

int synth(const Comm& comm, const SynthArguments& arguments) {
  Timer timer;
  const WorkloadOptions workload = workload_of(comm, arguments);
  const SynthResult made = synthesise(comm, workload, arguments.out, arguments.write);
  if (!comm.root()) return 0;
  if (arguments.json) {
    std::cout << nlohmann::ordered_json{{"dump", arguments.out},     {"model", workload.model},
                                        {"layers", workload.layers}, {"experts", workload.experts},
                                        {"top_k", workload.top_k},   {"sequences", made.sequences},
                                        {"rows", made.rows},         {"id_bytes", made.id_bytes},
                                        {"seconds", timer.seconds()}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << arguments.out << ": " << workload.model << ", " << workload.layers << " layers, "
              << workload.experts << " experts, top " << workload.top_k << "; "
              << format_count(made.sequences) << " sequences, " << format_count(made.rows) << " rows, "
              << format_bytes(double(made.id_bytes)) << " of ids in " << format_seconds(timer.seconds())
              << '\n';
  }
  return 0;
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<SynthArguments>();
  WorkloadOptions& given = arguments->given;
  app.add_option("-o,--output", arguments->out, "dump to write")->required();
  app.add_option("--preset", arguments->preset, "shape of a model")
      ->required()
      ->check(CLI::IsMember(model_names()))
      ->type_name("NAME");
  add_share(app, "--scale", arguments->scale, "of the tokens of 5 million a step, such as 1/16 or 10%");
  app.add_option("--sequences", arguments->sequences, "answers in the step (default 1024; tiny: 128)");
  auto* micro_batches =
      app.add_option("--micro-batches", arguments->micro_batches,
                     "micro-batches, equal runs of sequences in order (default 32; tiny: 8)");
  app.add_flag("--no-micro-batches", arguments->open_micro_batches, "leave micro-batches to the planner")
      ->excludes(micro_batches);
  app.add_option("--source-ranks", given.source_ranks,
                 "place sequences on this many ranks, in order; 0 leaves that to the planner")
      ->capture_default_str();
  app.add_option("--seed", given.seed, "of everything drawn")->capture_default_str();
  app.add_option("--step", given.step, "training step: other sequences, and a model that has drifted")
      ->capture_default_str();
  app.add_option("--drift", given.drift, "share by which the model's routing walks in a step")
      ->capture_default_str();
  add_share(app, "--missing", given.missing_share, "share of rows without routes (default 0)");
  auto* counts = app.add_option("--from-counts", arguments->counts,
                                "table model,domain,layer,expert,count: measured popularity of experts");
  app.add_option("--counts-model", arguments->counts_model, "model of the table, where it holds several")
      ->needs(counts);
  app.add_flag("--deflate", arguments->write.deflate, "compress (about 15 times slower to read)");
  add_json(app, arguments->json);
  return [arguments](const Comm& comm) { return synth(comm, *arguments); };
}

}  // namespace

extern const Command kSynthCommand = {
    "synth", "write a dump with the statistics of RL routing",
    "mpirun -n 2 relibra synth -o step0.h5 --preset qwen3-30b --scale 1/16 --seed 1", declare};

}  // namespace relibra
