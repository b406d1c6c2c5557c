#include "lib/exec/reference.h"

#include <algorithm>
#include <cmath>

namespace relibra::exec {
namespace {

std::size_t size(std::int64_t n) {
  return static_cast<std::size_t>(n);
}

/// One expert on some rows, in double.
struct Expert {
  std::int64_t rows, h, i;
  std::span<const double> gate_up;  ///< (2I, H)
  std::span<const double> down;     ///< (H, I)

  Expert(const ModelShape& shape, std::int64_t rows, std::span<const double> parameters)
      : rows(rows),
        h(shape.hidden),
        i(shape.intermediate),
        gate_up(parameters.first(size(shape.down_offset()))),
        down(parameters.subspan(size(shape.down_offset()))) {}

  std::vector<double> project_up(std::span<const double> x) const {
    std::vector<double> out(size(rows * 2 * i));
    multiply(rows, 2 * i, h, x, transposed(gate_up, 2 * i, h), out);
    return out;
  }
  std::vector<double> hidden(std::span<const double> projected) const {
    std::vector<double> out(size(rows * i));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < i; ++c) {
        const double gate = projected[size(r * 2 * i + c)], up = projected[size(r * 2 * i + i + c)];
        out[size(r * i + c)] = gate / (1 + std::exp(-gate)) * up;
      }
    return out;
  }
  std::vector<double> output(std::span<const double> hidden_rows) const {
    std::vector<double> out(size(rows * h));
    multiply(rows, h, i, hidden_rows, transposed(down, h, i), out);
    return out;
  }

  struct Backward {
    std::vector<double> hidden, gate, projected_gradient, input_gradient;
  };
  /// `d` (rows, H) is the gradient of the expert's output before the gate weights `w` (rows).
  Backward backward(std::span<const double> x, std::span<const double> d, std::span<const double> w) const {
    const auto projected = project_up(x);
    Backward b{hidden(projected), std::vector<double>(size(rows)), std::vector<double>(projected.size()),
               std::vector<double>(size(rows * h))};
    std::vector<double> dh(size(rows * i));
    multiply(rows, i, h, d, down, dh);
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < i; ++c) {
        const std::size_t at = size(r * i + c), wide = size(r * 2 * i + c);
        const double gate = projected[wide], up = projected[wide + size(i)];
        const double s = 1 / (1 + std::exp(-gate)), through = w[size(r)] * dh[at];
        b.gate[size(r)] += dh[at] * b.hidden[at];
        b.projected_gradient[wide] = through * up * (s + gate * s * (1 - s));
        b.projected_gradient[wide + size(i)] = through * gate * s;
      }
    multiply(rows, h, 2 * i, b.projected_gradient, gate_up, b.input_gradient);
    return b;
  }
};

std::vector<double> rows_of(std::span<const double> all, std::span<const std::int64_t> tokens,
                            std::int64_t h) {
  std::vector<double> rows;
  rows.reserve(tokens.size() * size(h));
  for (const std::int64_t t : tokens) {
    const auto row = all.subspan(size(t * h), size(h));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  return rows;
}

}  // namespace

/// The tokens of a cell that chose one expert.
struct Reference::Routed {
  std::vector<std::int64_t> tokens;
  std::vector<std::size_t> route;  ///< token*K + k
  std::vector<double> weight;
};

Reference::Reference(const Generator& generator, const ModelShape& shape, const Selection& selection,
                     const SourceRoutes& source)
    : generator_(generator),
      shape_(shape),
      selection_(selection),
      source_(source),
      x_(selection.cells()),
      d_(selection.cells()) {}

Reference::Routed Reference::routed_to(const CellRoutes& routes, ExpertId e) const {
  Routed routed;
  for (std::size_t i = 0; i < routes.expert.size(); ++i)
    if (routes.expert[i] == e) {
      routed.tokens.push_back(static_cast<std::int64_t>(i) / routes.top_k);
      routed.route.push_back(i);
      routed.weight.push_back(routes.weight[i]);
    }
  return routed;
}

std::vector<double> Reference::parameters(std::size_t layer, ExpertId e) const {
  std::vector<float> values(size(shape_.expert_elements()));
  generator_.expert(selection_.layers[layer], e, values);
  return {values.begin(), values.end()};
}

