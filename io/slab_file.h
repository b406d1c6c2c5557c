#pragma once
// One file into which several ranks write disjoint stretches of bytes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace relibra::io {

/// Everything here is local. Plain writes instead of parallel HDF5: after a write that failed, as on a full
/// disk, HDF5 1.10 can neither go on nor close the file, while other ranks wait for it.
class SlabFile {
 public:
  /// Opens an existing file. `shown` is the name for messages. Throws Fault::environment, as all members.
  SlabFile(const std::string& path, std::string shown);
  ~SlabFile();
  SlabFile(const SlabFile&) = delete;
  SlabFile& operator=(const SlabFile&) = delete;

  void write(std::int64_t at, std::span<const std::byte> bytes);
  /// What this process wrote is on the disk.
  void flush();

 private:
  int file_;
  std::string shown_;
};

/// Makes the file if need be and reserves room for so many bytes on the disk. Throws Fault::environment where
/// there is not enough; file systems that cannot reserve are asked how much is free instead.
void reserve(const std::string& path, std::int64_t bytes, const std::string& shown);

/// Throws Fault::environment unless the file system of `path` has so many bytes free.
void require_free(const std::string& path, std::int64_t bytes, const std::string& shown);

}  // namespace relibra::io
