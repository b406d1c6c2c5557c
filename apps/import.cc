// relibra import: another program's routing record becomes a dump.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/terminal.h"
#include "lib/base/units.h"
#include "lib/job/import.h"

namespace relibra {
namespace {

struct ImportArguments {
  std::string from, out;
  io::NpyRouting npy{.producer = "npy"};
  bool json = false;
};

int import(const Comm& comm, const ImportArguments& arguments) {
  const CountedRouting counted = import_npy(comm, arguments.npy, arguments.out);
  Terminal terminal(comm);
  for (const std::string& suspicion : counted.findings.suspicions) terminal.say("warning: " + suspicion);
  if (!comm.root()) return 0;
  if (arguments.json) {
    std::cout << nlohmann::json{{"dump", arguments.out},
                                {"assignments", counted.findings.assignments},
                                {"missing", counted.findings.missing},
                                {"digest", counted.digest}}
                     .dump(2)
              << '\n';
  } else {
    std::cout << arguments.out << ": " << format_count(counted.findings.assignments) << " assignments, "
              << format_count(counted.findings.missing) << " missing, digest " << counted.digest << '\n';
  }
  return 0;
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<ImportArguments>();
  io::NpyRouting& npy = arguments->npy;
  app.add_option("FILE", npy.ids, "npy: integer array (rows, layers, top-k) of expert ids")->required();
  app.add_option("--from", arguments->from, "format of FILE")->check(CLI::IsMember({"npy"}))->required();
  app.add_option("-o,--output", arguments->out, "dump to write")->required();
  app.add_option("--experts", npy.num_experts, "experts a layer, E")->required();
  app.add_option("--lengths", npy.rows, "npy: integer array (sequences) of rows; without it one sequence");
  app.add_option("--step", npy.step, "training step")->capture_default_str();
  app.add_option("--first-layer", npy.first_layer, "model block of the first routed layer")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_flag("!--all-tokens-recorded", npy.last_token,
               "rows are all tokens; else each sequence has one more, its last, which has no row");
  add_json(app, arguments->json);
  return [arguments](const Comm& comm) { return import(comm, *arguments); };
}

}  // namespace

extern const Command kImportCommand = {
    "import", "make a dump of another program's routing record",
    "relibra import routing.npy --from npy --experts 64 --lengths rows.npy -o step7.h5", declare};

}  // namespace relibra
