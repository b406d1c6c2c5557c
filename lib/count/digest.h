#pragma once
// The digest of routing content (docs/formats.md, dump_digest): counts are enough, in any order.
#include <cstdint>
#include <string>

#include "lib/model/counts.h"

namespace relibra {

/// Local: the sum modulo 2^64, over nonzero counts c of the layers held here, of mix(mix(i + 1) xor c) with
/// i = (s*L + l)*E + e. The sum over all ranks is the digest.
std::uint64_t digest_sum(const SequenceCounts& counts, int num_layers);

/// "c1-" and 16 hex digits. Example: digest_text(255) = "c1-00000000000000ff".
std::string digest_text(std::uint64_t sum);

}  // namespace relibra
