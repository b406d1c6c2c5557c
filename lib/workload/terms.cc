#include "lib/workload/terms.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "lib/base/parallel.h"
#include "lib/workload/draw.h"

namespace relibra::workload {
namespace {

int num_domains(const WorkloadOptions& options) {
  return static_cast<int>(domain_names(options).size());
}

/// The measured layer for layer `layer`, and whether it stands for itself.
std::pair<std::size_t, bool> nearest_measured(const MeasuredPopularity& measured, int layer, int layers) {
  const double depth = layers > 1 ? static_cast<double>(layer) / (layers - 1) : 0;
  const double position = depth * measured.layers.back();
  std::size_t best = 0;
  for (std::size_t i = 1; i < measured.layers.size(); ++i)
    if (std::abs(measured.layers[i] - position) < std::abs(measured.layers[best] - position)) best = i;
  return {best, std::abs(measured.layers[best] - position) < 1e-9};
}

/// Which measured expert each of E experts takes after: themselves, or shuffled as often as it takes.
std::vector<std::size_t> measured_experts(const WorkloadOptions& options, int layer, bool same_layer) {
  const auto from = static_cast<std::size_t>(options.popularity->experts);
  std::vector<std::size_t> order(from), taken;
  std::iota(order.begin(), order.end(), 0);
  const bool shuffle = !same_layer || options.experts != options.popularity->experts;
  Random random(stream_key(options.seed, Purpose::order, {layer}));
  while (taken.size() < static_cast<std::size_t>(options.experts)) {
    for (std::size_t i = from; shuffle && i > 1; --i)
      std::swap(order[i - 1], order[random.below(static_cast<std::uint32_t>(i))]);
    const auto rest = static_cast<std::size_t>(options.experts) - taken.size();
    taken.insert(taken.end(), order.begin(),
                 order.begin() + static_cast<std::ptrdiff_t>(std::min(from, rest)));
  }
  return taken;
}

/// (D, E) logarithms of the measured popularity; half an assignment stands for none.
std::vector<double> measured_logits(const WorkloadOptions& options, int layer) {
  const auto& measured = *options.popularity;
  const auto [nearest, same] = nearest_measured(measured, layer, options.layers);
  const auto taken = measured_experts(options, layer, same);
  std::vector<double> logits;
  for (std::size_t d = 0; d < measured.domains.size(); ++d) {
    const std::size_t at =
        (d * measured.layers.size() + nearest) * static_cast<std::size_t>(measured.experts);
    for (const std::size_t e : taken) logits.push_back(std::log(measured.counts[at + e] + 0.5));
  }
  return logits;
}

/// The walk of one term over the steps: sd times a stationary walk, or, where it starts from something
/// measured, its distance from there.
class Walk {
 public:
  Walk(const WorkloadOptions& options, std::size_t size) : options_(options), value_(size) {}

  void step(Random& random, bool start) {
    const double keep = start ? 0 : std::sqrt(1 - options_.drift * options_.drift);
    const double fresh = start ? (options_.popularity ? 0 : 1) : options_.drift;
    for (double& x : value_) x = keep * x + fresh * random.normal();
  }
  double at(std::size_t i) const { return value_[i]; }

