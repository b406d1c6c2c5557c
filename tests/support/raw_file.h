#pragma once
// HDF5 files written value by value, right or wrong, for tests of readers. Knows nothing of the formats.
#include <hdf5.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace relibra::test {

/// One dataset: numbers as doubles or integers that HDF5 converts to `type`, or strings.
struct RawArray {
  hid_t type = H5T_STD_I32LE;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> values = {};  ///< for integer types
  std::vector<double> reals = {};         ///< for floating types
  std::vector<std::string> strings = {};  ///< instead of numbers
  bool variable_strings = false;          ///< else fixed length
  std::vector<std::int64_t> chunk = {};   ///< empty: contiguous
  bool deflate = false;
};

/// An attribute: an integer of `type`, or a string.
struct RawAttribute {
  hid_t type = H5T_STD_I32LE;
  std::int64_t value = 0;
  std::string text = {};
  bool is_text = false, variable = false;
};

struct RawFile {
  std::map<std::string, RawAttribute> attributes;
  std::map<std::string, RawArray> arrays;  ///< by path, "sequences/row_offset"

  void set(const std::string& name, std::int64_t value) { attributes[name] = {.value = value}; }
  void set(const std::string& name, const std::string& text) {
    attributes[name] = {.text = text, .is_text = true};
  }
  RawArray& operator[](const std::string& path) { return arrays[path]; }

  void write(const std::string& path) const;  ///< throws std::runtime_error
};

/// A valid dump: E = 4, K = 2, layers 3 and 5, sequences of 2, 0 and 3 rows, u8 ids. Row r, layer l holds
/// {(r + l) % 4, (r + l + 1) % 4}.
RawFile tiny_dump();

/// IEEE half precision.
hid_t half_type();

/// A folder of one test's own, the same on all ranks; made by rank 0, removed with the object. Collective.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  std::vector<std::string> files() const;  ///< names in it, sorted

 private:
  std::string path_;
};

}  // namespace relibra::test
