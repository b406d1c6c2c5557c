#include "io/dump_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "io/row_reader.h"
#include "io/shard.h"
#include "io/wire.h"
#include "lib/comm/agree.h"
#include "lib/model/blocks.h"

namespace relibra::io {
namespace {

// Files are shared out over the ranks, so that thousands of shards are not read by one, nor by all.
std::vector<Shard> read_shards(const Comm& comm, const std::vector<std::string>& files) {
  std::vector<Shard> mine;
  agreed(comm, [&] {
    const Range share = share_of(static_cast<std::int64_t>(files.size()), comm.rank(), comm.size());
    for (std::int64_t i = share.first; i < share.last; ++i)
      mine.push_back(read_shard(files[static_cast<std::size_t>(i)]));
  });
  WireWriter writer;
  for (const Shard& shard : mine) visit(writer, shard);
  const auto bytes = comm.gather_all(std::span<const std::byte>(writer.bytes()));
  std::vector<Shard> shards;
  for (WireReader reader(bytes); !reader.done();) visit(reader, shards.emplace_back());
  return shards;
}

[[noreturn]] void throw_shards(const Shard& shard, const std::string& expected, const std::string& found,
                               const std::string& advice = "") {
  throw_input({.where = shard.file + ":shard", .expected = expected, .found = found, .advice = advice});
}

// Every shard of the step once; then they are put into shard order.
void require_whole_step(std::vector<Shard>& shards) {
  const auto count = static_cast<std::int64_t>(shards.size());
  for (const Shard& shard : shards) {
    if (shard.num_shards == 0 && count > 1)
      throw_shards(shard, "attributes shard and num_shards, since the step is given as several files", "none",
                   "give one dump, or shards of one step");
    if (shard.num_shards != 0 && shard.num_shards != count)
      throw_shards(shard, "all " + std::to_string(shard.num_shards) + " shards of the step",
                   std::to_string(count) + (count == 1 ? " file" : " files"), "name every shard once");
  }
  std::sort(shards.begin(), shards.end(), [](const Shard& a, const Shard& b) { return a.shard < b.shard; });
  for (std::size_t i = 1; i < shards.size(); ++i)
    if (shards[i].shard == shards[i - 1].shard)
      throw_shards(shards[i], "each shard once",
                   "shard " + std::to_string(shards[i].shard) + " also in " + shards[i - 1].file);
}

template <class T>
void require_same(const Shard& first, const Shard& other, const char* what, const T& a, const T& b,
                  const std::string& a_text, const std::string& b_text) {
  if (a == b) return;
  throw_input({.where = other.file + ":" + what,
               .expected = a_text + " as in " + first.file,
               .found = b_text,
               .advice = "shards of one step must agree"});
}

std::string number_text(std::int64_t value) {
  return std::to_string(value);
}
template <class T>
std::string number_text(const std::optional<T>& value) {
  return value ? std::to_string(*value) : "none";
}
std::string presence(bool there) {
  return there ? "present" : "absent";
}

void require_columns_agree(const Shard& a, const Shard& b) {
  constexpr std::pair<Column, const char*> kColumns[] = {{kRowStart, "/sequences/row_start"},
                                                         {kNumTokens, "/sequences/num_tokens"},
                                                         {kMicroBatch, "/sequences/micro_batch"},
                                                         {kSourceRank, "/sequences/source_rank"},
                                                         {kPromptTokens, "/sequences/prompt_tokens"},
                                                         {kGroup, "/sequences/group"},
                                                         {kDomain, "/sequences/domain"}};
  for (const auto& [bit, name] : kColumns) {
    const bool in_a = (a.columns & bit) != 0, in_b = (b.columns & bit) != 0;
    require_same(a, b, name, in_a, in_b, presence(in_a), presence(in_b));
  }
}

void require_agreement(const Shard& a, const Shard& b) {
  const auto same = [&](const char* what, const auto& x, const auto& y) {
    require_same(a, b, what, x, y, number_text(x), number_text(y));
  };
  const auto& g = a.header;
  const auto& h = b.header;
  same("step", g.step, h.step);
  same("num_experts", g.num_experts, h.num_experts);
  same("top_k", g.top_k, h.top_k);
  same("num_micro_batches", g.num_micro_batches, h.num_micro_batches);
  same("optimizer_steps", g.optimizer_steps, h.optimizer_steps);
  same("missing_id", g.missing_id, h.missing_id);
  require_same(a, b, "/layers", g.layers, h.layers, "the same layers", "others");
  require_same(a, b, "/experts", a.storage.id_type, b.storage.id_type, "the same element type", "another");
  require_same(a, b, "/weights", g.has_weights, h.has_weights, presence(g.has_weights),
               presence(h.has_weights));
  require_columns_agree(a, b);
}

template <class T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

RoutingDump join(std::vector<Shard>& shards) {
  RoutingDump dump;
  dump.header = shards.front().header;
  auto& q = dump.sequences;
  for (Shard& shard : shards) {
    const std::int64_t start = q.total_rows();
    for (std::size_t i = 1; i < shard.sequences.row_offset.size(); ++i)
      q.row_offset.push_back(start + shard.sequences.row_offset[i]);
    append(q.row_start, shard.sequences.row_start);
    append(q.num_tokens, shard.sequences.num_tokens);
    append(q.micro_batch, shard.sequences.micro_batch);
    append(q.source_rank, shard.sequences.source_rank);
    append(q.prompt_tokens, shard.sequences.prompt_tokens);
    append(q.group, shard.sequences.group);
    append(q.domain, shard.sequences.domain);
  }
  return dump;
}

// Where the attribute is there, each file has been held against it already.
void require_equal_runs(const Shard& first, const RoutingDump& dump) {
  const auto& fixed = dump.sequences.micro_batch;
  if (dump.header.num_micro_batches || fixed.empty()) return;
  const std::int64_t count = std::int64_t{*std::max_element(fixed.begin(), fixed.end())} + 1;
  if (count % dump.header.optimizer_steps != 0)
    throw_input({.where = first.file + ":/sequences/micro_batch",
                 .expected = "a number of micro-batches that is a multiple of optimizer_steps " +
                             std::to_string(dump.header.optimizer_steps),
                 .found = "largest + 1 = " + std::to_string(count),
                 .advice = "where the last ones are empty, say so by the attribute num_micro_batches"});
}

/// A step in one file is read by all ranks together; of several files, each rank opens those that it reads.
class DumpSource final : public RoutingSource {
 public:
  DumpSource(const Comm& comm, std::vector<Shard> shards) : comm_(comm), dump_(join(shards)) {
    std::int64_t start = 0;
    for (Shard& shard : shards) {
      const std::int64_t rows = shard.sequences.total_rows();
      files_.push_back({std::move(shard.file), {start, start + rows}, shard.storage});
      start += rows;
    }
  }

