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

/// The number after the word `name` in a file of words and numbers; `otherwise` where there is none.
std::uint64_t number_after(const char* path, const std::string& name, std::uint64_t otherwise) {
  std::ifstream file(path);
  std::string word;
  std::uint64_t value = 0;
  while (file >> word)
    if (word == name && file >> value) return value;
  return otherwise;
}

/// The number that a control-group file holds; unlimited where it is missing or says "max".
std::uint64_t number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

/// Where a control group says its limit, its use, and how much of that is files it would drop.
struct GroupFiles {
  const char *limit, *use, *statistics, *droppable;
};
constexpr GroupFiles kGroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat",
     "inactive_file"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes",
     "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"}};

std::uint64_t free_in(const GroupFiles& group, std::uint64_t limit) {
  const std::uint64_t used = number_in(group.use);
  if (limit == kUnlimited || used == kUnlimited) return kUnlimited;
  const std::uint64_t kept = used - std::min(used, number_after(group.statistics, group.droppable, 0));
  return limit > kept ? limit - kept : 0;
}

}  // namespace

void host_memory(std::uint64_t& total, std::uint64_t& free) {
  total = number_after("/proc/meminfo", "MemTotal:", 0) * 1024;
  free = number_after("/proc/meminfo", "MemAvailable:", 0) * 1024;
  for (const GroupFiles& group : kGroups) {
    const std::uint64_t limit = number_in(group.limit);
    free = std::min(free, free_in(group, limit));
    total = std::min(total, limit);
  }
}

}  // namespace relibra::kernels::reference
