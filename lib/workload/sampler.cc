#include "lib/workload/sampler.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "lib/workload/draw.h"

namespace relibra::workload {
namespace {

DrawRule rule_of(const WorkloadOptions& options) {
  return {options.top_k, static_cast<std::uint32_t>(16 + 4 * options.top_k)};
}

SequenceSampler::Method best_method(const WorkloadOptions& options) {
  return can_draw_runs(AliasTables(options.experts), rule_of(options)) ? SequenceSampler::Method::side_by_side
                                                                       : SequenceSampler::Method::single;
}

/// A row of RunBatch as ids.
template <class T>
void store_row(std::uint64_t row, int top_k, T* out) {
  if (sizeof(T) == 1 && top_k == 8) {
    std::memcpy(out, &row, 8);  // little-endian, as all machines that draw side by side
    return;
  }
  for (int k = 0; k < top_k; ++k) out[k] = static_cast<T>(row >> (8 * k) & 0xFF);
}

}  // namespace

SequenceSampler::SequenceSampler(const WorkloadOptions& options)
    : SequenceSampler(options, best_method(options)) {}

SequenceSampler::SequenceSampler(const WorkloadOptions& options, Method method)
    : options_(options),
      method_(method),
      rule_(rule_of(options)),
      prompt_weight_(static_cast<std::size_t>(options.experts)),
      factor_(prompt_weight_.size()),
      tables_(options.experts),
      weights_(prompt_weight_.size()),
      seen_(prompt_weight_.size()) {}

/// The part that all answers to a prompt share, kept from the answer before.
void SequenceSampler::set_prompt(const LayerTerms& terms, int layer, int prompt, int domain) {
  const std::uint64_t key = stream_key(options_.seed, Purpose::prompt, {options_.step, layer, prompt});
  if (key == prompt_key_ && &terms == terms_) return;
  prompt_key_ = key;
  Random random(key);
  const double* logit = terms.logit.data() + static_cast<std::ptrdiff_t>(domain) * options_.experts;
  for (std::size_t e = 0; e < prompt_weight_.size(); ++e)
    prompt_weight_[e] = std::exp(logit[e] + options_.sd_prompt * random.normal());
}

void SequenceSampler::begin(const LayerTerms& terms, int layer, std::int64_t sequence, int prompt,
                            int domain) {
  set_prompt(terms, layer, prompt, domain);
  terms_ = &terms;
  key_ = stream_key(options_.seed, Purpose::sequence, {options_.step, layer, sequence});
  Random own(key_);
  for (std::size_t e = 0; e < factor_.size(); ++e)
    factor_[e] = prompt_weight_[e] * gamma(own, options_.gamma_shape);

  std::array<double, kTypes> limit;
  double sum = 0;
  for (std::size_t t = 0; t < kTypes; ++t)
    limit[t] = sum += gamma(own, kTypes * terms.mix[static_cast<std::size_t>(domain)][t] + 0.01);
  for (std::size_t t = 0; t + 1 < kTypes; ++t)
    type_limit_[t] = static_cast<std::uint32_t>(std::min(limit[t] / sum, 1 - 0x1.0p-32) * 0x1.0p32);
  tables_.clear();
}

/// Also sees to the type's table.
int SequenceSampler::draw_type(RunRandom& random) {
  const std::uint32_t bits = random.next();
  int type = 0;
  for (const std::uint32_t limit : type_limit_) type += bits >= limit ? 1 : 0;
  if (tables_.built(type)) return type;
  const double* of_type = terms_->type_weight.data() + static_cast<std::ptrdiff_t>(type) * options_.experts;
  for (std::size_t e = 0; e < factor_.size(); ++e) weights_[e] = factor_[e] * of_type[e];
  tables_.build(type, weights_);
  return type;
}

/// An expert that the row lacks, by going through all: for rows whose rest is so light that drawing again
/// takes too long.
std::uint32_t SequenceSampler::draw_rest(RunRandom& random, int type) {
  const double* of_type = terms_->type_weight.data() + static_cast<std::ptrdiff_t>(type) * options_.experts;
  double sum = 0;
  for (std::size_t e = 0; e < factor_.size(); ++e)
    if (seen_[e] != stamp_) sum += factor_[e] * of_type[e];
  double left = random.next() * 0x1.0p-32 * sum;
  std::uint32_t last = 0;
  for (std::uint32_t e = 0; e < factor_.size(); ++e) {
    if (seen_[e] == stamp_) continue;
    last = e;
    if ((left -= factor_[e] * of_type[e]) < 0) break;
  }
  return last;
}

template <class T>
void SequenceSampler::sample_row(RunRandom& random, int type, T* out) {
  if (++stamp_ == 0) {
    std::fill(seen_.begin(), seen_.end(), 0);
    stamp_ = 1;
  }
  std::uint32_t tries = 0;
  for (int k = 0; k < rule_.top_k;) {
    const std::uint32_t e =
        tries++ < rule_.patience ? tables_.draw(type, random.next()) : draw_rest(random, type);
    out[k] = static_cast<T>(e);
    k += seen_[e] != stamp_ ? 1 : 0;
    seen_[e] = stamp_;
  }
}

template <class T>
void SequenceSampler::sample_run(std::int64_t run, const Output<T>& output) {
  RunRandom random(key_, run);
  const int type = draw_type(random);
  std::vector<T> unwanted(static_cast<std::size_t>(rule_.top_k));
  for (std::int64_t row = run * kTypeRun; row < std::min(output.rows.last, (run + 1) * kTypeRun); ++row)
    sample_row(random, type, output.rows.contains(row) ? output.of(row) : unwanted.data());
}

template <class T>
void SequenceSampler::sample_batch(std::int64_t first_run, const Output<T>& output) {
  RunBatch batch;
  for (int i = 0; i < RunBatch::kRuns; ++i) {
    RunRandom random(key_, first_run + i);
    batch.table[i] = static_cast<std::uint32_t>(draw_type(random) * tables_.size());
    for (std::size_t word = 0; word < 4; ++word) batch.state[word][i] = random.state[word];
  }
  const std::uint32_t impatient = draw_runs(tables_, rule_, batch);
  for (int i = 0; i < RunBatch::kRuns; ++i) {
    if ((impatient >> i & 1) != 0) {
      sample_run(first_run + i, output);
      continue;
    }
    for (int r = 0; r < kTypeRun; ++r) {
      const std::int64_t row = (first_run + i) * kTypeRun + r;
      if (!output.rows.contains(row)) continue;
      store_row(batch.rows[r][i], rule_.top_k, output.of(row));
    }
  }
}

template <class T>
void SequenceSampler::sample(Range rows, T* out, std::int64_t stride) {
  const Output<T> output{rows, out, stride};
  const std::int64_t last = (rows.last + kTypeRun - 1) / kTypeRun;
  std::int64_t run = rows.first / kTypeRun;
  for (; method_ == Method::side_by_side && run + RunBatch::kRuns / 2 < last; run += RunBatch::kRuns)
    sample_batch(run, output);
  for (; run < last; ++run) sample_run(run, output);
}

template void SequenceSampler::sample(Range, std::uint8_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int8_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::uint16_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int16_t*, std::int64_t);
template void SequenceSampler::sample(Range, std::int32_t*, std::int64_t);

}  // namespace relibra::workload
