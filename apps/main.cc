// The driver: parses the command line, runs one subcommand on all ranks, and turns errors into one message
// and an exit status (0 done, 1 a check failed, 2 usage, 3 bad input, 4 the environment failed).
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <vector>

#include "apps/command.h"
#include "io/pending_file.h"
#include "lib/base/error.h"
#include "lib/comm/comm.h"

namespace relibra {
namespace {

struct Declared {
  CLI::App* app;
  Run run;
};

std::vector<Declared> declare(CLI::App& app) {
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("relibra ") + RELIBRA_VERSION);
  app.get_formatter()->column_width(34);
  std::vector<Declared> declared;
  for (const Command& command : commands()) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    sub->footer(std::string("Example:\n  ") + command.example);
    declared.push_back({sub, command.declare(*sub)});
  }
  return declared;
}

/// Every rank parses the same words; rank 0 says what is wrong with them.
int parse_failure(const CLI::App& app, const CLI::ParseError& error, bool speaks) {
  if (error.get_exit_code() == 0) return speaks ? app.exit(error, std::cout, std::cerr) : 0;
  const CLI::App* at = &app;
  for (const CLI::App* sub : app.get_subcommands()) at = sub;
  if (speaks)
    std::fprintf(stderr, "relibra: %s; see 'relibra %s--help'\n", error.what(),
                 at == &app ? "" : (at->get_name() + " ").c_str());
  return static_cast<int>(Fault::usage);
}

/// The parser would only say that a subcommand is required.
void check_name(const std::string& name) {
  std::string names;
  for (const Command& command : commands()) {
    if (name == command.name) return;
    names += (names.empty() ? "" : ", ") + std::string(command.name);
  }
  throw Error(Fault::usage, {.where = "subcommand", .expected = "one of " + names, .found = "'" + name + "'"})
      .as_agreed();
}

int run(const Comm& world, int argc, char** argv) {
  CLI::App app("Plans balanced mixture-of-experts training from a routing record.", "relibra");
  const std::vector<Declared> declared = declare(app);
  if (argc > 1 && argv[1][0] != '-') check_name(argv[1]);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return parse_failure(app, error, world.root());
  }
  for (const Declared& command : declared)
    if (command.app->parsed()) return command.run(world);
  return static_cast<int>(Fault::usage);
}

/// mpirun and Slurm end a job by SIGTERM and kill it seconds later: no partial file stays behind.
void end_by_signal(int signal) {
  io::remove_pending_file_in_signal_handler();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

volatile std::sig_atomic_t notices = 0;

void take_notice(int) {
  notices = 1;
}

int fail(const Comm& world, const Error& error) {
  if (!error.agreed() || world.root()) std::fprintf(stderr, "relibra: %s\n", error.what());
  if (!error.agreed() && world.size() > 1) MPI_Abort(world.handle(), error.exit_status());
  return error.exit_status();
}

}  // namespace

bool has_notice() {
  return notices != 0;
}

}  // namespace relibra

int main(int argc, char** argv) {
  using namespace relibra;
  std::signal(SIGUSR1, take_notice);
  try {
    MpiSession mpi(&argc, &argv);
    const Comm world = Comm::world();
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) std::signal(signal, end_by_signal);
    try {
      const int status = run(world, argc, argv);
      if (!std::cout.flush()) throw_environment({.where = "standard output", .found = "a write that failed"});
      return status;
    } catch (...) {
      return fail(world, to_error(std::current_exception()));
    }
  } catch (const Error& error) {
    std::fprintf(stderr, "relibra: %s\n", error.what());
    return error.exit_status();
  }
}
