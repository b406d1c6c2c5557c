#include "lib/exec/schedule.h"

#include <algorithm>
#include <string>

#include "lib/base/error.h"

namespace relibra::exec {
namespace {

/// Distinct destinations of one token as EP ranks, ascending, into `out`.
void destinations_of(std::span<const RankId> ranks, const Topology& topology, std::vector<EpRankId>& out) {
  out.clear();
  for (const RankId rank : ranks)
    if (rank.valid()) out.push_back(topology.ep_rank_of(rank));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
}

std::vector<std::int32_t> running_sum(std::vector<std::int32_t> counts) {
  std::int32_t sum = 0;
  for (std::int32_t& count : counts) {
    const std::int32_t next = sum + count;
    count = sum;
    sum = next;
  }
  counts.push_back(sum);
  return counts;
}

}  // namespace

std::int32_t SendList::routes_to(EpRankId p) const {
  return route_offset[static_cast<std::size_t>(offset[p.index() + 1])] -
         route_offset[static_cast<std::size_t>(offset[p.index()])];
}

SendList build_send_list(const Dealt& dealt, int top_k, const Topology& topology, GroupId group) {
  const auto k = static_cast<std::size_t>(top_k);
  const std::size_t tokens = dealt.rank.size() / k;
  const auto ranks_of = [&](std::size_t t) { return std::span(dealt.rank).subspan(t * k, k); };
  std::vector<EpRankId> destinations;
  std::vector<std::int32_t> rows_to(static_cast<std::size_t>(topology.ep_size));
  std::vector<std::int32_t> rows_of(tokens);
  for (std::size_t t = 0; t < tokens; ++t) {
    destinations_of(ranks_of(t), topology, destinations);
    rows_of[t] = static_cast<std::int32_t>(destinations.size());
    for (const EpRankId p : destinations) ++rows_to[p.index()];
  }
  SendList send;
  send.offset = running_sum(rows_to);
  send.return_offset = running_sum(rows_of);
  send.token.resize(static_cast<std::size_t>(send.offset.back()));
  send.return_row.resize(send.token.size());
  std::vector<std::int32_t> next(send.offset.begin(), send.offset.end() - 1);
  for (std::size_t t = 0; t < tokens; ++t) {
    destinations_of(ranks_of(t), topology, destinations);
    auto at = static_cast<std::size_t>(send.return_offset[t]);
    for (const EpRankId p : destinations) {
      send.token[static_cast<std::size_t>(next[p.index()])] = static_cast<std::int32_t>(t);
      send.return_row[at++] = next[p.index()]++;
    }
  }
  send.route_offset = {0};
  for (EpRankId p : all<EpRankId>(topology.ep_size))
    for (auto row = send.offset[p.index()]; row < send.offset[p.index() + 1]; ++row) {
      const auto t = static_cast<std::size_t>(send.token[static_cast<std::size_t>(row)]);
      for (std::size_t i = t * k; i < (t + 1) * k; ++i)
        if (dealt.rank[i] == topology.rank_of(group, p)) send.route.push_back(static_cast<std::int32_t>(i));
      send.route_offset.push_back(static_cast<std::int32_t>(send.route.size()));
    }
  send.gate_index.assign(dealt.rank.size(), send.routes());
  for (std::size_t i = 0; i < send.route.size(); ++i)
    send.gate_index[static_cast<std::size_t>(send.route[i])] = static_cast<std::int32_t>(i);
  return send;
}

RowList row_list(const SendList& send, const Dealt& dealt, const CellRoutes& routes, EpRankId to) {
  RowList list;
  for (auto row = send.offset[to.index()]; row < send.offset[to.index() + 1]; ++row) {
    const auto r = static_cast<std::size_t>(row);
    list.routes.push_back(send.route_offset[r + 1] - send.route_offset[r]);
    for (auto i = send.route_offset[r]; i < send.route_offset[r + 1]; ++i) {
      const auto route = static_cast<std::size_t>(send.route[static_cast<std::size_t>(i)]);
      list.slot.push_back(dealt.slot[route]);
      list.weight.push_back(routes.weight[route]);
    }
  }
  return list;
}

ReceiveList build_receive_list(std::span<const RowList> rows, int slots) {
  ReceiveList receive;
  receive.offset = receive.route_offset = receive.sum_offset = {0};
  std::vector<std::int32_t> rows_of_slot(static_cast<std::size_t>(slots));
  for (const RowList& list : rows) {
    receive.offset.push_back(receive.offset.back() + static_cast<std::int32_t>(list.routes.size()));
    receive.route_offset.push_back(receive.route_offset.back() + static_cast<std::int32_t>(list.slot.size()));
    for (const std::int32_t n : list.routes) receive.sum_offset.push_back(receive.sum_offset.back() + n);
    for (const std::int32_t slot : list.slot) {
      if (slot < 0 || slot >= slots)
        throw_input({.where = "rows for this rank",
                     .expected = "slots below " + std::to_string(slots),
                     .found = std::to_string(slot)});
      ++rows_of_slot[static_cast<std::size_t>(slot)];
    }
  }
  const auto first = running_sum(rows_of_slot);
  for (std::int32_t slot = 0; slot < slots; ++slot)
    if (const auto n = rows_of_slot[static_cast<std::size_t>(slot)]; n > 0)
      receive.groups.push_back({slot, first[static_cast<std::size_t>(slot)], n});

  auto next = first;
  receive.row.resize(static_cast<std::size_t>(first.back()));
  receive.weight.resize(receive.row.size());
  receive.sum.reserve(receive.row.size());
  std::int32_t row = 0;
  for (const RowList& list : rows) {
    std::size_t i = 0;
    for (const std::int32_t n : list.routes) {
      for (std::int32_t j = 0; j < n; ++j, ++i) {
        const std::int32_t at = next[static_cast<std::size_t>(list.slot[i])]++;
        receive.row[static_cast<std::size_t>(at)] = row;
        receive.weight[static_cast<std::size_t>(at)] = list.weight[i];
        receive.sum.push_back(at);
      }
      ++row;
    }
  }
  return receive;
}

std::vector<Visit> build_visits(const Selection& selection) {
  std::vector<Visit> visits;
  const auto layers = static_cast<std::int32_t>(selection.layers.size());
  std::int32_t bank = 1;
  const auto add = [&](std::int32_t m, std::int32_t l, bool backward) {
    const bool same = !visits.empty() && visits.back().micro_batch == m && visits.back().layer == l;
    if (!same) bank = 1 - bank;
    visits.push_back({m, l, backward, bank, !same});
  };
  for (std::int32_t m = 0; m < static_cast<std::int32_t>(selection.micro_batches.size()); ++m) {
    for (std::int32_t l = 0; l < layers; ++l) add(m, l, false);
    for (std::int32_t l = layers - 1; l >= 0; --l) add(m, l, true);
  }
  return visits;
}

}  // namespace relibra::exec
