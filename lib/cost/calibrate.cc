#include "lib/cost/calibrate.h"

#include <cmath>

#include "lib/base/error.h"

namespace relibra {
namespace {

double error_of(std::span<const GemmSample> samples, const GemmFit& fit) {
  double off = 0, all = 0;
  for (const GemmSample& s : samples) {
    off += std::abs(s.passes * (fit.row * s.rows + fit.expert * s.experts) - s.seconds);
    all += s.seconds;
  }
  return off / all;
}

}  // namespace

GemmFit fit_gemm(std::span<const GemmSample> samples) {
  double rr = 0, re = 0, ee = 0, rt = 0, et = 0;
  for (const GemmSample& s : samples) {
    const double r = s.passes * s.rows, e = s.passes * s.experts;
    rr += r * r;
    re += r * e;
    ee += e * e;
    rt += r * s.seconds;
    et += e * s.seconds;
  }
  if (!(rr > 0 && rt > 0))
    throw_input({.where = "--calibrate",
                 .expected = "times of ranks that compute",
                 .found = std::to_string(samples.size()) + " samples without"});
  // Where all samples have the same rows an expert, nothing tells the two apart: all goes to rows.
  const double determinant = rr * ee - re * re;
  GemmFit fit{.row = rt / rr};
  if (determinant > 1e-9 * rr * ee) {
    const double row = (rt * ee - et * re) / determinant, expert = (et * rr - rt * re) / determinant;
    if (row > 0 && expert > 0) fit = {.row = row, .expert = expert};
  }
  fit.error = error_of(samples, fit);
  return fit;
}

Cluster with_gemm(Cluster cluster, const GemmFit& fit, double flops) {
  const double share = flops / fit.row / cluster.flops;
  cluster.attention_share *= share / cluster.gemm_share;
  cluster.gemm_share = share;
  cluster.gemm_half_rows = fit.expert / fit.row;
  return cluster;
}

}  // namespace relibra
