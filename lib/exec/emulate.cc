#include "lib/exec/emulate.h"

#include <omp.h>
#include <time.h>

#include <array>
#include <vector>

#include "lib/exec/setup.h"

namespace relibra::exec {
namespace {

/// A host's one thread is timed by what it used of the processor: other programs do not count.
bool counts_processor_time(const Device& device) {
  return device.backend().network_create == nullptr && omp_get_max_threads() == 1;
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// A schedule of one cell alone, as layer 0 of micro-batch 0.
RankSchedule only_cell(const RankSchedule& schedule, std::size_t cell) {
  RankSchedule only = schedule;
  only.selection.micro_batches = {schedule.cells[cell].micro_batch};
  only.selection.layers = {schedule.cells[cell].layer};
  only.tokens = {0};
  only.cells = {schedule.cells[cell]};
  only.visits = build_visits(only.selection);
  return only;
}

/// Pieces that are timed by themselves: forward, backward up to the weight gradients, and from there. The
/// shorter a piece, the fewer of its repeats are hit by a pause that the machine makes.
constexpr std::size_t kPieces = 3;

/// What one rank computes in one cell, ready to run.
class EmulatedCell {
 public:
  EmulatedCell(const Device& device, const Stream& stream, const RankSchedule& schedule, std::size_t cell,
               const ModelShape& shape, RankBuffers& buffers)
      : device_(device),
        stream_(stream),
        schedule_(only_cell(schedule, cell)),
        tables_(stream, schedule_.cells[0]),
        forward_(device, schedule_, schedule_.visits[0], shape, buffers),
        backward_(device, schedule_, schedule_.visits[1], shape, buffers) {
    for (std::size_t i = 0; i <= kPieces; ++i) events_.emplace_back(device);
  }

  /// Seconds of each piece.
  std::array<double, kPieces> run() const {
    std::array<double, kPieces + 1> processor;
    const auto mark = [&](std::size_t i) {
      events_[i].record(stream_.handle());
      processor[i] = processor_seconds();
    };
    mark(0);
    forward_.forward(stream_, tables_);
    mark(1);
    backward_.backward_to_hidden(stream_, tables_);
    mark(2);
    backward_.backward_weights(stream_, tables_);
    mark(3);
    stream_.synchronize();
    std::array<double, kPieces> seconds;
    for (std::size_t i = 0; i < kPieces; ++i)
      seconds[i] = counts_processor_time(device_)
                       ? processor[i + 1] - processor[i]
                       : elapsed(device_, events_[i].handle(), events_[i + 1].handle());
    return seconds;
  }

 private:
  const Device& device_;
  const Stream& stream_;
  RankSchedule schedule_;
  CellTables tables_;
  ExpertCompute forward_, backward_;
  std::vector<Event> events_;
};

/// Seconds of all repeats of the carried ranks' cells, on this process.
class Samples {
 public:
  Samples(std::size_t variants, std::size_t ranks, std::size_t cells)
      : ranks_(ranks), cells_(cells), seconds_(variants * ranks * cells * kPieces) {}

  std::vector<double>& at(std::size_t v, std::size_t rank, std::size_t cell, std::size_t piece) {
    return seconds_[((v * ranks_ + rank) * cells_ + cell) * kPieces + piece];
  }
  double forward(std::size_t v, std::size_t rank, std::size_t cell) { return median(at(v, rank, cell, 0)); }
  double backward(std::size_t v, std::size_t rank, std::size_t cell) {
    return median(at(v, rank, cell, 1)) + median(at(v, rank, cell, 2));
  }

 private:
  std::size_t ranks_, cells_;
  std::vector<std::vector<double>> seconds_;
};

/// Every variant of one rank's cell once; kept where `samples` is given.
void time_cell(const Device& device, const Stream& stream, std::span<const CarriedSchedules> variants,
               std::size_t carried, std::size_t cell, const ModelShape& shape, RankBuffers& buffers,
               Samples* samples) {
  for (std::size_t v = 0; v < variants.size(); ++v) {
    const EmulatedCell emulated(device, stream, variants[v].ranks[carried], cell, shape, buffers);
    const auto once = emulated.run();
    for (std::size_t piece = 0; samples != nullptr && piece < kPieces; ++piece)
      samples->at(v, carried, cell, piece).push_back(once[piece]);
  }
}

/// Repeats go round all ranks and cells, so that a slow minute of the machine falls on one repeat of each and
/// not on all repeats of some.
Samples time_cells(const Device& device, const Stream& stream, std::span<const CarriedSchedules> variants,
                   const ModelShape& shape, RankBuffers& buffers, const RepeatOptions& options) {
  const std::size_t ranks = variants.front().ranks.size();
  const std::size_t cells = ranks == 0 ? 0 : variants.front().ranks.front().cells.size();
  Samples samples(variants.size(), ranks, cells);
  const int rounds = options.warm_up + options.repeats;
  for (int round = 0; round < rounds; ++round)
    for (std::size_t r = 0; r < ranks; ++r)
      for (std::size_t c = 0; c < cells; ++c) {
        if (options.progress)
          options.progress((static_cast<double>(r * cells + c) / static_cast<double>(ranks * cells) + round) /
                           rounds);
        time_cell(device, stream, variants, r, c, shape, buffers,
                  round < options.warm_up ? nullptr : &samples);
      }
  return samples;
}

/// Position of each cell's visits, forward and backward, in a schedule.
std::vector<std::array<std::size_t, 2>> visits_of_cells(const RankSchedule& schedule) {
  std::vector<std::array<std::size_t, 2>> visits(schedule.cells.size());
  for (std::size_t v = 0; v < schedule.visits.size(); ++v) {
    const Visit& visit = schedule.visits[v];
    visits[schedule.selection.cell(static_cast<std::size_t>(visit.micro_batch),
                                   static_cast<std::size_t>(visit.layer))][visit.backward ? 1 : 0] = v;
  }
  return visits;
}

}  // namespace

StepSizes emulated_sizes(std::span<const CarriedSchedules> variants) {
  StepSizes sizes;
  for (const CarriedSchedules& variant : variants)
    for (const RankSchedule& schedule : variant.ranks)
      for (std::size_t c = 0; c < schedule.cells.size(); ++c) {
        const std::int64_t tables = sizes.table_ints;
        sizes.table_ints = 0;
        sizes.include(only_cell(schedule, c));
        sizes.table_ints = std::max(tables, sizes.table_ints);
      }
  sizes.groups = 1;
  sizes.sent_rows = sizes.sent_routes = sizes.returned_gradients = 0;  // nothing is sent
  return sizes;
}

std::vector<Measured> emulate(const Comm& comm, const Device& device,
                              std::span<const CarriedSchedules> variants, const ModelShape& shape,
                              RankBuffers& buffers, const RepeatOptions& options) {
  const Stream stream(device);
  const auto carried = variants.front().ranks.size();
  const int world = comm.sum(static_cast<int>(carried));
  std::vector<Measured> results;
  for (const CarriedSchedules& variant : variants)
    results.push_back({.variant = variant.variant, .ranks = world});
  std::vector<Visit> visits = comm.rank() == 0 ? variants.front().ranks.front().visits : std::vector<Visit>{};
  comm.broadcast(visits);
  for (std::size_t v = 0; v < variants.size(); ++v) {
    results[v].visits = visits;
    results[v].seconds.assign(static_cast<std::size_t>(world) * visits.size() * kPhases, 0.0);
    results[v].home_sum.assign(static_cast<std::size_t>(world), 0.0);
  }
  Samples samples = time_cells(device, stream, variants, shape, buffers, options);
  for (std::size_t r = 0; r < carried; ++r) {
    const RankSchedule& schedule = variants.front().ranks[r];
    const auto places = visits_of_cells(schedule);
    for (std::size_t c = 0; c < schedule.cells.size(); ++c)
      for (std::size_t v = 0; v < variants.size(); ++v) {
        const auto compute = [&](std::size_t visit) -> double& {
          return results[v].seconds[(schedule.rank.index() * visits.size() + visit) * kPhases +
                                    static_cast<std::size_t>(Phase::compute)];
        };
        compute(places[c][0]) = samples.forward(v, r, c);
        compute(places[c][1]) = samples.backward(v, r, c);
      }
  }
  for (Measured& result : results) comm.sum_in_place(std::span(result.seconds));
  return results;
}

}  // namespace relibra::exec
