#include "tests/support/cuda_double/memory.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "tests/support/cuda_double/report.h"

namespace cuda_double {
namespace {

constexpr std::uint64_t kAlignment = 256;
constexpr std::uint64_t kQuarantine = std::uint64_t{256}
                                      << 20;  // freed bytes kept, so that later uses are seen

struct Memory {
  std::map<std::uint64_t, std::unique_ptr<Allocation>> by_address;
  std::deque<std::uint64_t> freed;  // addresses, oldest first
  std::uint64_t freed_bytes = 0, next_number = 1;
};

Memory& memory() {
  static auto* state = new Memory;
  return *state;
}

std::string who_text(const Point& point) {
  return std::string(point.name) +
         (point.component == kHost ? " by the host" : " on stream " + std::to_string(point.component));
}

std::string bytes_text(const Allocation& allocation, std::uint64_t first, std::uint64_t last) {
  return "bytes " + std::to_string(first) + " to " + std::to_string(last - 1) + " of " + allocation.text();
}

/// Makes `at` the first byte of a segment.
void split(Allocation& allocation, std::uint64_t at) {
  auto after = allocation.segments.upper_bound(at);
  const auto inside = std::prev(after);
  if (inside->first != at && at < allocation.bytes)
    allocation.segments.emplace_hint(after, at, inside->second);
}

/// Joins the segment that starts at `at` to the one before it where their histories agree.
void join(Allocation& allocation, std::uint64_t at) {
  const auto it = allocation.segments.find(at);
  if (it == allocation.segments.end() || it == allocation.segments.begin()) return;
  if (std::prev(it)->second == it->second) allocation.segments.erase(it);
}

void forget_oldest() {
  Memory& all = memory();
  const auto it = all.by_address.find(all.freed.front());
  all.freed.pop_front();
  all.freed_bytes -= it->second->bytes;
  std::free(it->second->data);
  all.by_address.erase(it);
}

}  // namespace

std::string Allocation::text() const {
  return "allocation " + std::to_string(number) + " (" + std::to_string(bytes) + " bytes of " +
         (place == Place::host ? "page-locked host memory" : "device " + std::to_string(device)) + ")";
}

Allocation* find_allocation(const void* data) {
  const auto address = reinterpret_cast<std::uint64_t>(data);
  auto it = memory().by_address.upper_bound(address);
  if (it == memory().by_address.begin()) return nullptr;
  Allocation& found = *std::prev(it)->second;
  return address - std::prev(it)->first < found.bytes ? &found : nullptr;
}

void* allocate(std::uint64_t bytes, Place place, int device) {
  const std::uint64_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto made = std::make_unique<Allocation>();
  made->data = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  if (!made->data) throw Refusal{cudaErrorMemoryAllocation};
  std::memset(made->data, 0xFF, rounded);  // NaN as float32 and as bfloat16, -1 as an index
  made->number = memory().next_number++;
  made->bytes = bytes;
  made->place = place;
  made->device = device;
  made->segments[0] = {};
  std::byte* data = made->data;
  memory().by_address[reinterpret_cast<std::uint64_t>(data)] = std::move(made);
  return data;
}

void release(void* data, Place place, const Clock& clock) {
  Allocation* found = find_allocation(data);
  if (!found || found->data != data) violate("free of an address that no allocation starts at");
  if (found->freed) violate(found->text() + " is freed twice");
  if (found->place != place) violate(found->text() + " is freed as memory of another kind");
  for (const auto& [first, segment] : found->segments) {
    if (segment.written && !before(segment.write, clock))
      violate(found->text() + " is freed while " + who_text(segment.write) +
              ", which writes it, may still be running");
    for (const Point& point : segment.reads)
      if (!before(point, clock))
        violate(found->text() + " is freed while " + who_text(point) +
                ", which reads it, may still be running");
  }
  found->freed = true;
  found->segments.clear();
  std::memset(data, 0xFF, found->bytes);
  memory().freed.push_back(reinterpret_cast<std::uint64_t>(data));
  memory().freed_bytes += found->bytes;
  while (memory().freed_bytes > kQuarantine) forget_oldest();
}

std::uint64_t bytes_in_use(int device) {
  std::uint64_t sum = 0;
  for (const auto& [address, allocation] : memory().by_address)
    if (!allocation->freed && allocation->place == Place::device && allocation->device == device)
      sum += allocation->bytes;
  return sum;
}

std::string memory_leaks() {
  std::string text;
  for (const auto& [address, allocation] : memory().by_address)
    if (!allocation->freed) text += allocation->text() + "\n";
  return text;
}

void reset_memory() {
  for (const auto& [address, allocation] : memory().by_address) std::free(allocation->data);
  memory() = {};
}

void Access::merge(std::vector<Range>& list) {
  std::sort(list.begin(), list.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> merged;
  for (const Range& range : list) {
    if (!merged.empty() && range.first <= merged.back().first + merged.back().bytes)
      merged.back().bytes = std::max(merged.back().bytes, range.first + range.bytes - merged.back().first);
    else
      merged.push_back(range);
  }
  list = std::move(merged);
}

void Access::check_disjoint() {
  auto sorted = writes_;
  std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  const auto refuse = [&](std::uint64_t address, const char* what) {
    const Range range{address, 1};
    const Allocation& found = resolve(range, "writes");
    violate(who_text(who_) + " " + what + " byte " +
            std::to_string(address - reinterpret_cast<std::uint64_t>(found.data)) + " of " + found.text());
  };
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].first < sorted[i - 1].first + sorted[i - 1].bytes) refuse(sorted[i].first, "writes twice");
  for (const Range& read : reads_) {
    const auto above =
        std::upper_bound(sorted.begin(), sorted.end(), read.first + read.bytes - 1,
                         [](std::uint64_t address, const Range& r) { return address < r.first; });
    if (above == sorted.begin()) continue;
    const Range& below = *std::prev(above);
    if (below.first + below.bytes > read.first)
      refuse(std::max(below.first, read.first), "both reads and writes");
  }
}

