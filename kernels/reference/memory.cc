// How much memory a process may still take: what the machine has free, or less where a control group limits
// it.
#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

#include "kernels/reference/reference.h"

namespace relibra::kernels::reference {
namespace {

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// Bytes of a line "NAME:   123 kB" of /proc/meminfo; 0 where there is none.
std::uint64_t meminfo_bytes(const std::string& name) {
  std::ifstream file("/proc/meminfo");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (file >> word)
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
  return 0;
}

/// The number that a control-group file holds; unlimited where it is missing or says "max".
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

/// Limit and use of this container, version 2 and version 1.
std::uint64_t free_in_group(const char* limit_file, const char* use_file, std::uint64_t& limit) {
  limit = number_in(limit_file);
  const std::uint64_t used = number_in(use_file);
  if (limit == kUnlimited || used == kUnlimited) return kUnlimited;
  return limit > used ? limit - used : 0;
}

}  // namespace

void host_memory(std::uint64_t& total, std::uint64_t& free) {
  total = meminfo_bytes("MemTotal");
  free = meminfo_bytes("MemAvailable");
  const char* const groups[][2] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const auto& [limit_file, use_file] : groups) {
    std::uint64_t limit = kUnlimited;
    free = std::min(free, free_in_group(limit_file, use_file, limit));
    total = std::min(total, limit);
  }
}

}  // namespace relibra::kernels::reference
