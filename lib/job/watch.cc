#include "lib/job/watch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>

#include "lib/base/units.h"
#include "lib/comm/agree.h"
#include "lib/comm/idle_wait.h"
#include "lib/job/plan_files.h"
#include "lib/job/plan_places.h"
#include "lib/job/step_report.h"
#include "lib/job/watch_inbox.h"
#include "lib/job/watch_lock.h"
#include "lib/job/write_text.h"

namespace relibra {
namespace {

constexpr double kHeartbeat = 10;     // seconds after which a status that did not change is written again
constexpr double kPausePerScan = 20;  // a look at the folder takes at most a twentieth of the time
constexpr double kHandover = 3;       // seconds that a watcher that was killed may take to be gone
constexpr const char* kEndOfPlan = ".plan.h5";

namespace fs = std::filesystem;

std::string joined(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

/// The plan written last, or nothing.
std::string newest_plan(const std::string& folder) {
  std::string newest;
  fs::file_time_type time{};
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    const std::string name = entry.path().filename().string();
    if (name.front() == '.' || !name.ends_with(kEndOfPlan) || !entry.is_regular_file(failure)) continue;
    const auto written = entry.last_write_time(failure);
    if (!newest.empty() && written < time) continue;
    newest = entry.path().string();
    time = written;
  }
  return newest;
}

std::string name_of(const StepRecord& record) {
  return record.step ? "step " + std::to_string(*record.step) : record.files.front().name;
}

std::string line_of(const StepRecord& record) {
  if (record.result == StepRecord::Result::failed) return name_of(record) + ": skipped: " + record.error;
  const StepFigures& figures = *record.figures;
  char skew[64];
  std::snprintf(skew, sizeof skew, "%.4f -> %.4f", figures.skew_before, figures.skew_after);
  return name_of(record) + ": " + record.plan + " in " + format_seconds(figures.latency) +
         ", slowest rank over mean " + skew + ", " + format_count(figures.moves) + " experts moved" +
         (record.result == StepRecord::Result::fell_back
              ? "; the time budget was missed: homes as before, no copies"
              : "");
}

/// "a/step7.plan.h5" gives "a/step7.metrics.json".
std::string metrics_path(const std::string& plan) {
  return plan.substr(0, plan.size() - std::strlen(kEndOfPlan)) + ".metrics.json";
}

StepFigures figures_of(const PlannedStep& planned, const PlanSamples& samples) {
  const PlanSummary summary = summarise(planned.result.plan.header, samples);
  StepFigures figures{.skew_before = summary.before.skew.mean,
                      .skew_after = summary.after.skew.mean,
                      .copies = summary.copies_total,
                      .moves = measure_moves(planned.result.plan, {}).experts};
  for (const PhaseTime& phase : planned.result.phases) figures.planning += phase.seconds;
  return figures;
}

/// The inbox and the status are rank 0's; the other ranks know the job at hand and the plan before it.
class Watcher {
 public:
  Watcher(const Comm& comm, const WatchOptions& options, const std::function<bool()>& asked,
          const WatchVoice& voice)
      : comm_(comm), options_(options), asked_(asked), voice_(voice) {
    if (options_.plans.empty()) options_.plans = options_.folder;
    if (options_.status.empty()) options_.status = joined(options_.plans, "status.json");
    options_.plan.fall_back = true;
    progress_ = [this](std::string_view phase, double done) {
      if (comm_.root() && since_status_.seconds() > kHeartbeat) write_status("planning");
      voice_.progress(phase, done);
    };
  }

  void run() {
    start();
    try {
      while (next_job()) plan_job();
    } catch (...) {
      if (comm_.root()) write_status("failed", to_error(std::current_exception()).what());
      throw;
    }
  }

 private:
  /// What all ranks know of a step.
  struct Job {
    std::vector<std::string> files;
    std::string plan;
  };

  void start();
  WatchStatus status_before() const;
  void take_over();
  bool next_job();
  bool look();
  std::string reason_to_end() const;
  void share_job();
  void plan_job();
  void plan_into(StepRecord& record);
  void settle(StepRecord record);
  void write_status(const std::string& state, const std::string& reason = "");
  std::string waiting_line() const;

