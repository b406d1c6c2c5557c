#include "lib/workload/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace relibra::workload {
namespace {

constexpr std::int64_t kChunk = 64;  // rows that share a stream, so that any row is near the start of one

}  // namespace

void AliasTable::build(const std::vector<double>& weights) {
  const auto n = static_cast<std::uint32_t>(weights.size());
  const double scale = n / std::accumulate(weights.begin(), weights.end(), 0.0);
  entries_.assign(n, {});
  scaled_.resize(n);
  small_.clear();
  large_.clear();
  for (std::uint32_t i = 0; i < n; ++i) {
    scaled_[i] = weights[i] * scale;
    (scaled_[i] < 1 ? small_ : large_).push_back(i);
  }
  while (!small_.empty() && !large_.empty()) {
    const std::uint32_t low = small_.back(), high = large_.back();
    small_.pop_back();
    entries_[low] = {static_cast<std::uint32_t>(scaled_[low] * 0x1.0p32), high};
    scaled_[high] -= 1 - scaled_[low];
    if (scaled_[high] < 1) {
      large_.pop_back();
      small_.push_back(high);
    }
  }
  for (const auto& rest : {small_, large_})  // 1 up to rounding
    for (const std::uint32_t i : rest) entries_[i] = {~std::uint32_t{0}, i};
}

SequenceSampler::SequenceSampler(const WorkloadOptions& options)
    : options_(options),
      factor_(static_cast<std::size_t>(options.experts)),
      weights_(static_cast<std::size_t>(options.experts)),
      seen_(static_cast<std::size_t>(options.experts)) {}

void SequenceSampler::begin(const LayerTerms& terms, int layer, std::int64_t sequence, int prompt,
                            int domain) {
  terms_ = &terms;
  key_ = stream_key(options_.seed, Purpose::sequence, {options_.step, layer, sequence});
  Random of_prompt(stream_key(options_.seed, Purpose::prompt, {options_.step, layer, prompt}));
  Random own(key_);
  const double* logit = terms.logit.data() + static_cast<std::ptrdiff_t>(domain) * options_.experts;
  for (std::size_t e = 0; e < factor_.size(); ++e)
    factor_[e] =
        std::exp(logit[e] + options_.sd_prompt * of_prompt.normal()) * gamma(own, options_.gamma_shape);

  double sum = 0;
  for (std::size_t t = 0; t < kTypes; ++t)
    type_limit_[t] = sum += gamma(own, kTypes * terms.mix[static_cast<std::size_t>(domain)][t] + 0.01);
  for (auto& table : tables_) table.clear();
}

const AliasTable& SequenceSampler::table(int type) {
  AliasTable& table = tables_[static_cast<std::size_t>(type)];
  if (table.empty()) {
    const double* of_type = terms_->type_weight.data() + static_cast<std::ptrdiff_t>(type) * options_.experts;
    for (std::size_t e = 0; e < factor_.size(); ++e) weights_[e] = factor_[e] * of_type[e];
    table.build(weights_);
  }
  return table;
}

/// An expert that the row lacks, by going through all: for rows whose rest is so light that drawing again
/// takes too long.
std::uint32_t SequenceSampler::draw_rest(Random& random, int type) {
  const double* of_type = terms_->type_weight.data() + static_cast<std::ptrdiff_t>(type) * options_.experts;
  double sum = 0;
  for (std::size_t e = 0; e < factor_.size(); ++e)
    if (seen_[e] != stamp_) sum += factor_[e] * of_type[e];
  double left = random.uniform() * sum;
  std::uint32_t last = 0;
  for (std::uint32_t e = 0; e < factor_.size(); ++e) {
    if (seen_[e] == stamp_) continue;
    last = e;
    if ((left -= factor_[e] * of_type[e]) < 0) break;
  }
  return last;
}

template <class T>
void SequenceSampler::sample_row(Random& random, int type, T* out) {
  if (++stamp_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    stamp_ = 1;
  }
  const AliasTable& by_weight = table(type);
  const int patience = 16 + 4 * options_.top_k;
  for (int k = 0, tries = 0; k < options_.top_k;) {
    const std::uint32_t e = tries++ < patience ? by_weight.draw(random.next()) : draw_rest(random, type);
    out[k] = static_cast<T>(e);
    k += seen_[e] != stamp_ ? 1 : 0;
    seen_[e] = stamp_;
  }
}

template <class T>
void SequenceSampler::sample_chunk(std::int64_t chunk, Range rows, T* out, std::int64_t stride) {
  Random random(key_, 1 + static_cast<std::uint64_t>(chunk));
  std::array<int, kChunk / kTypeRun> types;
  for (int& type : types) {
    const double at = random.uniform() * type_limit_.back();
    type = static_cast<int>(std::upper_bound(type_limit_.begin(), type_limit_.end() - 1, at) -
                            type_limit_.begin());
  }
  std::vector<T> unused(static_cast<std::size_t>(options_.top_k));
  for (std::int64_t row = chunk * kChunk; row < std::min(rows.last, (chunk + 1) * kChunk); ++row) {
    T* to = row < rows.first ? unused.data() : out + (row - rows.first) * stride;
    sample_row(random, types[static_cast<std::size_t>(row % kChunk / kTypeRun)], to);
  }
}

template <class T>
void SequenceSampler::sample(Range rows, T* out, std::int64_t stride) {
  for (std::int64_t chunk = rows.first / kChunk; chunk * kChunk < rows.last; ++chunk)
    sample_chunk(chunk, rows, out, stride);
}

template void SequenceSampler::sample(Range, std::uint8_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int8_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::uint16_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int16_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int32_t*, std::int64_t);

}  // namespace relibra::workload