Allocation& Access::resolve(const Range& range, const char* verb) const {
  Allocation* found = find_allocation(reinterpret_cast<const void*>(range.first));
  const std::string what = who_text(who_) + " " + verb + " ";
  if (!found) violate(what + "memory that was not allocated on a device");
  const std::uint64_t first = range.first - reinterpret_cast<std::uint64_t>(found->data);
  if (found->freed) violate(what + found->text() + ", which has been freed");
  if (first + range.bytes > found->bytes)
    violate(what + "beyond the end: " + bytes_text(*found, first, first + range.bytes));
  if (found->place == Place::host && !host_allowed_)
    violate(what + found->text() + " where device memory belongs");
  if (found->place == Place::device && found->device != device_)
    violate(what + found->text() + " from device " + std::to_string(device_));
  return *found;
}

void Access::check_read(const Range& range) {
  Allocation& allocation = resolve(range, "reads");
  const std::uint64_t first = range.first - reinterpret_cast<std::uint64_t>(allocation.data),
                      last = first + range.bytes;
  split(allocation, first);
  split(allocation, last);
  auto it = allocation.segments.find(first);
  for (; it != allocation.segments.end() && it->first < last; ++it) {
    Allocation::Segment& segment = it->second;
    const auto end = std::next(it) == allocation.segments.end() ? allocation.bytes : std::next(it)->first;
    if (!segment.written)
      violate(who_text(who_) + " reads " + bytes_text(allocation, it->first, end) +
              ", which were never written");
    if (!before(segment.write, clock_))
      violate(who_text(who_) + " reads " + bytes_text(allocation, it->first, end) + " while " +
              who_text(segment.write) + ", which writes them, may still be running: no wait orders the two");
    std::erase_if(segment.reads, [&](const Point& point) { return point.component == who_.component; });
    segment.reads.push_back(who_);
  }
  join(allocation, first);
  if (last < allocation.bytes) join(allocation, last);
}

void Access::check_write(const Range& range) {
  Allocation& allocation = resolve(range, "writes");
  const std::uint64_t first = range.first - reinterpret_cast<std::uint64_t>(allocation.data),
                      last = first + range.bytes;
  split(allocation, first);
  split(allocation, last);
  const auto begin = allocation.segments.find(first);
  auto it = begin;
  const auto refuse = [&](const Point& other, const char* what) {
    const auto end = std::next(it) == allocation.segments.end() ? allocation.bytes : std::next(it)->first;
    violate(who_text(who_) + " writes " + bytes_text(allocation, it->first, end) + " while " +
            who_text(other) + ", which " + what + ", may still be running: no wait orders the two");
  };
  for (; it != allocation.segments.end() && it->first < last; ++it) {
    if (it->second.written && !before(it->second.write, clock_)) refuse(it->second.write, "writes them too");
    for (const Point& point : it->second.reads)
      if (!before(point, clock_)) refuse(point, "reads them");
  }
  allocation.segments.erase(begin, it);
  allocation.segments[first] = {true, who_, {}};
  join(allocation, first);
  if (last < allocation.bytes) join(allocation, last);
}

void Access::commit() {
  merge(reads_);
  merge(writes_);
  for (const Range& range : reads_) check_read(range);
  for (const Range& range : writes_) check_write(range);
}

}  // namespace cuda_double
