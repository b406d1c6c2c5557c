#include "lib/count/count.h"

#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include "lib/comm/agree.h"
#include "lib/count/digest.h"
#include "lib/count/row_kernel.h"
#include "lib/count/suspicion.h"

namespace relibra {
namespace {

/// The sequences with rows in `rows`: [first, last). Empty sequences at the ends are left out.
Range sequences_of(const Sequences& sequences, Range rows) {
  if (rows.empty()) return {};
  const auto& offset = sequences.row_offset;
  const auto after_first = std::upper_bound(offset.begin(), offset.end(), rows.first);
  const auto at_last = std::lower_bound(offset.begin(), offset.end(), rows.last);
  return {after_first - offset.begin() - 1, at_last - offset.begin()};
}

/// Counts of this rank's rows: (L, sequences, E), cut by the rank that will own the layers, so that each part
/// is sent as it lies.
class PartialTable {
 public:
  PartialTable(const RoutingHeader& header, Range sequences, int ranks)
      : sequences_(sequences), layers_(header.num_layers()), experts_(header.num_experts), parts_() {
    for (int r = 0; r < ranks; ++r)
      parts_.emplace_back(
          static_cast<std::size_t>(share_of(layers_, r, ranks).size() * sequences_.size() * experts_));
  }

  /// (E) counts of one sequence.
  std::uint32_t* at(std::int64_t layer, std::int64_t sequence) {
    const int ranks = static_cast<int>(parts_.size()), owner = owner_of(layer, layers_, ranks);
    const std::int64_t row =
        (layer - share_of(layers_, owner, ranks).first) * sequences_.size() + sequence - sequences_.first;
    return parts_[static_cast<std::size_t>(owner)].data() + row * experts_;
  }

  std::vector<std::vector<std::uint32_t>>& parts() { return parts_; }

 private:
  Range sequences_;
  std::int64_t layers_;
  std::int64_t experts_;
  std::vector<std::vector<std::uint32_t>> parts_;
};

/// What one thread works with: a kernel and a table (its layers, E) that stays in cache while the rows of a
/// sequence pass.
struct Worker {
  Range layers;
  RowKernel kernel;
  std::vector<std::uint32_t> table;
  std::int64_t counting_rows = 0;

  Worker(const RoutingHeader& header, IdType type, Range own)
      : layers(own),
        kernel(RowShape(header), type, own),
        table(static_cast<std::size_t>(own.size() * header.num_experts)) {}
};

/// Counts the rows that this rank reads.
class RankCounter {
 public:
  RankCounter(const RoutingDump& dump, IdType type, Range rows, int ranks)
      : dump_(dump),
        sequences_(sequences_of(dump.sequences, rows)),
        partial_(dump.header, sequences_, ranks) {
    const int layers = dump.header.num_layers(), threads = std::clamp(omp_get_max_threads(), 1, layers);
    for (int t = 0; t < threads; ++t) workers_.emplace_back(dump.header, type, share_of(layers, t, threads));
  }

  void take(const RoutingBlock& block) {
    const int threads = static_cast<int>(workers_.size());
#pragma omp parallel for num_threads(threads) schedule(static, 1)
    for (int t = 0; t < threads; ++t) {
      Worker& worker = workers_[static_cast<std::size_t>(t)];
      count_block(worker, block);
      worker.counting_rows += rows_counting_up(block, dump_.header, share_of(block.rows, t, threads));
    }
  }

  RowTally tally() const {
    RowTally sum;
    for (const auto& worker : workers_) sum += worker.kernel.tally();
    return sum;
  }
  std::int64_t counting_rows() const {
    std::int64_t sum = 0;
    for (const auto& worker : workers_) sum += worker.counting_rows;
    return sum;
  }
  Range sequences() const {
    return sequences_;
  }
  std::vector<std::vector<std::uint32_t>>& parts() {
    return partial_.parts();
  }

 private:
  void count_block(Worker& worker, const RoutingBlock& block) {
    const auto& offset = dump_.sequences.row_offset;
    const Range rows{block.first_row, block.first_row + block.rows};
    const Range touched = sequences_of(dump_.sequences, rows);
    const std::int64_t row_bytes =
        RowShape(dump_.header).row_ids() * static_cast<std::int64_t>(size_of(block.type));
    for (std::int64_t s = touched.first; s < touched.last; ++s) {
      const std::int64_t first = std::max(rows.first, offset[static_cast<std::size_t>(s)]);
      const std::int64_t last = std::min(rows.last, offset[static_cast<std::size_t>(s) + 1]);
      if (first >= last) continue;
      const auto* ids = static_cast<const std::byte*>(block.ids) + (first - rows.first) * row_bytes;
      worker.kernel.count({block.type, ids, last - first, first}, worker.table.data());
      add_to_partial(worker, s);
    }
  }

