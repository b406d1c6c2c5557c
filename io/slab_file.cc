#include "io/slab_file.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "lib/base/error.h"

namespace relibra::io {
namespace {

[[noreturn]] void throw_errno(const std::string& shown, const char* what, int error) {
  throw_environment({.where = shown,
                     .found = std::string(what) + ": " + std::strerror(error),
                     .advice = "look at free space, quota and permissions there"});
}

}  // namespace

SlabFile::SlabFile(const std::string& path, std::string shown)
    : file_(open(path.c_str(), O_WRONLY | O_CLOEXEC)), shown_(std::move(shown)) {
  if (file_ < 0) throw_errno(shown_, "cannot write into the file that rank 0 made", errno);
}

SlabFile::~SlabFile() {
  close(file_);
}

void SlabFile::write(std::int64_t at, std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // a write of more is cut by the system anyway
  while (!bytes.empty()) {
    const auto done = pwrite(file_, bytes.data(), std::min(bytes.size(), kMost), at);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) throw_errno(shown_, "cannot write", done == 0 ? ENOSPC : errno);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    at += done;
  }
}

void SlabFile::flush() {
  if (fsync(file_) != 0) throw_errno(shown_, "cannot flush to the disk", errno);
}

void reserve(const std::string& path, std::int64_t bytes, const std::string& shown) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw_errno(shown, "cannot make the file", errno);
  const int error = bytes == 0 || fallocate(file, 0, 0, bytes) == 0 ? 0 : errno;
  close(file);
  if (error == EOPNOTSUPP || error == ENOSYS) return require_free(path, bytes, shown);
  if (error != 0) throw_errno(shown, ("cannot reserve " + std::to_string(bytes) + " bytes").c_str(), error);
}

void require_free(const std::string& path, std::int64_t bytes, const std::string& shown) {
  struct statvfs disk {};
  const auto folder = std::filesystem::path(path).parent_path();
  if (statvfs(folder.empty() ? "." : folder.c_str(), &disk) != 0)
    throw_errno(shown, "cannot find out how much is free", errno);
  const auto free = static_cast<double>(disk.f_bavail) * static_cast<double>(disk.f_frsize);
  if (free < static_cast<double>(bytes))
    throw_environment({.where = shown,
                       .expected = std::to_string(bytes) + " bytes free on the disk",
                       .found = std::to_string(static_cast<std::int64_t>(free)),
                       .advice = "make room there or write elsewhere"});
}

}  // namespace relibra::io
