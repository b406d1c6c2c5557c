#include "io/plan_file.h"

#include <optional>
#include <utility>

#include "io/hdf5.h"
#include "io/plan_read.h"
#include "io/wire.h"
#include "lib/comm/agree.h"

namespace relibra::io {

struct PlanFile::Impl {
  Comm comm;
  std::string path;
  ListEntries entries;
  PlanParts parts;
};

namespace {

void broadcast_parts(const Comm& comm, PlanParts& parts) {
  WireWriter writer;
  if (comm.root()) {
    visit(writer, parts);
    writer(homes_of(parts.plan.placement));
    writer(homes_of(parts.plan.previous));
  }
  comm.broadcast(writer.bytes());
  if (comm.root()) return;
  WireReader reader(writer.bytes());
  visit(reader, parts);
  std::vector<std::int32_t> values;
  reader(values);
  parts.plan.placement = placement_of(parts.plan.header, values);
  reader(values);
  parts.plan.previous = placement_of(parts.plan.header, values);
}

/// Parts of the lists and tables, read by all ranks together. A failure on one rank is kept until all have
/// made every call.
class CellsReader {
 public:
  CellsReader(const Comm& comm, const h5::File& file, Range cells)
      : comm_(comm), file_(file), cells_(cells) {}

  template <class T>
  std::vector<T> items(const char* object, Range items, int leading) const {
    std::optional<h5::Dataset> data;
    std::vector<std::int64_t> wide;  // so that a value that does not fit is seen instead of clipped
    std::vector<T> values;
    agreed(comm_, [&] {
      data.emplace(file_.dataset(object));
      std::int64_t count = items.size();
      for (std::size_t d = static_cast<std::size_t>(leading); d < data->shape().size(); ++d)
        count *= data->shape()[d];
      wide.resize(static_cast<std::size_t>(count));
      values.reserve(wide.size());
    });
    agreed(comm_, [&] {
      data->read_items(items, h5::native_type<std::int64_t>(), wide.data(), h5::Transfer::collective(),
                       leading);
      for (std::int64_t v : wide) {
        if (!std::in_range<T>(v))
          throw_input({.where = data->where(), .expected = "a value that fits", .found = std::to_string(v)});
        values.push_back(static_cast<T>(v));
      }
    });
    return values;
  }

  template <class T>
  std::vector<T> table(const char* object) const {
    return items<T>(object, cells_, 2);
  }

 private:
  const Comm& comm_;
  const h5::File& file_;
  Range cells_;
};

/// This rank's piece of a list's offsets, from 0, and where its entries stand in the file.
Range local_offsets(const std::vector<std::int64_t>& offset, Range cells, std::vector<std::int64_t>& local) {
  const std::int64_t first = offset[static_cast<std::size_t>(cells.first)];
  local.clear();
  for (std::int64_t i = cells.first; i <= cells.last; ++i)
    local.push_back(offset[static_cast<std::size_t>(i)] - first);
  return {first, first + local.back()};
}

void read_copies(const CellsReader& in, Range entries, PlanCells& mine) {
  const auto expert = in.items<std::int32_t>("replicas/expert", entries, 1);
  const auto rank = in.items<std::int32_t>("replicas/rank", entries, 1);
  const auto slot = in.items<std::int32_t>("replicas/slot", entries, 1);
  for (std::size_t i = 0; i < expert.size(); ++i)
    mine.copies.push_back({ExpertId(expert[i]), RankId(rank[i]), slot[i]});
}

void read_split(const CellsReader& in, Range entries, PlanCells& mine) {
  const auto expert = in.items<std::int32_t>("split/expert", entries, 1);
  const auto source = in.items<std::int32_t>("split/source", entries, 1);
  const auto rank = in.items<std::int32_t>("split/rank", entries, 1);
  const auto tokens = in.items<std::int32_t>("split/tokens", entries, 1);
  for (std::size_t i = 0; i < expert.size(); ++i)
    mine.split.push_back({ExpertId(expert[i]), RankId(source[i]), RankId(rank[i]), tokens[i]});
}

}  // namespace

PlanFile::PlanFile(const Comm& comm, const std::string& path, ListEntries entries)
    : impl_(new Impl{comm, path, entries, {}}) {
  agreed(comm, [&] {
    if (comm.root()) impl_->parts = read_plan_parts(path);
  });
  broadcast_parts(comm, impl_->parts);
}

PlanFile::~PlanFile() = default;
PlanFile::PlanFile(PlanFile&&) noexcept = default;
PlanFile& PlanFile::operator=(PlanFile&&) noexcept = default;

const Plan& PlanFile::plan() const {
  return impl_->parts.plan;
}
std::span<const Move> PlanFile::moves() const {
  return impl_->parts.moves;
}
bool PlanFile::has_transfers() const {
  return impl_->parts.has_transfers;
}
const std::string& PlanFile::path() const {
  return impl_->path;
}

PlanCells PlanFile::read_cells(Range cells, bool with_transfers) const {
  const Comm& comm = impl_->comm;
  const PlanParts& parts = impl_->parts;
  if (with_transfers && !parts.has_transfers)
    throw Error(Fault::input, {.where = impl_->path + ":/transfer/assignments",
                               .expected = "a dataset",
                               .found = "none of this name",
                               .advice = "plan again without --no-transfers"})
        .as_agreed();
  agreed(comm, [&] { h5::file_is_there(impl_->path); });
  std::optional<h5::File> file;
  agreed(comm, [&] { file.emplace(h5::File::open(comm, impl_->path)); });
  PlanCells mine;
  mine.cells = cells;
  const CellsReader in(comm, *file, cells);
  read_copies(in, local_offsets(parts.copy_offset, cells, mine.copy_offset), mine);
  read_split(in, local_offsets(parts.split_offset, cells, mine.split_offset), mine);
  if (with_transfers) mine.transfer = in.table<std::int32_t>("transfer/assignments");
  mine.rank_tokens = in.table<std::int64_t>("metrics/rank_tokens");
  mine.rank_tokens_static = in.table<std::int64_t>("metrics/rank_tokens_static");
  if (impl_->entries == ListEntries::checked)
    agreed(comm, [&] { require_entries_in_range(impl_->path, parts.plan.header, mine); });
  return mine;
}

}  // namespace relibra::io