void Reference::forward_layer(std::size_t m, std::size_t l, Layer& result) const {
  const std::size_t c = selection_.cell(m, l);
  const CellRoutes& routes = source_.cells[c];
  result.output.assign(x_[c].size(), 0.0);
  result.gate_gradient.assign(routes.expert.size(), 0.0);
  const ExpertId last =
      routes.expert.empty() ? ExpertId() : *std::max_element(routes.expert.begin(), routes.expert.end());
  for (ExpertId e(0); e <= last; ++e) {
    const Routed routed = routed_to(routes, e);
    if (routed.tokens.empty()) continue;
    const auto parameters_of = parameters(l, e);
    const Expert expert(shape_, static_cast<std::int64_t>(routed.tokens.size()), parameters_of);
    const auto y =
        expert.output(expert.hidden(expert.project_up(rows_of(x_[c], routed.tokens, shape_.hidden))));
    for (std::size_t r = 0; r < routed.tokens.size(); ++r)
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        result.output[size(routed.tokens[r] * shape_.hidden + column)] +=
            routed.weight[r] * y[r * size(shape_.hidden) + size(column)];
  }
}

void Reference::backward_layer(std::size_t m, std::size_t l, Layer& result) const {
  const std::size_t c = selection_.cell(m, l);
  const CellRoutes& routes = source_.cells[c];
  result.input_gradient.assign(x_[c].size(), 0.0);
  const ExpertId last =
      routes.expert.empty() ? ExpertId() : *std::max_element(routes.expert.begin(), routes.expert.end());
  for (ExpertId e(0); e <= last; ++e) {
    const Routed routed = routed_to(routes, e);
    if (routed.tokens.empty()) continue;
    const auto parameters_of = parameters(l, e);
    const Expert expert(shape_, static_cast<std::int64_t>(routed.tokens.size()), parameters_of);
    const auto back = expert.backward(rows_of(x_[c], routed.tokens, shape_.hidden),
                                      rows_of(d_[c], routed.tokens, shape_.hidden), routed.weight);
    for (std::size_t r = 0; r < routed.tokens.size(); ++r) {
      result.gate_gradient[routed.route[r]] = back.gate[r];
      for (std::int64_t column = 0; column < shape_.hidden; ++column)
        result.input_gradient[size(routed.tokens[r] * shape_.hidden + column)] +=
            back.input_gradient[r * size(shape_.hidden) + size(column)];
    }
  }
}

std::vector<Reference::Layer> Reference::compute(std::size_t m) {
  const auto& rows = source_.rows[m];
  const std::size_t layers = selection_.layers.size(), h = size(shape_.hidden);
  std::vector<double> x(rows.size() * h), d(rows.size() * h);
  std::vector<float> row(h);
  for (std::size_t t = 0; t < rows.size(); ++t) {
    generator_.input_row(rows[t], row);
    std::copy(row.begin(), row.end(), x.begin() + static_cast<std::ptrdiff_t>(t * h));
    generator_.gradient_row(rows[t], row);
    std::copy(row.begin(), row.end(), d.begin() + static_cast<std::ptrdiff_t>(t * h));
  }
  std::vector<Layer> results(layers);
  for (std::size_t l = 0; l < layers; ++l) {
    x_[selection_.cell(m, l)] = x;
    forward_layer(m, l, results[l]);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += results[l].output[i];
  }
  for (std::size_t l = layers; l-- > 0;) {
    d_[selection_.cell(m, l)] = d;
    backward_layer(m, l, results[l]);
    for (std::size_t i = 0; i < d.size(); ++i) d[i] += results[l].input_gradient[i];
  }
  return results;
}

std::vector<double> Reference::weight_gradient(std::size_t l, ExpertId e) const {
  const std::int64_t h = shape_.hidden, i = shape_.intermediate;
  std::vector<double> gradient(size(shape_.expert_elements()));
  const std::span<double> up = std::span(gradient).first(size(shape_.down_offset()));
  const std::span<double> down = std::span(gradient).subspan(size(shape_.down_offset()));
  const auto parameters_of = parameters(l, e);
  for (std::size_t m = 0; m < selection_.micro_batches.size(); ++m) {
    const std::size_t c = selection_.cell(m, l);
    const Routed routed = routed_to(source_.cells[c], e);
    const auto rows = static_cast<std::int64_t>(routed.tokens.size());
    if (rows == 0 || x_[c].empty()) continue;
    const auto x = rows_of(x_[c], routed.tokens, h);
    auto d = rows_of(d_[c], routed.tokens, h);
    const auto back = Expert(shape_, rows, parameters_of).backward(x, d, routed.weight);
    for (std::size_t r = 0; r < routed.tokens.size(); ++r)
      for (std::int64_t column = 0; column < h; ++column) d[r * size(h) + size(column)] *= routed.weight[r];
    multiply(2 * i, h, rows, transposed(back.projected_gradient, rows, 2 * i), x, up, true);
    multiply(h, i, rows, transposed(d, rows, h), back.hidden, down, true);
  }
  return gradient;
}

}  // namespace relibra::exec
