#pragma once
// The step computed again without any placement: each token by itself, in double, layer after layer. It
// shares no code with the engine but the values it starts from (generate.h) and the routes.
#include <cstdint>
#include <span>
#include <vector>

#include "lib/exec/generate.h"
#include "lib/exec/routes.h"

namespace relibra::exec {

/// With x_0 the input of a token and E_e the expert e, layer l computes
///   y_l = sum over k of w_k E_{e_k}(x_l),  x_{l+1} = x_l + y_l
/// and backward, d_{L} given at the output, dx_l = gradient of y_l's path, d_l = d_{l+1} + dx_l.
class Reference {
 public:
  Reference(const Generator& generator, const ModelShape& shape, const Selection& selection,
            const SourceRoutes& source);

  /// Results of one layer for the source's tokens of a micro-batch.
  struct Layer {
    std::vector<double> output;          ///< (tokens, H) y_l
    std::vector<double> input_gradient;  ///< (tokens, H) dx_l
    std::vector<double> gate_gradient;   ///< (tokens, K), 0 where no route was recorded
  };
  /// Forward and backward of a micro-batch (position in the selection); by selected layer. Keeps x_l and
  /// d_{l+1} for weight_gradient.
  std::vector<Layer> compute(std::size_t micro_batch);

  /// (3*H*I) gradient of one expert's parameters over this source's tokens of all micro-batches computed so
  /// far.
  std::vector<double> weight_gradient(std::size_t layer, ExpertId e) const;

 private:
  struct Routed;
  Routed routed_to(const CellRoutes& routes, ExpertId e) const;
  std::vector<double> parameters(std::size_t layer, ExpertId e) const;
  void forward_layer(std::size_t micro_batch, std::size_t layer, Layer& result) const;
  void backward_layer(std::size_t micro_batch, std::size_t layer, Layer& result) const;

  const Generator& generator_;
  const ModelShape& shape_;
  const Selection& selection_;
  const SourceRoutes& source_;
  std::vector<std::vector<double>> x_, d_;  // by selected cell: (tokens, H) x_l and d_{l+1}
};

/// out (m, n) = a (m, k) * b (k, n), or added to out. Rows of `out` are independent of the number of threads.
void multiply(std::int64_t m, std::int64_t n, std::int64_t k, std::span<const double> a,
              std::span<const double> b, std::span<double> out, bool add = false);
std::vector<double> transposed(std::span<const double> a, std::int64_t rows, std::int64_t columns);

}  // namespace relibra::exec
