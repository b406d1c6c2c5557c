#include "lib/planning/copy_split.h"

#include <algorithm>
#include <cassert>

namespace relibra {
namespace {

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

void CopySplit::reset(const DomainLoad& domain) {
  domain_ = domain;
  const std::size_t experts = domain.load.size(), ranks = at(domain.ranks);
  rank_load_.assign(ranks, 0);
  at_home_.assign(domain.load.begin(), domain.load.end());
  total_ = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    rank_load_[at(domain.home[e])] += domain.load[e];
    total_ += domain.load[e];
  }
  copies_ = 0;
  items_.clear();
  of_expert_.assign(experts, {});
  on_rank_.assign(ranks, {});
  of_home_.assign(ranks, {});
  stuck_.assign(ranks, 0);
  round_ = 0;
  rank_round_.assign(ranks, 0);
  expert_round_.assign(experts, 0);
  rank_expert_.resize(ranks);
  rank_item_.resize(ranks);
  expert_item_.resize(experts);
  expert_rank_.resize(experts);
}

bool CopySplit::holds(int expert, int rank) const {
  if (home(expert) == rank) return true;
  for (std::int32_t i = of_expert_[at(expert)].first; i >= 0; i = items_[at(i)].next_of_expert)
    if (items_[at(i)].rank == rank) return true;
  return false;
}

std::int64_t CopySplit::max_load() const {
  return *std::max_element(rank_load_.begin(), rank_load_.end());
}

void CopySplit::add(int expert, int rank, std::int64_t tokens) {
  assert(!holds(expert, rank) && tokens >= 0 && tokens <= at_home(expert));
  List& same = of_expert_[at(expert)];
  List& held = on_rank_[at(rank)];
  List& sent = of_home_[at(home(expert))];
  items_.push_back({expert, rank, tokens, same.first, held.first, sent.first});
  for (List* list : {&same, &held, &sent}) {
    list->first = static_cast<std::int32_t>(items_.size()) - 1;
    ++list->count;
  }
  at_home_[at(expert)] -= tokens;
  rank_load_[at(home(expert))] -= tokens;
  rank_load_[at(rank)] += tokens;
  ++copies_;
}

void CopySplit::unlink(List& list, std::int32_t Item::*next, std::int32_t i) {
  std::int32_t* link = &list.first;
  while (*link != i) link = &(items_[at(*link)].*next);
  *link = items_[at(i)].*next;
  --list.count;
}

void CopySplit::save() {
  saved_load_ = rank_load_;
  saved_home_ = at_home_;
  saved_tokens_.resize(items_.size());
  for (std::size_t k = 0; k < items_.size(); ++k) saved_tokens_[k] = items_[k].tokens;
}

void CopySplit::restore() {
  rank_load_.swap(saved_load_);
  at_home_.swap(saved_home_);
  for (std::size_t k = 0; k < items_.size(); ++k) items_[k].tokens = saved_tokens_[k];
}

void CopySplit::take_home(Item& item) {
  const int to = home(item.expert);
  at_home_[at(item.expert)] += item.tokens;
  rank_load_[at(to)] += item.tokens;
  rank_load_[at(item.rank)] -= item.tokens;
  item.tokens = 0;
}

void CopySplit::unlink(std::int32_t i, std::int32_t rank) {
  const int expert = items_[at(i)].expert;
  unlink(of_expert_[at(expert)], &Item::next_of_expert, i);
  unlink(on_rank_[at(rank)], &Item::next_on_rank, i);
  unlink(of_home_[at(home(expert))], &Item::next_of_home, i);
  items_[at(i)].rank = -1;
  --copies_;
}

void CopySplit::remove(int i) {
  take_home(items_[at(i)]);
  unlink(i, items_[at(i)].rank);
}

bool CopySplit::drop(int i, std::int64_t target) {
  save();
  Item& item = items_[at(i)];
  const std::int32_t rank = item.rank;
  take_home(item);
  item.rank = -1;  // holds nothing while others are asked to take its part
  for (int r = 0; r < ranks(); ++r)
    if (!push_down(r, target)) {
      item.rank = rank;
      restore();
      return false;
    }
  unlink(i, rank);
  return true;
}

std::int64_t& CopySplit::tokens_of(int expert, std::int32_t item) {
  return item == kHome ? at_home_[at(expert)] : items_[at(item)].tokens;
}

// Reaches an expert by a holder that computes some of it, and with it all its other holders. Returns the
// first of them below the target, or -1.
int CopySplit::visit_holders(int expert, std::int32_t item, std::int64_t target) {
  if (expert_round_[at(expert)] == round_ || tokens_of(expert, item) == 0) return -1;
  expert_round_[at(expert)] = round_;
  expert_item_[at(expert)] = item;
  expert_rank_[at(expert)] = item == kHome ? home(expert) : items_[at(item)].rank;
  int below = -1;
  const auto reach = [&](std::int32_t rank, std::int32_t as) {
    if (rank < 0 || below >= 0 || rank_round_[at(rank)] == round_) return;
    rank_round_[at(rank)] = round_;
    rank_expert_[at(rank)] = expert;
    rank_item_[at(rank)] = as;
    queue_.push_back(rank);
    if (rank_load_[at(rank)] < target) below = rank;
  };
  reach(home(expert), kHome);
  for (std::int32_t i = of_expert_[at(expert)].first; i >= 0; i = items_[at(i)].next_of_expert)
    reach(items_[at(i)].rank, i);
  return below;
}

// Nearest rank below the target that `from` can pass assignments to, or -1; queue_ then holds all the ranks
// that it reaches.
int CopySplit::find_below(int from, std::int64_t target) {
  ++round_;
  queue_.assign(1, from);
  rank_round_[at(from)] = round_;
  for (std::size_t next = 0; next < queue_.size(); ++next) {
    const int u = queue_[next];
    for (std::int32_t i = of_home_[at(u)].first; i >= 0; i = items_[at(i)].next_of_home)
      if (const int b = visit_holders(items_[at(i)].expert, kHome, target); b >= 0) return b;
    for (std::int32_t i = on_rank_[at(u)].first; i >= 0; i = items_[at(i)].next_on_rank)
      if (const int b = visit_holders(items_[at(i)].expert, i, target); b >= 0) return b;
  }
  return -1;
}

// Moves as much along the path that find_below left as its ends and its links allow.
void CopySplit::push(int from, int to, std::int64_t target) {
  std::int64_t amount = std::min(load(from) - target, target - load(to));
  for (int r = to; r != from;) {
    const int e = rank_expert_[at(r)];
    amount = std::min(amount, tokens_of(e, expert_item_[at(e)]));
    r = expert_rank_[at(e)];
  }
  for (int r = to; r != from;) {
    const int e = rank_expert_[at(r)];
    tokens_of(e, rank_item_[at(r)]) += amount;
    tokens_of(e, expert_item_[at(e)]) -= amount;
    r = expert_rank_[at(e)];
  }
  rank_load_[at(from)] -= amount;
  rank_load_[at(to)] += amount;
}

// Brings one rank down to the target; false where it is stuck above, then queue_ holds the ranks it reaches.
bool CopySplit::push_down(int from, std::int64_t target) {
  while (load(from) > target) {
    const int below = find_below(from, target);
    if (below < 0) return false;
    push(from, below, target);
  }
  return true;
}

// A rank that is stuck stays so whatever is moved elsewhere: no path enters the ranks it reaches and leaves
// them again. One pass is enough.
std::int64_t CopySplit::relieve(std::int64_t target) {
  std::int64_t above = 0;
  std::fill(stuck_.begin(), stuck_.end(), 0);
  for (int r = 0; r < ranks(); ++r)
    if (!push_down(r, target)) {
      above += load(r) - target;
      for (std::int32_t q : queue_) stuck_[at(q)] = 1;
    }
  return above;
}

std::int64_t CopySplit::tighten() {
  std::int64_t target = ceil_div(total_, ranks());
  while (relieve(target) > 0) {
    std::int64_t load = 0, size = 0;
    for (int r = 0; r < ranks(); ++r)
      if (stuck(r)) {
        load += rank_load_[at(r)];
        ++size;
      }
    target = ceil_div(load, size);
  }
  return target;
}

std::vector<Quota> CopySplit::quotas() const {
  std::vector<Quota> list;
  for (const Item& item : items_)
    if (item.tokens > 0) list.push_back({item.expert, item.rank, item.tokens});
  std::sort(list.begin(), list.end(), [](const Quota& a, const Quota& b) {
    return a.expert != b.expert ? a.expert < b.expert : a.rank < b.rank;
  });
  return list;
}

}  // namespace relibra
