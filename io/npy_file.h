#pragma once
// NumPy's .npy files as routing: an array (rows, layers, top-k) of expert ids is a RoutingSource, read in
// blocks.
#include <memory>
#include <string>
#include <vector>

#include "lib/comm/comm.h"
#include "lib/model/routing.h"

namespace relibra::io {

/// What a .npy file does not say about the routing in it.
struct NpyRouting {
  std::string ids;         ///< (R, L, K) integers of any width, C order, little-endian
  std::string rows;        ///< rows of each sequence: (S) integers in .npy, or text; empty: one sequence
  std::string producer;    ///< shown to people
  int num_experts = 0;     ///< E
  std::int64_t step = 0;   ///< training step
  int first_layer = 0;     ///< model block of the first routed layer; the rest follow one by one
  bool last_token = true;  ///< the last token of a sequence was not recorded: tokens = rows + 1
};

/// Collective. Opens and validates all but the ids. Ids of 64 bits, or 32 unsigned, are handed out as i32.
/// Each rank reads its own rows. Throws Fault::input, agreed, naming the file.
std::unique_ptr<RoutingSource> open_npy(const Comm& comm, const NpyRouting& what);

}  // namespace relibra::io
