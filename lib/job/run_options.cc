// What the options of an execution mean for a plan: which cells, which sizes.
#include <algorithm>
#include <charconv>
#include <numeric>

#include "lib/job/run.h"
#include "lib/workload/workload.h"

namespace relibra {
namespace {

/// What the stand-in for attention needs of a model's published configuration: widths of all query heads and
/// of all key (or value) heads together. Zero projections: 2*H*(query + key).
struct AttentionShape {
  std::string_view preset;
  std::int64_t query, key;
  std::int64_t projections = 0;  ///< parameters, where they are not 2*H*(query + key)
};

constexpr AttentionShape kAttention[] = {
    {"qwen3-30b", 32 * 128, 4 * 128},
    {"qwen3-235b", 64 * 128, 4 * 128},
    {"glm4.5", 96 * 128, 8 * 128},
    {"glm4.5-air", 96 * 128, 8 * 128},
    // Multi-head latent attention: queries by way of 1536, keys and values by way of 512 + 64 rotary; scores
    // are over 192 wide keys and 128 wide values, 160 on average, in 128 heads.
    {"deepseek-v3", 128 * 160, 0,
     7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168},
    {"olmoe", 16 * 128, 16 * 128},
    {"mixtral", 32 * 128, 8 * 128},
};

/// Columns of a GEMM (tokens, H) x (H, columns) with the floating-point operations of attention: 2 a
/// parameter of the projections, and 2 * context * query for the scores and their use, of a causal half of
/// the context.
std::int64_t attention_columns(std::string_view preset, std::int64_t hidden, std::int64_t context) {
  AttentionShape shape{preset, hidden, hidden / 4};  // a model not listed: grouped queries, four a key
  for (const AttentionShape& known : kAttention)
    if (known.preset == preset) shape = known;
  const std::int64_t parameters =
      shape.projections ? shape.projections : 2 * hidden * (shape.query + shape.key);
  const std::int64_t columns = (parameters + context * shape.query) / hidden;
  return std::max<std::int64_t>(8, columns / 8 * 8);  // as tensor cores take them
}

[[noreturn]] void refuse_list(std::string_view text, int count, std::string_view option) {
  throw_usage({.where = std::string(option),
               .expected = "numbers 0.." + std::to_string(count - 1) + " and rising ranges, as in 0,2-4",
               .found = "'" + std::string(text) + "'"});
}

int number_in(std::string_view text, int count, std::string_view option) {
  int value = -1;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc() || end != text.data() + text.size() || value < 0 || value >= count)
    refuse_list(text, count, option);
  return value;
}

}  // namespace

std::vector<int> parse_list(std::string_view text, int count, std::string_view option) {
  std::vector<int> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  if (text.empty()) return values;
  values.clear();
  while (true) {
    const auto comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const auto dash = part.find('-');
    const int first = number_in(part.substr(0, dash), count, option);
    const int last = dash == std::string_view::npos ? first : number_in(part.substr(dash + 1), count, option);
    if (last < first) refuse_list(part, count, option);
    for (int value = first; value <= last; ++value) values.push_back(value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

exec::ModelShape model_shape(const RunOptions& options, const RoutingDump& dump) {
  exec::ModelShape shape{
      .hidden = options.hidden, .intermediate = options.intermediate, .type = options.type};
  if (!options.model.empty()) {
    const ModelPreset& preset = model_preset(options.model);
    if (shape.hidden == 0) shape.hidden = preset.hidden;
    if (shape.intermediate == 0) shape.intermediate = preset.intermediate;
  }
  if (shape.hidden < 1 || shape.intermediate < 1)
    throw_usage({.where = "--model, --hidden, --intermediate",
                 .expected = "a model, or both sizes, at least 1",
                 .found = "--hidden " + std::to_string(options.hidden) + ", --intermediate " +
                          std::to_string(options.intermediate)});
  if (shape.type == kernels::Type::bfloat16 && (shape.hidden % 8 != 0 || shape.intermediate % 8 != 0))
    throw_usage(
        {.where = "--dtype bfloat16",
         .expected = "hidden and intermediate sizes that are multiples of 8, as tensor cores take them",
         .found = std::to_string(shape.hidden) + " and " + std::to_string(shape.intermediate)});
  if (options.attention) {
    const auto& tokens = dump.sequences.num_tokens;
    const std::int64_t sum = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    const auto context = tokens.empty() ? 0 : sum / static_cast<std::int64_t>(tokens.size());
    shape.attention_columns = attention_columns(options.model, shape.hidden, context);
  }
  return shape;
}

}  // namespace relibra
