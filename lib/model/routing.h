#pragma once
// A routing dump in memory: its description (small, on every rank) and blocks of its rows (large, streamed).
// Letters as in docs/formats.md: R rows, S sequences, L layers, K experts a token, E experts a layer.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/share.h"

namespace relibra {

struct RoutingHeader {
  std::int64_t step = 0;
  int num_experts = 0;                          ///< E
  int top_k = 0;                                ///< K
  std::vector<std::int32_t> layers = {};        ///< (L) model block of each routed layer, strictly increasing
  std::optional<int> num_micro_batches = {};    ///< the attribute, where the dump has it
  int optimizer_steps = 1;                      ///< micro-batches are that many equal consecutive runs
  std::optional<std::int64_t> missing_id = {};  ///< stands for "no route", besides negative ids
  bool has_weights = false;                     ///< /weights is there
  std::string model = {}, producer = {};        ///< shown to people, never parsed

  int num_layers() const { return static_cast<int>(layers.size()); }
};

/// Per sequence of the joined dump; optional columns are empty where the dump lacks them.
struct Sequences {
  std::vector<std::int64_t> row_offset{0};  ///< (S+1) rows of sequence i are [row_offset[i], row_offset[i+1])
  std::vector<std::int64_t> row_start = {};      ///< (S) or empty: position of the first recorded row
  std::vector<std::int64_t> num_tokens = {};     ///< (S) tokens the trainer processes, at least the rows
  std::vector<std::int32_t> micro_batch = {};    ///< (S) or empty
  std::vector<std::int32_t> source_rank = {};    ///< (S) or empty
  std::vector<std::int32_t> prompt_tokens = {};  ///< (S) or empty
  std::vector<std::int32_t> group = {};          ///< (S) or empty: answers to one prompt
  std::vector<std::string> domain = {};          ///< (S) or empty

  std::int64_t size() const { return static_cast<std::int64_t>(row_offset.size()) - 1; }
  std::int64_t total_rows() const { return row_offset.back(); }
  std::int64_t rows(std::int64_t i) const {
    return row_offset[static_cast<std::size_t>(i) + 1] - row_offset[static_cast<std::size_t>(i)];
  }
};

struct RoutingDump {
  RoutingHeader header;
  Sequences sequences;
};

/// Element type of expert ids as stored.
enum class IdType { u8, i8, u16, i16, i32 };

constexpr std::size_t size_of(IdType type) {
  return type == IdType::i32 ? 4 : (type == IdType::u8 || type == IdType::i8) ? 1 : 2;
}

/// Consecutive rows of the joined dump, in the file's own element type.
struct RoutingBlock {
  std::int64_t first_row = 0;  ///< in the joined dump
  std::int64_t rows = 0;
  IdType type = IdType::i32;
  const void* ids = nullptr;       ///< (rows, L, K), row-major; valid during the callback only
  const float* weights = nullptr;  ///< (rows, L, K) or null: every one is 1/K

  /// Calls f(const T* ids) with T the element type.
  template <class F>
  decltype(auto) with_ids(F&& f) const {
    switch (type) {
      case IdType::u8:
        return f(static_cast<const std::uint8_t*>(ids));
      case IdType::i8:
        return f(static_cast<const std::int8_t*>(ids));
      case IdType::u16:
        return f(static_cast<const std::uint16_t*>(ids));
      case IdType::i16:
        return f(static_cast<const std::int16_t*>(ids));
      case IdType::i32:
        break;
    }
    return f(static_cast<const std::int32_t*>(ids));
  }
};

/// Says whether an id is "no route": negative, or the dump's missing_id.
struct MissingRule {
  std::int64_t missing_id;
  explicit MissingRule(const RoutingHeader& header) : missing_id(header.missing_id.value_or(-1)) {}
  template <class T>
  bool operator()(T id) const {
    return id < T{0} || static_cast<std::int64_t>(id) == missing_id;
  }
};

/// Where rows come from: a dump in files, a generator, an array in memory. One object a process; the
/// description is the same on all ranks.
class RoutingSource {
 public:
  using BlockFn = std::function<void(const RoutingBlock&)>;

  virtual ~RoutingSource() = default;
  virtual const RoutingDump& dump() const = 0;
  virtual IdType id_type() const = 0;

  /// Hands out the rows of `ranges` (ascending, disjoint, this rank's own choice, may be empty) in ascending
  /// order, in blocks of at most about `block_bytes` of ids; a block never spans two ranges. Weights come
  /// along only if `with_weights` and the dump has them.
  ///
  /// Collective over the source's communicator: files are read with collective I/O, so every rank must call
  /// it, and an I/O failure or an exception out of `take` on any rank is thrown on all of them, agreed.
  virtual void read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
                    const BlockFn& take) = 0;

  /// Where a row of the joined dump comes from, for messages: "step7.h5:/experts". Local.
  virtual std::string place_of(std::int64_t /*row*/) const { return "/experts"; }

  std::int64_t bytes_read() const { return bytes_read_; }  ///< local, ids and weights, so far

 protected:
  std::int64_t bytes_read_ = 0;
};

}  // namespace relibra
