#include "io/hdf5.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace relibra::io::h5 {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += shape[i] < 0 ? "any" : std::to_string(shape[i]);
  }
  return text + ")";
}

ElementType element_type(hid_t type) {
  ElementType element;
  element.bytes = H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      element.kind = ElementType::Kind::integer;
      element.is_signed = H5Tget_sign(type) == H5T_SGN_2;
      break;
    case H5T_FLOAT:
      element.kind = ElementType::Kind::floating;
      break;
    case H5T_STRING:
      element.kind = ElementType::Kind::string;
      break;
    default:
      break;
  }
  return element;
}

std::vector<hsize_t> sizes(const std::vector<std::int64_t>& shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace

void throw_stack(Fault fault, const std::string& where) {
  std::string found;
  const auto first = [](unsigned, const H5E_error2_t* entry, void* text) -> herr_t {
    auto& into = *static_cast<std::string*>(text);
    if (into.empty() && entry->desc != nullptr)
      into = std::string("HDF5 failure in ") + entry->func_name + ": " + entry->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &found);
  H5Eclear2(H5E_DEFAULT);
  if (found.empty()) found = "HDF5 failure without a reason";
  const char* advice = fault == Fault::input
                           ? "the file may be cut off or damaged; `h5dump -H` shows what can be read of it"
                           : "look at free space, quota and permissions there";
  throw Error(fault, {.where = where, .found = found, .advice = advice});
}

std::string ElementType::text() const {
  const std::string bits = std::to_string(8 * bytes) + "-bit ";
  switch (kind) {
    case Kind::integer:
      return (is_signed ? "signed " : "unsigned ") + bits + "integer";
    case Kind::floating:
      return bits + "float";
    case Kind::string:
      return "string";
    case Kind::other:
      break;
  }
  return "another type";
}

Transfer::Transfer(H5FD_mpio_xfer_t mode)
    : list_(check(H5Pcreate(H5P_DATASET_XFER), Fault::environment, "HDF5 transfer list"), H5Pclose) {
  check(H5Pset_dxpl_mpio(list_.get(), mode), Fault::environment, "HDF5 transfer list");
}

bool Transfer::was_collective() const {
  H5D_mpio_actual_io_mode_t mode = H5D_MPIO_NO_COLLECTIVE;
  check(H5Pget_mpio_actual_io_mode(list_.get(), &mode), Fault::environment, "HDF5 transfer list");
  return mode != H5D_MPIO_NO_COLLECTIVE;
}

Dataset::Dataset(Id id, std::string where, Fault fault)
    : id_(std::move(id)), where_(std::move(where)), fault_(fault) {
  const Id space(check(H5Dget_space(id_.get()), fault_, where_), H5Sclose);
  const Id type(check(H5Dget_type(id_.get()), fault_, where_), H5Tclose);
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL)
    throw Error(fault_, {.where = where_, .expected = "an array", .found = "an empty dataspace"});
  std::vector<hsize_t> dims(
      static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space.get()), fault_, where_)));
  check(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), fault_, where_);
  shape_.assign(dims.begin(), dims.end());
  type_ = element_type(type.get());
}

std::int64_t Dataset::file_offset() const {
  const haddr_t offset = H5Dget_offset(id_.get());
  return offset == HADDR_UNDEF ? 0 : static_cast<std::int64_t>(offset);
}

void Dataset::require_shape(const std::vector<std::int64_t>& shape) const {
  const auto fits = [](std::int64_t want, std::int64_t have) { return want < 0 || want == have; };
  if (!std::equal(shape.begin(), shape.end(), shape_.begin(), shape_.end(), fits))
    throw_input(
        {.where = where_, .expected = "shape " + shape_text(shape), .found = "shape " + shape_text(shape_)});
}

// Deflate shrinks at most 1032 times, so a shape that claims more than that of the file is damage; without
// this a flipped bit asks for more memory than there is.
std::size_t Dataset::count_for_reading() const {
  constexpr std::int64_t kMostShrinking = 1100, kSlack = std::int64_t{1} << 24;
  hsize_t file_bytes = 0;
  const Id file(check(H5Iget_file_id(id_.get()), fault_, where_), H5Fclose);
  check(H5Fget_filesize(file.get(), &file_bytes), fault_, where_);
  const double most = static_cast<double>(file_bytes) * kMostShrinking + kSlack;
  double claimed = static_cast<double>(type_.bytes);
  std::size_t count = 1;
  for (std::int64_t n : shape_) {
    claimed *= static_cast<double>(n);
    count *= static_cast<std::size_t>(n);
  }
  if (claimed > most)
    throw_input({.where = where_,
                 .expected = "a size that a file of " + std::to_string(file_bytes) + " bytes can hold",
                 .found = "shape " + shape_text(shape_),
                 .advice = "the file is damaged"});
  return count;
}

void Dataset::throw_out_of_range(std::int64_t v, std::int64_t least, std::int64_t most) const {
  throw_input({.where = where_,
               .expected = "values from " + std::to_string(least) + " to " + std::to_string(most),
               .found = std::to_string(v)});
}

