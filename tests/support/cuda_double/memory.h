#pragma once
// Memory of the double, with the state of every byte: written or not, by which operation last, read by which
// since. From it follow reads of unwritten or freed memory and accesses that nothing orders.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/cuda_double/clock.h"

namespace cuda_double {

enum class Place { device, host };  ///< host: page-locked

struct Allocation {
  std::uint64_t number = 0, bytes = 0;
  Place place = Place::device;
  int device = 0;  ///< device memory only
  bool freed = false;
  std::byte* data = nullptr;

  /// Neighbouring bytes with one history.
  struct Segment {
    bool written = false;
    Point write;               ///< the last one, where written
    std::vector<Point> reads;  ///< since then, the last of each component
    bool operator==(const Segment&) const = default;
  };
  std::map<std::uint64_t, Segment> segments;  ///< by first byte; together all bytes

  std::string text() const;  ///< "allocation 3 (256 bytes of device 0)"
};

/// Null where the address is not in memory of the double.
Allocation* find_allocation(const void* data);

void* allocate(std::uint64_t bytes, Place place, int device);
/// Frees after checking that all uses so far happened before `clock`.
void release(void* data, Place place, const Clock& clock);

std::uint64_t bytes_in_use(int device);
std::string memory_leaks();
void reset_memory();

/// The accesses of one operation: collected first, checked together.
class Access {
 public:
  Access(Point who, const Clock& clock, int device) : who_(who), clock_(clock), device_(device) {}

  void read(const void* data, std::uint64_t bytes) { add(reads_, data, bytes); }
  void write(void* data, std::uint64_t bytes) { add(writes_, data, bytes); }
  /// Copies may touch page-locked memory, everything else device memory alone.
  void allow_host() { host_allowed_ = true; }
  /// What is written is neither read nor written elsewhere in this operation.
  void check_disjoint();
  /// Checks all and records them. Throws Violation.
  void commit();

 private:
  struct Range {
    std::uint64_t first, bytes;  // an address
  };
  static void add(std::vector<Range>& list, const void* data, std::uint64_t bytes) {
    if (bytes > 0) list.push_back({reinterpret_cast<std::uint64_t>(data), bytes});
  }
  static void merge(std::vector<Range>& list);
  Allocation& resolve(const Range& range, const char* verb) const;
  void check_read(const Range& range);
  void check_write(const Range& range);

  Point who_;
  const Clock& clock_;
  int device_;
  bool host_allowed_ = false;
  std::vector<Range> reads_, writes_;
};

}  // namespace cuda_double
