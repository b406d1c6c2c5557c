// Grouped GEMMs of the reference backend, all six of an expert's forward and backward, beside bare oneDNN
// calls of the same shapes: rows by expert as one rank of two gets them in a cell of the reference workload.
//
//   OMP_NUM_THREADS=1 gemm_bench [HIDDEN INTERMEDIATE]
#include <dnnl.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "apps/bench/timing.h"
#include "kernels/registry.h"
#include "lib/exec/device.h"
#include "lib/exec/measure.h"
#include "lib/workload/workload.h"

namespace {

using namespace relibra;
using kernels::GemmGroup;
using kernels::GemmKind;

constexpr int kRepeats = 5;

/// Rows of the first 32 of OLMoE's 64 experts for about `tokens` tokens of the workload, layer 0.
std::vector<std::int64_t> rows_by_expert(std::int64_t tokens) {
  const auto source = make_workload(workload_options(model_preset("olmoe")));
  const RoutingHeader& header = source->dump().header;
  std::vector<std::int64_t> rows(32);
  const Range wanted{0, tokens};
  source->read(std::span(&wanted, 1), std::size_t{1} << 20, false, [&](const RoutingBlock& block) {
    block.with_ids([&](const auto* ids) {
      for (std::int64_t r = 0; r < block.rows; ++r)
        for (int k = 0; k < header.top_k; ++k) {
          const auto e = static_cast<std::size_t>(ids[r * header.num_layers() * header.top_k + k]);
          if (e < rows.size()) ++rows[e];
        }
    });
  });
  std::erase(rows, 0);
  return rows;
}

struct Product {
  const char* name;
  GemmKind kind;
  std::int64_t n, k;
};

/// CPU seconds of the calling thread: one thread computes.
template <class Work>
double seconds_of(Work&& work) {
  const double start = bench::thread_seconds();
  work();
  return bench::thread_seconds() - start;
}

/// What oneDNN is asked for without the backend between: the definitions of kernels/backend.h, written out.
void bare(GemmKind kind, std::int64_t n, std::int64_t k, const GemmGroup& g) {
  const auto* a = static_cast<const float*>(g.a);
  const auto* b = static_cast<const float*>(g.b);
  auto* out = static_cast<float*>(g.out);
  if (kind == GemmKind::forward) dnnl_sgemm('N', 'T', g.rows, n, k, 1, a, k, b, k, 0, out, n);
  if (kind == GemmKind::data_gradient) dnnl_sgemm('N', 'N', g.rows, k, n, 1, a, n, b, k, 0, out, k);
  if (kind == GemmKind::weight_gradient) dnnl_sgemm('T', 'N', n, k, g.rows, 1, a, n, b, k, 1, out, k);
}

class Bench {
 public:
  Bench(std::int64_t hidden, std::int64_t intermediate, const std::vector<std::int64_t>& rows) : rows_(rows) {
    for (const std::int64_t r : rows) total_ += r;
    const std::int64_t widest = std::max(hidden, 2 * intermediate);
    const auto make = [&](std::int64_t elements) {
      exec::Buffer buffer(device_, static_cast<std::size_t>(elements) * sizeof(float));
      device_.check(
          device_.backend().fill(stream_.handle(), buffer.data(), kernels::Type::float32, 1e-3f, elements),
          "fill");
      return buffer;
    };
    in_ = make(total_ * widest);
    other_ = make(total_ * widest);
    weights_ = make(static_cast<std::int64_t>(rows.size()) * 2 * hidden * intermediate);
  }

  /// Seconds of the backend and of bare calls, taking turns.
  void run(const Product& p, double& ours, double& theirs) {
    std::vector<GemmGroup> groups;
    std::int64_t first = 0;
    for (std::size_t e = 0; e < rows_.size(); ++e) {
      auto* weight = weights_.as<float>() + static_cast<std::int64_t>(e) * p.n * p.k;
      const bool forward = p.kind == GemmKind::forward;
      auto* a = in_.as<float>() + first * (forward ? p.k : p.n);
      auto* rows = other_.as<float>() + first * (forward ? p.n : p.k);
      groups.push_back(p.kind == GemmKind::weight_gradient ? GemmGroup{rows_[e], a, rows, weight, true}
                                                           : GemmGroup{rows_[e], a, weight, rows, false});
      first += rows_[e];
    }
    const exec::Gemm gemm(device_, {p.kind, kernels::Type::float32, p.n, p.k, groups.data(),
                                    static_cast<std::int32_t>(groups.size())});
    const auto plain = [&] {
      for (const GemmGroup& g : groups) bare(p.kind, p.n, p.k, g);
    };
    const auto own = [&] { gemm.run(stream_.handle()); };
    std::vector<double> a, b;
    own();
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      plain();  // so that each finds the caches as the other left them
      a.push_back(seconds_of(own));
      b.push_back(seconds_of(plain));
    }
    ours = exec::median(a);
    theirs = exec::median(b);
  }

  double flops(const Product& p) const { return 2.0 * static_cast<double>(total_ * p.n * p.k); }

 private:
  std::vector<std::int64_t> rows_;
  std::int64_t total_ = 0;
  exec::Device device_{kernels::reference_backend()};
  exec::Stream stream_{device_};
  exec::Buffer in_, other_, weights_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t h = argc > 2 ? std::atoll(argv[1]) : 1024, i = argc > 2 ? std::atoll(argv[2]) : 2048;
  const auto rows = rows_by_expert(1024);
  Bench run(h, i, rows);
  double ours = 0, theirs = 0;
  for (const Product& p :
       {Product{"gate and up", GemmKind::forward, 2 * i, h}, Product{"down", GemmKind::forward, h, i},
        Product{"down, data gradient", GemmKind::data_gradient, h, i},
        Product{"down, weight gradient", GemmKind::weight_gradient, h, i},
        Product{"gate and up, weight gradient", GemmKind::weight_gradient, 2 * i, h},
        Product{"gate and up, data gradient", GemmKind::data_gradient, 2 * i, h}}) {
    double own = 0, plain = 0;
    run.run(p, own, plain);
    std::printf("%-30s %6.1f GFLOP/s, oneDNN %6.1f, time %.3f of it\n", p.name, run.flops(p) / own / 1e9,
                run.flops(p) / plain / 1e9, own / plain);
    ours += own;
    theirs += plain;
  }
  std::printf("RESULT gemm hidden=%lld intermediate=%lld experts=%zu time_over_onednn=%.4f\n",
              static_cast<long long>(h), static_cast<long long>(i), rows.size(), ours / theirs);
  return 0;
}
