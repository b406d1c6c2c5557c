#include "lib/workload/workload.h"

#include <omp.h>

#include <algorithm>
#include <limits>

#include "lib/base/error.h"
#include "lib/base/parallel.h"
#include "lib/model/blocks.h"
#include "lib/workload/draw.h"
#include "lib/workload/sampler.h"
#include "lib/workload/terms.h"

namespace relibra {
namespace {

using workload::SequenceSampler;

std::int64_t largest_of(IdType type) {
  switch (type) {
    case IdType::u8:
      return std::numeric_limits<std::uint8_t>::max();
    case IdType::i8:
      return std::numeric_limits<std::int8_t>::max();
    case IdType::u16:
      return std::numeric_limits<std::uint16_t>::max();
    case IdType::i16:
      return std::numeric_limits<std::int16_t>::max();
    case IdType::i32:
      break;
  }
  return std::numeric_limits<std::int32_t>::max();
}

bool is_unsigned(IdType type) {
  return type == IdType::u8 || type == IdType::u16;
}

/// Unsigned types need one more value, for routes that are missing.
bool holds_ids(IdType type, const WorkloadOptions& options) {
  const bool spare = options.missing_share > 0 && is_unsigned(type);
  return options.experts - 1 + (spare ? 1 : 0) <= largest_of(type);
}

IdType id_type_for(const WorkloadOptions& options) {
  for (const IdType type : {IdType::u8, IdType::i16})
    if (!options.id_type && holds_ids(type, options)) return type;
  return options.id_type.value_or(IdType::i32);
}

void validate_popularity(const MeasuredPopularity& measured) {
  const auto expected =
      measured.domains.size() * measured.layers.size() * static_cast<std::size_t>(measured.experts);
  if (expected == 0 || measured.counts.size() != expected)
    throw_usage({.where = "--from-counts",
                 .expected = "a count for every domain, layer and expert (" + std::to_string(expected) + ")",
                 .found = std::to_string(measured.counts.size())});
}

void validate(const WorkloadOptions& options) {
  const auto require = [](bool ok, const char* option, const char* expected, auto found) {
    if (!ok) throw_usage({.where = option, .expected = expected, .found = std::to_string(found)});
  };
  require(options.layers >= 1, "--layers", "at least 1", options.layers);
  require(options.experts >= 1 && options.experts <= 65536, "--experts", "1 to 65536", options.experts);
  require(options.top_k >= 1 && options.top_k <= options.experts, "--top-k", "1 to the number of experts",
          options.top_k);
  require(options.sequences >= 1, "--sequences", "at least 1", options.sequences);
  require(options.answers_per_prompt >= 1, "--answers", "at least 1", options.answers_per_prompt);
  require(options.scale > 0, "--scale", "more than 0", options.scale);
  require(options.micro_batches >= 0, "--micro-batches", "0 or more", options.micro_batches);
  require(options.source_ranks >= 0, "--source-ranks", "0 or more", options.source_ranks);
  require(options.missing_share >= 0 && options.missing_share <= 1, "--missing", "a share from 0 to 1",
          options.missing_share);
  require(options.drift >= 0 && options.drift <= 1, "--drift", "0 to 1", options.drift);
  require(options.step >= 0, "--step", "0 or more", options.step);
  require(options.gamma_shape > 0, "--sd-gamma", "more than 0", options.gamma_shape);
  require(holds_ids(id_type_for(options), options), "--id-type",
          "a type that holds every expert id and, where "
          "routes are missing and it has no sign, one more value",
          options.experts);
  if (options.popularity) validate_popularity(*options.popularity);
}

class Workload final : public RoutingSource {
 public:
  explicit Workload(const WorkloadOptions& options)
      : options_(options),
        type_(id_type_for(options)),
        terms_(workload::layer_terms(options)),
        sequences_(workload::workload_sequences(options)) {
    auto& header = dump_.header;
    header.step = options.step;
    header.num_experts = options.experts;
    header.top_k = options.top_k;
    for (int l = 0; l < options.layers; ++l) header.layers.push_back(options.first_layer + l);
    if (options.micro_batches > 0) header.num_micro_batches = options.micro_batches;
    if (options.missing_share > 0 && is_unsigned(type_)) header.missing_id = largest_of(type_);
    header.model = options.model;
    header.producer = "relibra synth";
    dump_.sequences = sequences_.columns;
    for (int t = 0; t < omp_get_max_threads(); ++t) samplers_.emplace_back(options_);
  }