  void add_to_partial(Worker& worker, std::int64_t sequence) {
    const std::int64_t experts = dump_.header.num_experts;
    const std::uint32_t* from = worker.table.data();
    for (std::int64_t l = worker.layers.first; l < worker.layers.last; ++l, from += experts) {
      std::uint32_t* to = partial_.at(l, sequence);
      for (std::int64_t e = 0; e < experts; ++e) to[e] += from[e];
    }
    std::fill(worker.table.begin(), worker.table.end(), 0);
  }

  const RoutingDump& dump_;
  Range sequences_;
  PartialTable partial_;
  std::vector<Worker> workers_;
};

/// Collective: sums of the tallies, and the first fault of all.
RowTally reduce(const Comm& comm, const RowTally& mine) {
  RowTally total;
  for (const RowTally& tally : comm.gather_all(std::span<const RowTally>(&mine, 1))) total += tally;
  return total;
}

std::int64_t sequence_of(const Sequences& sequences, std::int64_t row) {
  return sequences_of(sequences, {row, row + 1}).first;
}

/// The same on every rank, since its arguments are.
void refuse_faults(const RoutingSource& source, const RowTally& tally) {
  if (tally.faults() == 0) return;
  const auto& first = tally.first;
  const bool range = first.kind == RowTally::Kind::out_of_range;
  const std::string place = source.place_of(first.row) + ", sequence " +
                            std::to_string(sequence_of(source.dump().sequences, first.row)) + ", row " +
                            std::to_string(first.row) + ", layer " + std::to_string(first.layer);
  const std::string expected = range ? "expert ids below " + std::to_string(source.dump().header.num_experts)
                                     : "an expert once among the top-k of a row";
  const std::string found = "id " + std::to_string(first.id) + (range ? "" : " twice") + "; in all " +
                            std::to_string(tally.out_of_range) + " ids out of range and " +
                            std::to_string(tally.repeated) + " repeated";
  throw Error(Fault::input,
              {.where = place,
               .expected = expected,
               .found = found,
               .advice = range ? "check num_experts, and that ids are logical experts (not physical slots)"
                               : "check top_k and the order of the axes (rows, layers, top-k)"})
      .as_agreed();
}

void refuse_missing(const RoutingSource& source, const RowTally& tally, double max_missing) {
  const auto all_routes = source.dump().sequences.total_rows() * RowShape(source.dump().header).row_ids();
  if (static_cast<double>(tally.missing) <= max_missing * static_cast<double>(all_routes)) return;
  const auto percent = [](double share) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
    return std::string(text);
  };
  throw Error(Fault::input,
              {.where = source.place_of(0),
               .expected = "at most " + percent(max_missing) + " of the routes missing",
               .found = std::to_string(tally.missing) + " of " + std::to_string(all_routes) + " (" +
                        percent(static_cast<double>(tally.missing) / static_cast<double>(all_routes)) + ")",
               .advice = "see whether the rollout recorded all tokens, or raise --max-missing"})
      .as_agreed();
}

/// Collective: gives the counts of each layer to its owner and adds the parts of a sequence that several
/// ranks read.
SequenceCounts exchange_layers(const Comm& comm, const RoutingDump& dump, RankCounter counter) {
  const Range own = share_of(dump.header.num_layers(), comm.rank(), comm.size());
  const auto received = comm.exchange(counter.parts());
  counter.parts().clear();
  SequenceCounts counts(own, dump.sequences.size(), dump.header.num_experts);
  for (int from = 0; from < comm.size(); ++from) {
    const Range rows = share_of(dump.sequences.total_rows(), from, comm.size());
    const Range sequences = sequences_of(dump.sequences, rows);
    const std::uint32_t* part = received[static_cast<std::size_t>(from)].data();
    for (std::int64_t l = own.first; l < own.last; ++l)
      for (std::int64_t s = sequences.first; s < sequences.last; ++s)
        for (std::uint32_t& count : counts.of(LayerId(l), s)) count += *part++;
  }
  return counts;
}

}  // namespace

CountedRouting count_routing(const Comm& comm, RoutingSource& source, const CountOptions& options) {
  const RoutingDump& dump = source.dump();
  const Range rows = share_of(dump.sequences.total_rows(), comm.rank(), comm.size());
  std::optional<RankCounter> counter;
  agreed(comm, [&] { counter.emplace(dump, source.id_type(), rows, comm.size()); });
  source.read(std::span(&rows, rows.empty() ? 0 : 1), options.block_bytes, false,
              [&](const RoutingBlock& block) { counter->take(block); });

  const RowTally tally = reduce(comm, counter->tally());
  refuse_faults(source, tally);
  refuse_missing(source, tally, options.max_missing);

  CountedRouting result;
  const std::int64_t counting_rows = comm.sum(counter->counting_rows());
  result.counts = exchange_layers(comm, dump, std::move(*counter));
  result.digest = digest_text(comm.sum(digest_sum(result.counts, dump.header.num_layers())));
  result.findings.missing = tally.missing;
  result.findings.assignments = dump.sequences.total_rows() * RowShape(dump.header).row_ids() - tally.missing;
  result.findings.suspicions = find_suspicions(comm, dump, result.counts, counting_rows);
  return result;
}

}  // namespace relibra
