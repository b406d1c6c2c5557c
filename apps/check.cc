// relibra check: every rule of a plan, by a recount against its dump.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/terminal.h"
#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/base/units.h"
#include "lib/job/check.h"

namespace relibra {
namespace {

struct CheckArguments {
  std::string plan, previous;
  std::vector<std::string> dumps;
  bool first = false, no_transfers = false, json = false;
};

void print(const CheckReport& report, const CheckArguments& arguments) {
  for (const std::string& rule : report.broken) std::cout << "BROKEN " << rule << '\n';
  if (report.broken_count > std::int64_t(report.broken.size()))
    std::cout << "... " << format_count(report.broken_count) << " in all\n";
  std::cout << arguments.plan << ": "
            << (report.valid() ? "every rule holds" : format_count(report.broken_count) + " broken rules")
            << "; " << format_count(report.totals.assignments) << " assignments recounted\n";
}

int check(const Comm& comm, const CheckArguments& arguments) {
  Terminal terminal(comm);
  const io::PlanFile plan(comm, arguments.plan, io::ListEntries::as_written);
  std::optional<io::PlanFile> previous;
  CheckOptions options{.require_transfers = !arguments.no_transfers};
  if (!arguments.previous.empty()) {
    previous.emplace(comm, arguments.previous);
    options.previous = {PreviousKnown::Kind::plan, &previous->plan()};
  } else if (arguments.first) {
    options.previous.kind = PreviousKnown::Kind::none;
  }
  options.recount.progress = [&](double done) { terminal.progress("check", done); };
  const auto source = io::open_dump(comm, arguments.dumps);
  const CheckReport report = check_plan(comm, *source, view_of(plan), options);
  if (comm.root()) {
    if (arguments.json)
      std::cout << check_json(plan.plan(), report).dump(2) << '\n';
    else
      print(report, arguments);
  }
  return report.valid() ? 0 : static_cast<int>(Fault::check);
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<CheckArguments>();
  app.add_option("PLAN", arguments->plan, "plan file")->required();
  add_dumps(app, arguments->dumps);
  auto* previous = app.add_option("--previous", arguments->previous,
                                  "plan of the step before: checks where experts were, and their slots");
  app.add_flag("--first", arguments->first, "there was no plan before")->excludes(previous);
  app.add_flag("--no-transfers", arguments->no_transfers, "accept a plan without /transfer");
  add_json(app, arguments->json);
  return [arguments](const Comm& comm) { return check(comm, *arguments); };
}

}  // namespace

extern const Command kCheckCommand = {"check", "check every rule of a plan against its dump",
                                      "mpirun -n 4 relibra check step7.plan.h5 step7.h5", declare};

}  // namespace relibra
