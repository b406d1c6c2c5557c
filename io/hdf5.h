#pragma once
// HDF5 behind checked calls: owned handles, the library's error stack turned into an Error that names file
// and dataset, and the few verbs that dumps and plans need. Nothing is printed. MPI must be initialised
// before the first call, or HDF5 aborts the process at exit.
#include <hdf5.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/share.h"
#include "lib/comm/comm.h"

namespace relibra::io::h5 {

/// Throws `fault` with `where` ("a.h5:/experts"), and what the HDF5 error stack says first, as found.
[[noreturn]] void throw_stack(Fault fault, const std::string& where);

/// The one way in which results are looked at: HDF5 says failure by a negative number.
template <class Result>
Result check(Result result, Fault fault, const std::string& where) {
  if (result < 0) throw_stack(fault, where);
  return result;
}

/// An HDF5 identifier and the call that gives it back.
class Id {
 public:
  Id() = default;
  Id(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Id(Id&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(std::exchange(other.close_, nullptr)) {}
  Id& operator=(Id&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Id() {
    if (id_ >= 0 && close_ != nullptr) close_(id_);
  }
  hid_t get() const { return id_; }
  /// Gives it back with the result looked at, which a destructor cannot.
  void close(Fault fault, const std::string& where) {
    check(close_(std::exchange(id_, H5I_INVALID_HID)), fault, where);
  }
  /// Forgets it without giving it back: for files that HDF5 can no longer close.
  void leak() { id_ = H5I_INVALID_HID; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Type in memory of a C++ number.
template <class T>
hid_t native_type() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
  if constexpr (std::is_same_v<T, std::int8_t>) return H5T_NATIVE_INT8;
  if constexpr (std::is_same_v<T, std::uint16_t>) return H5T_NATIVE_UINT16;
  if constexpr (std::is_same_v<T, std::int16_t>) return H5T_NATIVE_INT16;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
}

/// How a read or write moves data, and how it turned out.
class Transfer {
 public:
  static Transfer independent() { return Transfer(H5FD_MPIO_INDEPENDENT); }
  /// All ranks of the file's communicator take part in each call.
  static Transfer collective() { return Transfer(H5FD_MPIO_COLLECTIVE); }
  hid_t get() const { return list_.get(); }
  /// Whether MPI-IO moved the last call's data collectively (HDF5 falls back where it has to convert types).
  bool was_collective() const;

 private:
  explicit Transfer(H5FD_mpio_xfer_t mode);
  Id list_;
};

/// Class and size of a stored element.
struct ElementType {
  enum class Kind { integer, floating, string, other } kind = Kind::other;
  std::size_t bytes = 0;
  bool is_signed = false;
  std::string text() const;  ///< "unsigned 8-bit integer"
};

class Dataset {
 public:
  Dataset(Id id, std::string where, Fault fault);

  const std::string& where() const { return where_; }  ///< "a.h5:/experts"
  const std::vector<std::int64_t>& shape() const { return shape_; }
  std::int64_t length() const { return shape_.empty() ? 1 : shape_.front(); }
  const ElementType& type() const { return type_; }
  hid_t get() const { return id_.get(); }
  void leak() { id_.leak(); }

  /// Where a contiguous dataset's bytes start in the file; 0 where it has none.
  std::int64_t file_offset() const;

  /// Throws Fault::input unless the shape is this one; -1 stands for any length.
  void require_shape(const std::vector<std::int64_t>& shape) const;

  /// Local. All values, row-major; throws Fault::input where the type is no integer or a value does not fit
  /// T.
  template <class T>
  std::vector<T> integers() const {
    std::vector<T> values;
    if (type_.bytes < sizeof(T) || (type_.bytes == sizeof(T) && type_.is_signed)) {
      values.resize(count_for_reading());
      read_integers(native_type<T>(), values.data());
      return values;
    }
    std::vector<std::int64_t> wide(count_for_reading());
    read_integers(H5T_NATIVE_INT64, wide.data());
    values.reserve(wide.size());
    for (std::int64_t v : wide) values.push_back(static_cast<T>(in_range<T>(v)));
    return values;
  }
  /// Local. All strings of a one-dimensional dataset, fixed or variable length.
  std::vector<std::string> strings() const;

  /// Items [items.first, items.last) of the first `leading` dimensions taken as one, all of the others, to or
  /// from memory in type `memory`. Empty items still take part in a collective transfer.
  /// Example: shape (3, 4, 2), leading 2, items [3, 9): row 0 from column 3, row 1, row 2 up to column 0.
  void read_items(Range items, hid_t memory, void* out, const Transfer& transfer, int leading = 1) const;
  void write_items(Range items, hid_t memory, const void* in, const Transfer& transfer,
                   int leading = 1) const;

 private:
  template <class T>
  std::int64_t in_range(std::int64_t v) const {
    if (v < std::numeric_limits<T>::min() || v > std::numeric_limits<T>::max())
      throw_out_of_range(v, std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
    return v;
  }
  [[noreturn]] void throw_out_of_range(std::int64_t v, std::int64_t least, std::int64_t most) const;
  bool empty() const { return std::find(shape_.begin(), shape_.end(), 0) != shape_.end(); }
  std::size_t count_for_reading() const;
  void read_integers(hid_t memory, void* out) const;
  Id select(Range items, int leading, const Id& file_space) const;

  Id id_;
  std::string where_;
  Fault fault_;
  std::vector<std::int64_t> shape_;
  ElementType type_;
};

/// Storage of a new dataset. Object times are off, so that equal content is equal bytes.
struct Storage {
  std::vector<hsize_t> chunk = {};  ///< empty: contiguous
  bool deflate = false;             ///< shuffle and deflate 1, chunked only
};

class File {
 public:
  /// Local. Throws Fault::input where the file is missing, no HDF5 or damaged.
  static File open(const std::string& path);
  /// Collective, for reading. Only file_is_there() is agreed on; call it before.
  static File open(const Comm& comm, const std::string& path);
  /// Local, new, for writing. `shown` is the name for messages.
  static File create(const std::string& path, const std::string& shown);
  /// Collective, of an existing file, for writing into its datasets.
  static File open_for_writing(const Comm& comm, const std::string& path, const std::string& shown);

  const std::string& name() const { return name_; }
  hid_t get() const { return id_.get(); }
  bool has(const std::string& object) const;  ///< a path such as "sequences/domain"

  std::optional<std::int64_t> find_int(const char* attribute) const;
  std::int64_t get_int(const char* attribute) const;  ///< throws Fault::input where missing
  std::optional<std::string> find_string(const char* attribute) const;
  std::string get_string(const char* attribute) const;
  void put_int32(const char* attribute, std::int64_t value) const;
  void put_int64(const char* attribute, std::int64_t value) const;
  void put_string(const char* attribute, const std::string& value) const;  ///< fixed length, UTF-8

  Dataset dataset(const std::string& object) const;  ///< throws Fault::input where missing
  /// Missing groups on the way are made. Contiguous storage gets its place in the file at once.
  Dataset create(const std::string& object, hid_t type, const std::vector<std::int64_t>& shape,
                 const Storage& storage = {}) const;

  /// Collective where the file is. Gives it back with the result looked at, which a destructor cannot.
  void close() { id_.close(fault_, name_); }
  void leak() { id_.leak(); }

 private:
  File(Id id, std::string name, Fault fault) : id_(std::move(id)), name_(std::move(name)), fault_(fault) {}
  void put(const char* attribute, hid_t type, const void* value) const;
  std::string where(const std::string& object) const { return name_ + ":" + object; }

  Id id_;
  std::string name_;
  Fault fault_ =
      Fault::input;  ///< whose fault a failing call is: input when reading, environment when writing
};

/// Local. Throws Fault::input unless the path is a readable regular file.
void file_is_there(const std::string& path);

/// A fixed-length UTF-8 string type of `bytes` (at least 1), padded with zeros.
Id string_type(std::size_t bytes);

}  // namespace relibra::io::h5
