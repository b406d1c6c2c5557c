#include "lib/exec/measure.h"

#include <algorithm>
#include <memory>

namespace relibra::exec {
namespace {

/// Seconds of a step as one list: (visits, kPhases), then the sum over homes.
std::vector<double> flat(const StepTimes& times) {
  std::vector<double> values;
  for (const VisitTimes& visit : times.visits)
    for (std::size_t p = 0; p < kPhases; ++p) values.push_back(visit.seconds(static_cast<Phase>(p)));
  values.push_back(times.home_sum);
  return values;
}

/// Element-wise median of lists of one length.
std::vector<double> medians(const std::vector<std::vector<double>>& lists) {
  std::vector<double> result(lists.front().size()), column(lists.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t r = 0; r < lists.size(); ++r) column[r] = lists[r][i];
    result[i] = median(column);
  }
  return result;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double Measured::step_seconds() const {
  return median(step);
}

double Measured::slowest(Phase phase, int ep_size) const {
  double sum = 0;
  for (std::size_t v = 0; v < visits.size(); ++v)
    for (int first = 0; first < ranks; first += ep_size) {
      double largest = 0;
      for (int r = first; r < first + ep_size; ++r) largest = std::max(largest, at(RankId(r), v, phase));
      sum += largest;
    }
  return sum * ep_size / ranks;
}

double Measured::mean(Phase phase) const {
  double sum = 0;
  for (RankId r : all<RankId>(ranks))
    for (std::size_t v = 0; v < visits.size(); ++v) sum += at(r, v, phase);
  return sum / ranks;
}

void TimedStep::load(std::int32_t micro_batch) {
  const std::int64_t tokens = schedule_.tokens[static_cast<std::size_t>(micro_batch)];
  stream_.copy(buffers_.stream.data(), buffers_.inputs.data(),
               static_cast<std::size_t>(tokens * shape_.hidden * shape_.element_bytes()));
}

std::vector<StepTimes> gather_times(const Comm& comm, const StepTimes& mine) {
  const auto visits = comm.gather_all(std::span<const VisitTimes>(mine.visits));
  std::vector<StepTimes> times(static_cast<std::size_t>(comm.size()));
  const auto totals = comm.gather_all(std::span<const double>(&mine.total, 1));
  const auto sums = comm.gather_all(std::span<const double>(&mine.home_sum, 1));
  for (std::size_t r = 0; r < times.size(); ++r) {
    const auto first = visits.begin() + static_cast<std::ptrdiff_t>(r * mine.visits.size());
    times[r].visits.assign(first, first + static_cast<std::ptrdiff_t>(mine.visits.size()));
    times[r].total = totals[r];
    times[r].home_sum = sums[r];
  }
  return times;
}

std::vector<Measured> measure(const Comm& comm, const Device& device, Transport& transport,
                              std::span<const NamedSchedule> variants, const ModelShape& shape,
                              RankBuffers& buffers, const RepeatOptions& options,
                              std::vector<StepTimes>* last) {
  struct Running {
    Running(const Device& device, Transport& transport, const RankSchedule& schedule, const ModelShape& shape,
            RankBuffers& buffers)
        : engine(device, transport, schedule, shape, buffers),
          hooks(engine.stream(), schedule, shape, buffers) {}
    Engine engine;
    TimedStep hooks;
    std::vector<std::vector<double>> repeats;
  };
  std::vector<std::unique_ptr<Running>> running;
  std::vector<Measured> results;
  for (const NamedSchedule& variant : variants) {
    running.push_back(std::make_unique<Running>(device, transport, *variant.schedule, shape, buffers));
    results.push_back({.variant = variant.variant, .ranks = comm.size(), .visits = variant.schedule->visits});
  }
  if (last) last->assign(variants.size(), {});
  const auto steps =
      static_cast<double>(options.warm_up + options.repeats) * static_cast<double>(variants.size());
  double done = 0;
  for (int repeat = -options.warm_up; repeat < options.repeats; ++repeat)
    for (std::size_t v = 0; v < variants.size(); ++v) {
      if (options.progress) options.progress(done++ / steps);
      comm.barrier();
      running[v]->engine.step(running[v]->hooks);
      if (repeat < 0) continue;
      StepTimes times = running[v]->engine.times();
      results[v].step.push_back(comm.max(times.total));
      running[v]->repeats.push_back(flat(times));
      if (last) (*last)[v] = std::move(times);
    }
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const auto mine = medians(running[v]->repeats);
    const auto everyone = comm.gather_all(std::span<const double>(mine));
    for (int r = 0; r < comm.size(); ++r) {
      const auto first =
          everyone.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(r) * mine.size());
      const auto end = first + static_cast<std::ptrdiff_t>(mine.size()) - 1;
      results[v].seconds.insert(results[v].seconds.end(), first, end);
      results[v].home_sum.push_back(*end);
    }
  }
  return results;
}

}  // namespace relibra::exec
