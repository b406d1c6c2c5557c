#include "lib/job/plan_files.h"

#include <cstdio>
#include <filesystem>
#include <map>

#include "io/dump_file.h"
#include "io/plan_file.h"
#include "lib/base/timer.h"
#include "lib/comm/agree.h"

namespace relibra {
namespace {

/// A source that tells how much of itself has been read; for the progress line.
class WatchedSource final : public RoutingSource {
 public:
  WatchedSource(RoutingSource& source, const Progress& progress) : source_(source), progress_(progress) {}
  const RoutingDump& dump() const override { return source_.dump(); }
  IdType id_type() const override { return source_.id_type(); }
  void read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
            const BlockFn& take) override {
    std::int64_t total = 0, done = 0;
    for (const Range& range : ranges) total += range.size();
    source_.read(ranges, block_bytes, with_weights, [&](const RoutingBlock& block) {
      take(block);
      done += block.rows;
      progress_("count", double(done) / double(total));
    });
  }

 private:
  RoutingSource& source_;
  const Progress& progress_;
};

}  // namespace

PlannedStep plan_dump(const Comm& comm, const std::vector<std::string>& files, const std::string& path,
                      const PlanOptions& options, const CountOptions& count, const PreviousPlan* previous,
                      const Progress& progress) {
  PlannedStep step{.path = path};
  std::vector<PhaseTime> phases;
  const auto timed = [&](const char* name, auto&& work) {
    Timer timer;
    progress(name, 0);
    work();
    progress(name, 1);
    phases.push_back({name, comm.max(timer.seconds())});
  };
  timed("open", [&] { step.source = io::open_dump(comm, files); });
  timed("count", [&] {
    WatchedSource watched(*step.source, progress);
    step.counted = count_routing(comm, watched, count);
  });
  step.bytes_read = comm.sum(step.source->bytes_read());
  step.result = plan_step(comm, step.source->dump(), step.counted, options, previous, progress);
  phases.insert(phases.end(), step.result.phases.begin(), step.result.phases.end());
  timed("write", [&] { io::write_plan(comm, step.result.plan, step.result.mine, path); });
  step.result.phases = std::move(phases);
  return step;
}

std::vector<StepFiles> group_by_step(const Comm& comm, const std::vector<std::string>& files) {
  const std::vector<std::int64_t> steps = io::steps_of(comm, files);
  std::map<std::int64_t, std::vector<std::string>> groups;
  for (std::size_t i = 0; i < files.size(); ++i) groups[steps[i]].push_back(files[i]);
  std::vector<StepFiles> ordered;
  for (auto& [step, names] : groups) ordered.push_back({step, std::move(names)});
  return ordered;
}

std::string plan_path_in(const std::string& folder, std::int64_t step) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%06lld.plan.h5", static_cast<long long>(step));
  return (std::filesystem::path(folder) / name).string();
}

void make_folder(const Comm& comm, const std::string& folder) {
  agreed(comm, [&] {
    if (!comm.root()) return;
    std::error_code failure;
    std::filesystem::create_directories(folder, failure);
    if (!std::filesystem::is_directory(folder))
      throw_environment({.where = folder, .expected = "a folder for plans", .found = failure.message()});
  });
}

PreviousPlan read_previous(const Comm& comm, const std::string& path) {
  return previous_of(io::PlanFile(comm, path).plan());
}

}  // namespace relibra