  const Comm& comm_;
  WatchOptions options_;
  const std::function<bool()>& asked_;
  const WatchVoice& voice_;
  Progress progress_;
  std::optional<PreviousPlan> previous_;
  Job job_;

  // Of rank 0.
  std::optional<WatchLock> lock_;
  std::optional<WatchInbox> inbox_;
  std::optional<WatchJob> at_hand_;
  WatchStatus status_;
  std::string reason_;                     ///< why to end
  std::int64_t planned_ = 0, failed_ = 0;  ///< steps of this run
  double pause_ = 0;                       ///< seconds until the next look
  bool status_failed_ = false;             ///< and it has been said
  Timer since_look_, since_step_, since_status_;
};

void Watcher::start() {
  agreed(comm_, [&] {
    check_options(options_.plan);
    if (comm_.root() && !fs::is_directory(options_.folder))
      throw_input({.where = options_.folder,
                   .expected = "a folder in which dumps appear",
                   .found = fs::exists(options_.folder) ? "a file" : "nothing",
                   .advice = "make it before the watcher starts"});
  });
  make_folder(comm_, options_.plans);
  std::string before = options_.previous;
  agreed(comm_, [&] {
    if (!comm_.root()) return;
    take_over();
    if (const std::string newest = newest_plan(options_.plans); !newest.empty()) before = newest;
  });
  comm_.broadcast(before);
  if (before.empty()) return;
  previous_ = read_previous(comm_, before);
  if (previous_->ep_size == options_.plan.topology.ep_size) return;
  throw Error(Fault::usage,
              {.where = before,
               .expected = "plans for --ep-size " + std::to_string(options_.plan.topology.ep_size),
               .found = std::to_string(previous_->ep_size),
               .advice = "choose another folder by --out"})
      .as_agreed();
}

/// What the run before said; nothing where that cannot be read.
WatchStatus Watcher::status_before() const {
  if (!fs::exists(options_.status)) return {};
  try {
    return read_status(options_.status);
  } catch (const Error& error) {
    voice_.say(std::string("warning: ") + error.what() + "; going by the plans that are there");
    return {};
  }
}

void Watcher::take_over() {
  lock_.emplace(options_.plans, kHandover, [this]() -> std::string {
    const io::Writer holder = status_before().writer;
    return holder.process > 0 ? ": process " + std::to_string(holder.process) + " on " + holder.host : "";
  });
  WatchStatus before = status_before();
  for (const std::string& folder : {options_.plans, fs::path(options_.status).parent_path().string()})
    io::remove_left_behind(folder.empty() ? "." : folder, before.writer);
  inbox_.emplace(options_.folder, options_.plans, options_.done_marker, std::move(before.steps));
  status_ = {.folder = options_.folder,
             .plans = options_.plans,
             .writer = io::this_writer(),
             .ranks = comm_.size(),
             .started = utc_now(),
             .steps_planned = before.steps_planned + inbox_->scan()};
}

/// Collective. Waits, asleep, for a step to plan, or false at the end.
bool Watcher::next_job() {
  at_hand_.reset();
  pause_ = 0;
  if (wait_idle(
          comm_, [&] { return look(); }, asked_)) {
    reason_ = "told to";
    at_hand_.reset();
  }
  int more = at_hand_.has_value();
  comm_.broadcast(more);
  if (more) {
    share_job();
    return true;
  }
  if (comm_.root()) {
    write_status("ended", reason_);
    voice_.say("ended: " + reason_);
  }
  return false;
}

/// Whether there is something to do, or a reason to end.
bool Watcher::look() {
  if (since_look_.seconds() < pause_) return false;
  reason_ = options_.steps > 0 && planned_ + failed_ >= options_.steps ? "the steps that --steps says" : "";
  if (!reason_.empty()) return true;
  Timer scan;
  inbox_->scan();
  since_look_.restart();
  const bool first = pause_ == 0;
  pause_ = std::max(options_.poll, kPausePerScan * scan.seconds());
  if (!inbox_->pending().empty()) {
    at_hand_ = inbox_->pending().front();
    return true;
  }
  reason_ = reason_to_end();
  if (!reason_.empty()) return true;
  const bool changed = inbox_->incomplete() != status_.incomplete;
  if (first || changed || since_status_.seconds() > kHeartbeat) write_status("waiting");
  voice_.status(waiting_line());
  return false;
}

std::string Watcher::reason_to_end() const {
  if (options_.once) return "nothing left to plan, as --once says";
  if (options_.idle_exit > 0 && since_step_.seconds() >= options_.idle_exit)
    return "no step for " + format_seconds(options_.idle_exit) + ", as --idle-exit says";
  return "";
}

void Watcher::share_job() {
  std::string words;
  if (comm_.root()) {
    words = joined(options_.plans, at_hand_->record.plan);
    for (const WatchedFile& file : at_hand_->record.files) words += '\0' + joined(options_.folder, file.name);
    write_status("planning");
  }
  comm_.broadcast(words);
  job_ = {};
  for (std::size_t at = 0; at <= words.size();) {
    const std::size_t end = std::min(words.find('\0', at), words.size());
    const std::string word = words.substr(at, end - at);
    if (at == 0)
      job_.plan = word;
    else
      job_.files.push_back(word);
    at = end + 1;
  }
}

void Watcher::plan_job() {
  StepRecord record;
  if (comm_.root()) record = at_hand_->record;
  try {
    plan_into(record);
  } catch (const Error& error) {
    // A step is at fault, not the machine; and no rank is left behind.
    if (!error.agreed() || error.fault() == Fault::environment) throw;
    record.result = StepRecord::Result::failed;
    record.fault = error.fault();
    record.error = error.what();
  }
  if (comm_.root()) settle(std::move(record));
}

void Watcher::plan_into(StepRecord& record) {
  PlannedStep planned = plan_dump(comm_, job_.files, job_.plan, options_.plan, options_.count,
                                  previous_ ? &*previous_ : nullptr, progress_);
  const double latency = comm_.root() ? at_hand_->since_complete.seconds() : 0;
  previous_ = previous_of(planned.result.plan);
  const PlanSamples samples = measure_step(comm_, planned, options_.metrics, progress_);
  if (options_.metrics)
    write_text(comm_, metrics_path(job_.plan),
               step_json(comm_, planned, samples, options_.model).dump(2) + "\n");
  record.step = planned.result.plan.header.step;
  record.result = planned.result.fell_back ? StepRecord::Result::fell_back : StepRecord::Result::planned;
  record.figures = figures_of(planned, samples);
  record.figures->latency = latency;
  if (!comm_.root()) return;
  for (const std::string& remark : remarks_on(planned.counted.findings))
    voice_.say(name_of(record) + ": " + remark);
}

void Watcher::settle(StepRecord record) {
  voice_.say(line_of(record));
  if (record.result == StepRecord::Result::failed) {
    ++failed_;
  } else {
    ++planned_;
    ++status_.steps_planned;
    status_.last = record;
  }
  inbox_->settle(std::move(record));
  since_step_.restart();
}

/// A status that cannot be written is no reason to stop planning.
void Watcher::write_status(const std::string& state, const std::string& reason) {
  status_.state = state;
  status_.reason = reason;
  status_.updated = utc_now();
  status_.at_hand.reset();
  if (at_hand_ && state == "planning") status_.at_hand = at_hand_->record;
  status_.incomplete = inbox_->incomplete();
  status_.steps = inbox_->records();
  since_status_.restart();
  // Names of files need not be UTF-8.
  const std::string text =
      status_json(status_).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  try {
    write_text(Comm(MPI_COMM_SELF), options_.status, text + "\n", io::Durable::no);
  } catch (const Error& error) {
    if (!status_failed_) voice_.say(std::string("warning: no status: ") + error.what());
    status_failed_ = true;
  }
}

std::string Watcher::waiting_line() const {
  std::string line = "waiting in " + options_.folder + ": " + std::to_string(planned_) + " planned, " +
                     std::to_string(failed_) + " skipped";
  if (status_.last) line += "; " + line_of(*status_.last);
  return line;
}

}  // namespace

void watch(const Comm& comm, const WatchOptions& options, const std::function<bool()>& asked,
           const WatchVoice& voice) {
  Watcher(comm, options, asked, voice).run();
}

}  // namespace relibra
