// Counting of routing on one core, in GB/s of ids, beside a plain read and memcpy of the same bytes.
//
//   OMP_NUM_THREADS=1 count_bench [MEGABYTES]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "apps/bench/timing.h"
#include "lib/count/row_kernel.h"
#include "lib/workload/workload.h"

namespace {

using namespace relibra;

constexpr int kRepeats = 5;

struct Case {
  const char* preset;
  IdType type;
  double missing_share = 0;
  bool by_table = false;  ///< even where bits are possible
  int experts = 0;        ///< in place of the preset's
};

const char* name_of(IdType type) {
  constexpr const char* kNames[] = {"u8", "i8", "u16", "i16", "i32"};
  return kNames[static_cast<int>(type)];
}

/// Sum of all 64-bit words in four streams, so that the read is not bound by latency.
std::uint64_t plain_read(const std::vector<std::byte>& bytes) {
  std::uint64_t sums[8] = {};
  for (std::size_t at = 0; at + 64 <= bytes.size(); at += 64) {
    std::uint64_t words[8];
    std::memcpy(words, bytes.data() + at, 64);
    for (int i = 0; i < 8; ++i) sums[i] += words[i];
  }
  return std::accumulate(sums, sums + 8, std::uint64_t{0});
}

void run(const Case& what, std::size_t bytes_wanted) {
  auto options = workload_options(model_preset(what.preset));
  options.id_type = what.type;
  options.missing_share = what.missing_share;
  if (what.experts > 0) options.experts = what.experts;
  const auto source = make_workload(options);
  const auto& dump = source->dump();
  const RowShape shape(dump.header);
  const auto row_bytes = static_cast<std::size_t>(shape.row_ids()) * size_of(what.type);
  const auto rows = static_cast<std::int64_t>(bytes_wanted / row_bytes);

  std::vector<std::byte> ids;
  const Range wanted{0, std::min(rows, dump.sequences.total_rows())};
  source->read(std::span(&wanted, 1), std::size_t{64} << 20, false, [&](const RoutingBlock& block) {
    const auto* first = static_cast<const std::byte*>(block.ids);
    ids.insert(ids.end(), first, first + static_cast<std::size_t>(block.rows) * row_bytes);
  });

  const auto method = what.by_table ? RowKernel::Method::table : RowKernel::best_method(shape, what.type);
  RowKernel kernel(shape, what.type, {0, shape.layers}, method);
  std::vector<std::uint32_t> table(static_cast<std::size_t>(shape.layers * shape.experts));
  const double count_s = bench::median_seconds(kRepeats, [&] {
    for (std::int64_t s = 0; dump.sequences.row_offset[static_cast<std::size_t>(s)] < wanted.last; ++s) {
      const std::int64_t first = dump.sequences.row_offset[static_cast<std::size_t>(s)];
      const std::int64_t last =
          std::min(wanted.last, dump.sequences.row_offset[static_cast<std::size_t>(s) + 1]);
      kernel.count({what.type, ids.data() + static_cast<std::size_t>(first) * row_bytes, last - first, first},
                   table.data());
    }
  });
  volatile std::uint64_t sink = 0;
  const double read_s = bench::median_seconds(kRepeats, [&] { sink = sink + plain_read(ids); });
  std::vector<std::byte> copy(ids.size());
  const double copy_s =
      bench::median_seconds(kRepeats, [&] { std::memcpy(copy.data(), ids.data(), ids.size()); });

  const double gigabytes = static_cast<double>(ids.size()) / 1e9;
  std::printf("%-12s %3d %d %-3s %4.0f %%   %-7s %8.2f %8.2f %8.1f %8.1f %10.2f %12.2f\n", what.preset,
              shape.experts, shape.top_k, name_of(what.type), 100 * what.missing_share,
              method == RowKernel::Method::table ? "table" : "bits", gigabytes / count_s,
              gigabytes / count_s / static_cast<double>(size_of(what.type)), gigabytes / read_s,
              gigabytes / copy_s, read_s / count_s, copy_s / count_s);
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 256;
  std::printf(
      "preset         E K ids missing method  GB/s      G ids/s  read     memcpy   count/read "
      "count/memcpy\n");
  for (const Case& what : {Case{"qwen3-235b", IdType::u8},
                           {"qwen3-235b", IdType::u8, 0.01},
                           {"qwen3-235b", IdType::i16},
                           {"qwen3-235b", IdType::i32},
                           {"olmoe", IdType::u8},
                           {"glm4.5", IdType::u8},
                           {"deepseek-v3", IdType::u8},
                           {"deepseek-v3", IdType::i16},
                           {"deepseek-v3", IdType::i16, 0.01},
                           {"mixtral", IdType::u8},
                           {"qwen3-235b", IdType::u8, 0, true},
                           {"deepseek-v3", IdType::i16, 0, true},
                           {"deepseek-v3", IdType::i16, 0, true, 384}})
    run(what, megabytes << 20);
  return 0;
}