  const RoutingDump& dump() const override { return dump_; }
  IdType id_type() const override { return type_; }

  void read(std::span<const Range> ranges, std::size_t block_bytes, bool, const BlockFn& take) override {
    std::vector<std::byte> buffer;
    for (const Range& rows : cut(ranges, rows_per_block(dump_.header, size_of(type_), block_bytes))) {
      buffer.resize(static_cast<std::size_t>(rows.size() * row_ids()) * size_of(type_));
      const RoutingBlock block{.first_row = rows.first,
                               .rows = rows.size(),
                               .type = type_,
                               .ids = buffer.data(),
                               .weights = nullptr};
      block.with_ids([&]<class T>(const T*) { fill(rows, reinterpret_cast<T*>(buffer.data())); });
      bytes_read_ += static_cast<std::int64_t>(buffer.size());
      take(block);
    }
  }

 private:
  std::int64_t row_ids() const { return std::int64_t{options_.layers} * options_.top_k; }

  template <class T>
  void fill(Range rows, T* ids) {
    const auto& offset = dump_.sequences.row_offset;
    const std::int64_t first =
        std::upper_bound(offset.begin(), offset.end(), rows.first) - offset.begin() - 1;
    const std::int64_t last = std::lower_bound(offset.begin(), offset.end(), rows.last) - offset.begin();
    // Layer by layer, so that a thread's sampler meets answers of one prompt in a row.
    parallel_for((last - first) * options_.layers, [&](std::int64_t task) {
      fill_sequence(rows, ids, first + task % (last - first), static_cast<int>(task / (last - first)));
    });
    if (options_.missing_share > 0) punch_holes(rows, ids);
  }

  template <class T>
  void fill_sequence(Range rows, T* ids, std::int64_t sequence, int layer) {
    const auto s = static_cast<std::size_t>(sequence);
    const std::int64_t start = dump_.sequences.row_offset[s];
    const Range own{std::max(rows.first, start), std::min(rows.last, dump_.sequences.row_offset[s + 1])};
    if (own.empty()) return;
    SequenceSampler& sampler = samplers_[static_cast<std::size_t>(omp_get_thread_num())];
    sampler.begin(terms_[static_cast<std::size_t>(layer)], layer, sequence, sequences_.prompt[s],
                  sequences_.domain[s]);
    T* out = ids + (own.first - rows.first) * row_ids() + std::int64_t{layer} * options_.top_k;
    sampler.sample({own.first - start, own.last - start}, out, row_ids());
  }

  template <class T>
  void punch_holes(Range rows, T* ids) {
    const std::uint64_t key = workload::stream_key(options_.seed, workload::Purpose::holes, {options_.step});
    const auto id = static_cast<T>(dump_.header.missing_id.value_or(-1));
    for (std::int64_t row = rows.first; row < rows.last; ++row)
      if (static_cast<double>(mix64(key + static_cast<std::uint64_t>(row)) >> 11) * 0x1.0p-53 <
          options_.missing_share)
        std::fill_n(ids + (row - rows.first) * row_ids(), row_ids(), id);
  }

  WorkloadOptions options_;
  IdType type_;
  std::vector<workload::LayerTerms> terms_;
  workload::WorkloadSequences sequences_;
  RoutingDump dump_;
  std::vector<SequenceSampler> samplers_;  ///< one a thread
};

}  // namespace

std::unique_ptr<RoutingSource> make_workload(const WorkloadOptions& options) {
  validate(options);
  return std::make_unique<Workload>(options);
}

}  // namespace relibra
