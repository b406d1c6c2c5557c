#pragma once
// Strong index types. All count from 0; a default-constructed one is invalid (-1).
//
//   for (ExpertId e : all<ExpertId>(num_experts)) load[e.index()] += ...;
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace relibra {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral T>
  constexpr explicit Id(T value) : value_(static_cast<std::int32_t>(value)) {}

  constexpr std::int32_t value() const { return value_; }
  constexpr std::size_t index() const { return static_cast<std::size_t>(value_); }
  constexpr bool valid() const { return value_ >= 0; }
  constexpr auto operator<=>(const Id&) const = default;
  constexpr Id& operator++() {
    ++value_;
    return *this;
  }

 private:
  std::int32_t value_ = -1;
};

using ExpertId = Id<struct ExpertTag>;
using LayerId = Id<struct LayerTag>;            ///< routed layer 0..L-1, not the model's block number
using MicroBatchId = Id<struct MicroBatchTag>;  ///< 0..M-1
using SequenceId = Id<struct SequenceTag>;      ///< 0..S-1 over the joined dump
using RankId = Id<struct RankTag>;              ///< global rank 0..W-1
using EpRankId = Id<struct EpRankTag>;          ///< rank inside its EP group, 0..P-1
using GroupId = Id<struct GroupTag>;            ///< EP group 0..D-1
using NodeId = Id<struct NodeTag>;              ///< node 0..N-1

/// The ids 0 .. count-1, for a range-based for.
template <class I>
class IdRange {
 public:
  struct iterator {
    I id;
    constexpr I operator*() const { return id; }
    constexpr iterator& operator++() {
      ++id;
      return *this;
    }
    constexpr bool operator==(const iterator&) const = default;
  };
  constexpr IdRange(I first, I last) : first_(first), last_(last) {}
  constexpr iterator begin() const { return {first_}; }
  constexpr iterator end() const { return {last_}; }

 private:
  I first_, last_;
};

template <class I, std::integral T>
constexpr IdRange<I> all(T count) {
  return {I(0), I(count)};
}

}  // namespace relibra