 private:
  const WorkloadOptions& options_;
  std::vector<double> value_;
};

/// (D, E) base + domain at the step.
std::vector<double> logits_of(const WorkloadOptions& options, int layer) {
  const auto domains = static_cast<std::size_t>(num_domains(options));
  const auto experts = static_cast<std::size_t>(options.experts);
  Walk base(options, experts), domain(options, domains * experts);
  for (std::int64_t step = 0; step <= options.step; ++step) {
    Random random(stream_key(options.seed, Purpose::walk, {layer, step}));
    base.step(random, step == 0);
    domain.step(random, step == 0);
  }
  auto logits = options.popularity ? measured_logits(options, layer) : std::vector<double>(domains * experts);
  for (std::size_t i = 0; i < logits.size(); ++i)
    logits[i] += options.sd_base * base.at(i % experts) + options.sd_domain * domain.at(i);
  return logits;
}

LayerTerms terms_of(const WorkloadOptions& options, int layer) {
  LayerTerms terms{.logit = logits_of(options, layer), .type_weight = {}, .mix = {}};
  Random random(stream_key(options.seed, Purpose::terms, {layer}));
  for (int i = 0; i < kTypes * options.experts; ++i)
    terms.type_weight.push_back(std::exp(options.sd_type * random.normal()));
  for (int d = 0; d < num_domains(options); ++d) {
    std::array<double, kTypes> mix;
    for (double& share : mix) share = gamma(random, 1);
    const double sum = std::accumulate(mix.begin(), mix.end(), 0.0);
    for (double& share : mix) share /= sum;
    terms.mix.push_back(mix);
  }
  return terms;
}

/// Domains have shares 5 : 3 : 2, further ones 1 each.
int draw_domain(Random& random, int domains) {
  const auto share = [](int d) { return d < 3 ? 5.0 - d - (d > 0 ? 1 : 0) : 1.0; };
  double sum = 0;
  for (int d = 0; d < domains; ++d) sum += share(d);
  double left = random.uniform() * sum;
  for (int d = 0; d + 1 < domains; ++d)
    if ((left -= share(d)) < 0) return d;
  return domains - 1;
}

double mean_log_length(int domain) {
  constexpr double kMean[] = {8.5, 8.3, 7.8};
  return domain < 3 ? kMean[domain] : 8.0;
}

/// Micro-batches are equal runs of sequences; in each, sequences are dealt to the ranks in order.
void add_fixed_columns(const WorkloadOptions& options, Sequences& columns) {
  const std::int64_t count = options.sequences, micro_batches = std::max(1, options.micro_batches);
  const std::int64_t each = (count + micro_batches - 1) / micro_batches;
  for (std::int64_t s = 0; s < count; ++s) {
    if (options.micro_batches > 0 && options.fixed_micro_batches)
      columns.micro_batch.push_back(static_cast<std::int32_t>(s * micro_batches / count));
    if (options.source_ranks > 0)
      columns.source_rank.push_back(
          static_cast<std::int32_t>(s % each * options.source_ranks / each % options.source_ranks));
  }
}

}  // namespace

std::vector<std::string> domain_names(const WorkloadOptions& options) {
  if (options.popularity) return options.popularity->domains;
  return {"math", "code", "chat"};
}

std::vector<LayerTerms> layer_terms(const WorkloadOptions& options) {
  std::vector<LayerTerms> terms(static_cast<std::size_t>(options.layers));
  parallel_for(options.layers, [&](std::int64_t l) {
    terms[static_cast<std::size_t>(l)] = terms_of(options, static_cast<int>(l));
  });
  return terms;
}

WorkloadSequences workload_sequences(const WorkloadOptions& options) {
  const auto names = domain_names(options);
  Random random(stream_key(options.seed, Purpose::lengths, {options.step}));
  WorkloadSequences result;
  Sequences& columns = result.columns;
  double prompt_mean = 0;
  for (std::int64_t s = 0; s < options.sequences; ++s) {
    if (s % options.answers_per_prompt == 0) {
      result.domain.push_back(draw_domain(random, static_cast<int>(names.size())));
      prompt_mean = mean_log_length(result.domain.back()) + 0.4 * random.normal();
    } else {
      result.domain.push_back(result.domain.back());
    }
    result.prompt.push_back(static_cast<std::int32_t>(s / options.answers_per_prompt));
    const double length = std::clamp(std::exp(prompt_mean + 0.5 * random.normal()), 1024.0, 16384.0);
    const auto tokens = std::max<std::int64_t>(1, static_cast<std::int64_t>(length * options.scale));
    columns.num_tokens.push_back(tokens);
    columns.row_offset.push_back(columns.row_offset.back() + tokens - 1);  // the last token is never recorded
    columns.group.push_back(result.prompt.back());
    columns.domain.push_back(names[static_cast<std::size_t>(result.domain.back())]);
  }
  add_fixed_columns(options, columns);
  return result;
}

}  // namespace relibra::workload