void Dataset::read_integers(hid_t memory, void* out) const {
  if (type_.kind != ElementType::Kind::integer)
    throw_input({.where = where_, .expected = "integers", .found = type_.text()});
  check(H5Dread(id_.get(), memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), fault_, where_);
}

std::vector<std::string> Dataset::strings() const {
  if (type_.kind != ElementType::Kind::string)
    throw_input({.where = where_, .expected = "strings", .found = type_.text()});
  require_shape({-1});
  const auto count = count_for_reading();
  const Id type(check(H5Dget_type(id_.get()), fault_, where_), H5Tclose);
  std::vector<std::string> values;
  values.reserve(count);
  if (H5Tis_variable_str(type.get()) > 0) {
    const Id space(check(H5Dget_space(id_.get()), fault_, where_), H5Sclose);
    std::vector<char*> pointers(count, nullptr);
    check(H5Dread(id_.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()), fault_, where_);
    for (const char* text : pointers) values.emplace_back(text == nullptr ? "" : text);
    check(H5Dvlen_reclaim(type.get(), space.get(), H5P_DEFAULT, pointers.data()), fault_, where_);
    return values;
  }
  std::vector<char> letters(count * type_.bytes);
  check(H5Dread(id_.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, letters.data()), fault_, where_);
  for (std::size_t i = 0; i < count; ++i) {
    const char* text = letters.data() + i * type_.bytes;
    values.emplace_back(text, strnlen(text, type_.bytes));
    if (H5Tget_strpad(type.get()) == H5T_STR_SPACEPAD)
      values.back().resize(values.back().find_last_not_of(' ') + 1);
  }
  return values;
}

// At most three boxes: the rest of a first row, whole rows, the start of a last row. HDF5 goes through them
// in row-major order, which is the order in memory. Whole rows have the same shape in memory: only then does
// HDF5 find the chunks of a selection by boxes instead of element by element, seven times slower than
// inflating.
Id Dataset::select(Range items, int leading, const Id& file_space) const {
  const std::int64_t columns = leading == 2 ? shape_[1] : 1;
  auto extent = sizes(shape_);
  extent.erase(extent.begin(), extent.begin() + (leading - 1));
  extent[0] = static_cast<hsize_t>(items.empty() ? 0 : items.size());
  Id memory(check(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr), fault_, where_),
            H5Sclose);
  check(H5Sselect_none(file_space.get()), fault_, where_);
  if (items.empty()) {
    check(H5Sselect_none(memory.get()), fault_, where_);
    return memory;
  }
  const auto add = [&](Range rows, Range within) {
    std::vector<hsize_t> start(shape_.size(), 0);
    auto count = sizes(shape_);
    start[0] = static_cast<hsize_t>(rows.first);
    count[0] = static_cast<hsize_t>(rows.size());
    if (leading == 2) {
      start[1] = static_cast<hsize_t>(within.first);
      count[1] = static_cast<hsize_t>(within.size());
    }
    check(H5Sselect_hyperslab(file_space.get(), H5S_SELECT_OR, start.data(), nullptr, count.data(), nullptr),
          fault_, where_);
  };
  for (std::int64_t at = items.first; at < items.last;) {
    const std::int64_t row = at / columns, column = at % columns;
    const std::int64_t whole_rows = (items.last - at) / columns;
    if (column == 0 && whole_rows > 0) {
      add({row, row + whole_rows}, {0, columns});
      at += whole_rows * columns;
    } else {
      const std::int64_t end = std::min(columns, column + items.last - at);
      add({row, row + 1}, {column, end});
      at += end - column;
    }
  }
  return memory;
}

void Dataset::read_items(Range items, hid_t memory, void* out, const Transfer& transfer, int leading) const {
  if (empty()) return;  // HDF5 fails in collective transfers of a dataset of nothing, which has no address
  const Id space(check(H5Dget_space(id_.get()), fault_, where_), H5Sclose);
  const Id selection = select(items, leading, space);
  check(H5Dread(id_.get(), memory, selection.get(), space.get(), transfer.get(), out), fault_, where_);
}

void Dataset::write_items(Range items, hid_t memory, const void* in, const Transfer& transfer,
                          int leading) const {
  if (empty()) return;
  const Id space(check(H5Dget_space(id_.get()), fault_, where_), H5Sclose);
  const Id selection = select(items, leading, space);
  check(H5Dwrite(id_.get(), memory, selection.get(), space.get(), transfer.get(), in), fault_, where_);
}

Id string_type(std::size_t bytes) {
  Id type(check(H5Tcopy(H5T_C_S1), Fault::environment, "HDF5 string type"), H5Tclose);
  check(H5Tset_size(type.get(), std::max<std::size_t>(1, bytes)), Fault::environment, "HDF5 string type");
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), Fault::environment, "HDF5 string type");
  check(H5Tset_cset(type.get(), H5T_CSET_UTF8), Fault::environment, "HDF5 string type");
  return type;
}

}  // namespace relibra::io::h5
