#pragma once
// Repeated steps, measured: medians over repeats, gathered from all ranks.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/exec/engine.h"

namespace relibra::exec {

/// What was measured of one variant (the plan, or a control), the same on every process.
struct Measured {
  std::string variant;  ///< "plan", "static", "balanced"
  int ranks = 0;        ///< W
  std::vector<Visit> visits;
  std::vector<double> seconds;   ///< (W, visits, kPhases) medians over repeats
  std::vector<double> home_sum;  ///< (W) medians
  std::vector<double> step;      ///< by repeat: the slowest rank's seconds of the whole step

  double at(RankId rank, std::size_t visit, Phase phase) const {
    return seconds[(rank.index() * visits.size() + visit) * kPhases + static_cast<std::size_t>(phase)];
  }
  double step_seconds() const;  ///< median of `step`
  /// Sum over visits and EP groups of the slowest rank's seconds, divided by the number of groups.
  double slowest(Phase phase, int ep_size) const;
  /// Sum over visits of the mean over ranks.
  double mean(Phase phase) const;
};

double median(std::vector<double> values);

/// Rows for steps that are timed: buffers.inputs, the same for every micro-batch, copied on the device.
class TimedStep final : public StepHooks {
 public:
  TimedStep(const Stream& stream, const RankSchedule& schedule, const ModelShape& shape, RankBuffers& buffers)
      : stream_(stream), schedule_(schedule), shape_(shape), buffers_(buffers) {}
  void load_input(std::int32_t micro_batch) override { load(micro_batch); }
  void load_gradient(std::int32_t micro_batch) override { load(micro_batch); }

 private:
  void load(std::int32_t micro_batch);
  const Stream& stream_;
  const RankSchedule& schedule_;
  const ModelShape& shape_;
  RankBuffers& buffers_;
};

/// Collective. Every rank's times on every process, by rank.
std::vector<StepTimes> gather_times(const Comm& comm, const StepTimes& mine);

struct NamedSchedule {
  std::string variant;
  const RankSchedule* schedule = nullptr;
};

struct RepeatOptions {
  int warm_up = 1, repeats = 5;
  std::function<void(double done)> progress = {};  ///< told how far the measuring is, 0 to 1; may be empty
};

/// Collective, one rank a process. Variants take turns, repeat by repeat, so that noise of the machine falls
/// on all alike. `last` receives this rank's times of the last repeat, by variant, for traces; may be null.
std::vector<Measured> measure(const Comm& comm, const Device& device, Transport& transport,
                              std::span<const NamedSchedule> variants, const ModelShape& shape,
                              RankBuffers& buffers, const RepeatOptions& options,
                              std::vector<StepTimes>* last);

}  // namespace relibra::exec