  const RoutingDump& dump() const override { return dump_; }
  IdType id_type() const override { return files_.front().storage.id_type; }

  void read(std::span<const Range> ranges, std::size_t block_bytes, bool with_weights,
            const BlockFn& take) override {
    const Request request{ranges, block_bytes, with_weights, take};
    if (files_.size() == 1 && files_.front().storage.parallel) {
      read_together(request);
    } else {
      agreed(comm_, [&] {
        for (const File& file : files_) read_alone(file, request);
      });
    }
  }

 private:
  struct File {
    std::string path;
    Range rows;  // in the joined dump
    RowStorage storage;
  };
  struct Request {
    std::span<const Range> ranges;
    std::size_t block_bytes;
    bool with_weights;
    const BlockFn& take;
  };

  std::int64_t block_rows(const Request& request) const {
    return rows_per_block(dump_.header, size_of(id_type()), request.block_bytes);
  }

  void read_together(const Request& request) {
    const File& file = files_.front();
    const auto pieces = pieces_to_read(request.ranges, dump_.header, file.storage, request.block_bytes);
    const auto rounds = comm_.max(static_cast<std::int64_t>(pieces.size()));
    if (rounds == 0) return;
    agreed(comm_, [&] { h5::file_is_there(file.path); });
    std::optional<RowReader> reader;
    agreed(comm_, [&] {
      reader.emplace(h5::File::open(comm_, file.path), dump_.header, file.storage, request.with_weights,
                     h5::Transfer::collective());
      std::int64_t largest = 0;
      for (const Range& piece : pieces) largest = std::max(largest, piece.size());
      reader->reserve(largest);
    });
    constexpr std::int64_t kRoundsBetweenAgreements = 32;
    std::optional<Error> failure;
    for (std::int64_t round = 0; round < rounds; ++round) {
      // A rank that has failed goes on with nothing, so that the others are not left waiting.
      const bool idle = failure || round >= static_cast<std::int64_t>(pieces.size());
      try {
        reader->read(idle ? Range{} : pieces[static_cast<std::size_t>(round)]);
        if (!idle) take_piece(*reader, pieces[static_cast<std::size_t>(round)], file, request);
      } catch (...) {
        failure = to_error(std::current_exception());
      }
      if (round + 1 == rounds || (round + 1) % kRoundsBetweenAgreements == 0) agree(comm_, failure);
    }
  }

  void read_alone(const File& file, const Request& request) {
    std::vector<Range> local;
    for (const Range& range : request.ranges) {
      const Range part{std::max(range.first, file.rows.first), std::min(range.last, file.rows.last)};
      if (!part.empty()) local.push_back({part.first - file.rows.first, part.last - file.rows.first});
    }
    if (local.empty()) return;
    RowReader reader(h5::File::open(file.path), dump_.header, file.storage, request.with_weights,
                     h5::Transfer::independent());
    for (const Range& piece : pieces_to_read(local, dump_.header, file.storage, request.block_bytes)) {
      reader.read(piece);
      take_piece(reader, piece, file, request);
    }
  }

  void take_piece(const RowReader& reader, Range piece, const File& file, const Request& request) {
    bytes_read_ += reader.bytes_of(piece);
    reader.hand_out(block_rows(request), file.rows.first, request.take);
  }

  Comm comm_;
  RoutingDump dump_;
  std::vector<File> files_;
};

}  // namespace

std::unique_ptr<RoutingSource> open_dump(const Comm& comm, const std::vector<std::string>& files) {
  if (files.empty()) throw_usage({.where = "DUMP", .expected = "at least one file", .found = "none"});
  auto shards = read_shards(comm, files);
  agreed(comm, [&] {
    require_whole_step(shards);
    for (const Shard& shard : shards) require_agreement(shards.front(), shard);
  });
  const Shard first = shards.front();
  auto source = std::make_unique<DumpSource>(comm, std::move(shards));
  agreed(comm, [&] { require_equal_runs(first, source->dump()); });
  return source;
}

std::vector<std::int64_t> steps_of(const Comm& comm, const std::vector<std::string>& files) {
  std::vector<std::int64_t> mine;
  agreed(comm, [&] {
    const Range share = share_of(static_cast<std::int64_t>(files.size()), comm.rank(), comm.size());
    for (std::int64_t i = share.first; i < share.last; ++i)
      mine.push_back(part_of(files[static_cast<std::size_t>(i)]).step);
  });
  return comm.gather_all(std::span<const std::int64_t>(mine));
}

}  // namespace relibra::io
