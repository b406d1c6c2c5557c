// relibra report: plans to look at, as one HTML file.
#include <iostream>
#include <memory>

#include "apps/command.h"
#include "apps/options.h"
#include "apps/report_page.h"
#include "apps/terminal.h"
#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/base/units.h"
#include "lib/job/inspect.h"
#include "lib/job/report.h"
#include "lib/job/report_extras.h"
#include "lib/job/write_text.h"

namespace relibra {
namespace {

struct ReportArguments {
  std::vector<std::string> files;
  std::string out, compare, trace;
  std::int64_t max_size = 20'000'000;
};

struct ReportFiles {
  std::vector<std::string> plans, dumps;
};

/// Collective.
ReportFiles sort_out(const Comm& comm, const ReportArguments& arguments) {
  ReportFiles files;
  for (const std::string& file : arguments.files)
    (kind_of(comm, file) == FileKind::plan ? files.plans : files.dumps).push_back(file);
  if (files.plans.empty())
    throw Error(Fault::usage, {.where = "FILE",
                               .expected = "at least one plan",
                               .found = "dumps only",
                               .advice = "'relibra plan' makes a plan of a dump"})
        .as_agreed();
  return files;
}

std::string summary_of(const ReportArguments& arguments, const ReportFiles& files, std::size_t bytes) {
  return arguments.out + ": " + std::to_string(files.plans.size()) +
         (files.plans.size() == 1 ? " plan" : " plans") +
         (files.dumps.empty() ? ", without a dump" : ", with the dump") + "; " + format_bytes(double(bytes));
}

int report(const Comm& comm, const ReportArguments& arguments) {
  Terminal terminal(comm);
  const ReportFiles files = sort_out(comm, arguments);
  const ReportExtras extras = read_extras(comm, arguments.compare, arguments.trace);
  const auto source = files.dumps.empty() ? nullptr : io::open_dump(comm, files.dumps);
  std::vector<ReportedPlan> plans;
  for (const std::string& path : files.plans) {
    const io::PlanFile plan(comm, path);
    plans.push_back(report_plan(comm, view_of(plan), path, source.get(),
                                {.progress = [&](double done) { terminal.progress("recount", done); }}));
  }
  std::string page;
  if (comm.root()) {
    const auto fixed = static_cast<std::int64_t>(kReportPage.head.size() + kReportPage.tail.size());
    const ReportText text = report_text(plans, extras, arguments.max_size - fixed);
    page.append(kReportPage.head).append(text.json).append(kReportPage.tail);
    if (text.left_out > 0)
      terminal.say("relibra report: " + std::to_string(text.left_out) +
                   " micro-batches are shown without loads by expert, to stay below --max-size");
  }
  write_text(comm, arguments.out, page);
  if (comm.root()) std::cout << summary_of(arguments, files, page.size()) << '\n';
  return 0;
}

Run declare(CLI::App& app) {
  const auto arguments = std::make_shared<ReportArguments>();
  app.add_option("FILE", arguments->files,
                 "plans of one step, the first shown first, and, to see loads by expert, their dump (all "
                 "shards)")
      ->required();
  app.add_option("-o,--output", arguments->out, "page to write, one HTML file")->required();
  app.add_option("--compare", arguments->compare, "table of policies that 'compare --json' printed");
  app.add_option("--trace", arguments->trace, "timeline that 'run --trace' wrote");
  add_size(app, "--max-size", arguments->max_size,
           "bytes of the page; beyond it the best balanced micro-batches lose their loads by expert (default "
           "20M)");
  return [arguments](const Comm& comm) { return report(comm, *arguments); };
}

}  // namespace

extern const Command kReportCommand = {"report", "show plans as one HTML page, before and after",
                                       "mpirun -n 4 relibra report step7.plan.h5 step7.h5 -o step7.html",
                                       declare};

}  // namespace relibra
