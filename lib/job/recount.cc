#include "lib/job/recount.h"

#include <algorithm>
#include <optional>

#include "lib/comm/agree.h"
#include "lib/count/digest.h"
#include "lib/job/recount_deal.h"
#include "lib/job/recount_shares.h"

namespace relibra {

MicroBatchRecount::MicroBatchRecount(MicroBatchId micro_batch, int layers, int experts,
                                     const Topology& topology)
    : micro_batch_(micro_batch),
      layers_(static_cast<std::size_t>(layers)),
      experts_(static_cast<std::size_t>(experts)),
      groups_(static_cast<std::size_t>(topology.ep_groups)),
      world_(static_cast<std::size_t>(topology.world())),
      nodes_(static_cast<std::size_t>(topology.nodes())),
      loads_(1 + layers_ * groups_ * experts_),
      traffic_(loads_ + 2 * layers_ * world_),
      values_(traffic_ + 2 * layers_ * 2 * nodes_) {}

namespace {

/// Rows of the sequences as ascending ranges, neighbours joined.
std::vector<Range> row_ranges(const Sequences& sequences, std::span<const std::int32_t> wanted) {
  std::vector<Range> ranges;
  for (std::int32_t s : wanted) {
    const Range rows{sequences.row_offset[static_cast<std::size_t>(s)],
                     sequences.row_offset[static_cast<std::size_t>(s) + 1]};
    if (rows.empty()) continue;
    if (!ranges.empty() && ranges.back().last == rows.first)
      ranges.back().last = rows.last;
    else
      ranges.push_back(rows);
  }
  return ranges;
}

/// One recount in the making. Every process goes through the same number of rounds, one micro-batch of its
/// own in each; micro-batches that several processes share are put together at the end.
class Recount {
 public:
  Recount(const Comm& comm, RoutingSource& source, const PlanView& view, RecountVisitor& visitor,
          const RecountOptions& options)
      : comm_(comm), source_(source), view_(view), plan_(view.plan), visitor_(visitor), options_(options) {
    shares_ = share_bins(plan_, source.dump().sequences, comm.rank(), comm.size());
    for (const MicroBatchShare& share : shares_)
      for (std::int32_t s : share.sequences) rows_ += source.dump().sequences.rows(s);
  }

  RecountTotals run() {
    const auto rounds = comm_.max(static_cast<std::int64_t>(shares_.size()));
    for (std::int64_t round = 0; round < rounds; ++round) {
      if (round < std::ssize(shares_))
        take(&shares_[static_cast<std::size_t>(round)]);
      else
        take(nullptr);
    }
    finish_shared();
    return sum_up();
  }

 private:
  /// A micro-batch whose other parts are elsewhere.
  struct Part {
    const MicroBatchShare* share;
    PlanCells cells;
    MicroBatchRecount tables;
  };

  /// Collective; without a share it only takes part.
  void take(const MicroBatchShare* share) {
    const std::int64_t layers = plan_.header.num_layers();
    const std::int64_t first = share ? share->micro_batch.value() * layers : 0;
    PlanCells cells = view_.read({first, share ? first + layers : first}, options_.transfers);
    std::optional<MicroBatchDealer> dealer;
    std::optional<MicroBatchRecount> tables;
    agreed(comm_, [&] {
      if (!share) return;
      dealer.emplace(source_.dump(), plan_, cells, *share);
      tables.emplace(share->micro_batch, plan_.header.num_layers(), plan_.header.num_experts,
                     plan_.header.topology);
    });
    const auto ranges = share ? row_ranges(source_.dump().sequences, share->sequences) : std::vector<Range>{};
    source_.read(ranges, options_.block_bytes, false, [&](const RoutingBlock& block) {
      dealer->take(block);
      rows_done_ += block.rows;
      if (options_.progress) options_.progress(double(rows_done_) / double(rows_));
    });
    agreed(comm_, [&] {
      if (!share) return;
      dealer->finish(*tables, visitor_);
      add(dealer->totals());
      if (share->shared())
        parts_.push_back({share, std::move(cells), std::move(*tables)});
      else
        visitor_.micro_batch(cells, *tables);
    });
  }

  void add(const DealtTotals& dealt) {
    dealt_.digest += dealt.digest;
    dealt_.assignments += dealt.assignments;
    dealt_.missing += dealt.missing;
    dealt_.invalid += dealt.invalid;
  }

  /// Sends each part to the owner of its micro-batch, as the micro-batch's index followed by the tables.
  void finish_shared() {
    std::vector<std::vector<std::int64_t>> send(static_cast<std::size_t>(comm_.size()));
    for (Part& part : parts_) {
      if (part.share->first == comm_.rank()) continue;
      auto& to = send[static_cast<std::size_t>(part.share->first)];
      to.push_back(part.share->micro_batch.value());
      to.insert(to.end(), part.tables.values().begin(), part.tables.values().end());
    }
    const auto received = comm_.exchange(send);
    agreed(comm_, [&] {
      for (Part& mine : parts_) {
        if (mine.share->first != comm_.rank()) continue;
        auto& values = mine.tables.values();
        for (const auto& from : received)
          for (std::size_t at = 0; at < from.size(); at += values.size() + 1) {
            if (from[at] != mine.share->micro_batch.value()) continue;
            for (std::size_t i = 0; i < values.size(); ++i) values[i] += from[at + 1 + i];
          }
        visitor_.micro_batch(mine.cells, mine.tables);
      }
    });
  }

  RecountTotals sum_up() const {
    return {.digest = digest_text(comm_.sum(dealt_.digest)),
            .assignments = comm_.sum(dealt_.assignments),
            .missing = comm_.sum(dealt_.missing),
            .invalid = comm_.sum(dealt_.invalid)};
  }

  const Comm& comm_;
  RoutingSource& source_;
  const PlanView& view_;
  const Plan& plan_;
  RecountVisitor& visitor_;
  const RecountOptions& options_;
  std::vector<MicroBatchShare> shares_;
  std::vector<Part> parts_;
  DealtTotals dealt_;
  std::int64_t rows_ = 0, rows_done_ = 0;
};

}  // namespace

RecountTotals recount(const Comm& comm, RoutingSource& source, const PlanView& view, RecountVisitor& visitor,
                      const RecountOptions& options) {
  return Recount(comm, source, view, visitor, options).run();
}

}  // namespace relibra
