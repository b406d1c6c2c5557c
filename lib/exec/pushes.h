#pragma once
// Weights to copies and gradients back, for one cell and one EP group.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/exec/holders.h"

namespace relibra::exec {

/// Rounds of a push: from the home, then from relays.
inline constexpr int kPushRounds = 2;

/// One expert's weights from a rank that has them to a rank that holds a copy.
struct PushEdge {
  int round = 0;
  ExpertId expert;
  RankId from, to;
  bool operator==(const PushEdge&) const = default;
};

/// Copies that pass weights on, of n copies of an expert that is relayed: min(floor(sqrt(n)), 8); 0, no
/// relay, below 4 copies (UltraEP, arXiv 2606.04101).
int relays_of(int copies);

/// Who sends to whom, sorted by (round, expert, to). A home sends to all copies of its experts itself while
/// that is at most `max_fan_out` messages (0: always). Beyond, its experts with most copies are relayed, one
/// after the other until it is: the n copies in rank order are cut into relays_of(n) runs, the first of each
/// run gets the weights from the home and passes them to the others of its run, which are near it.
///
/// Example: expert 7 with home 0 and copies on ranks 1..5, max_fan_out 4: two relays. Round 0: 0 -> 1, 0 ->
/// 4; round 1: 1 -> 2, 1 -> 3, 4 -> 5.
std::vector<PushEdge> push_edges(const Holders& holders, int max_fan_out);

/// What one rank does in a push. Slots as in Holders.
struct PushSend {
  RankId to;
  std::int32_t slot = 0;  ///< where the weights are here
};
struct PushReceive {
  RankId from;
  std::int32_t slot = 0;  ///< the copy's slot here
};

/// Gradients of copies go straight to the home, which adds them in the order of `receives`: by
/// (expert, rank), whatever arrives first.
struct RankPushes {
  std::vector<PushSend> sends[kPushRounds];
  std::vector<PushReceive> receives[kPushRounds];
  struct Return {
    RankId peer;
    std::int32_t slot = 0;  ///< the copy's here (sends), the home's here (receives)
  };
  std::vector<Return> return_sends, return_receives;
};

RankPushes pushes_of(const Holders& holders, RankId rank, int max_fan_out);

}  // namespace relibra::exec
