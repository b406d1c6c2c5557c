#pragma once
// Values as bytes, to send what one rank has read to the others.
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace relibra::io {

/// One direction-neutral pass over the fields of a struct: the same function writes and reads them.
///
///   template <class Wire> void visit(Wire& wire, Shard& s) { wire(s.step); wire(s.layers); wire(s.domain); }
class WireWriter {
 public:
  template <class T>
  void operator()(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    append(&value, sizeof value);
  }
  template <class T>
  void operator()(const std::vector<T>& values) {
    (*this)(values.size());
    if constexpr (std::is_trivially_copyable_v<T>) {
      append(values.data(), values.size() * sizeof(T));
    } else {
      for (const T& value : values) (*this)(value);
    }
  }
  void operator()(const std::string& text) {
    (*this)(text.size());
    append(text.data(), text.size());
  }
  std::vector<std::byte>& bytes() { return bytes_; }

 private:
  void append(const void* data, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), from, from + size);
  }
  std::vector<std::byte> bytes_;
};

/// Reads what WireWriter wrote, in the same order, over one or several appended messages.
class WireReader {
 public:
  explicit WireReader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  bool done() const { return at_ == bytes_.size(); }
  template <class T>
  void operator()(T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    take(&value, sizeof value);
  }
  template <class T>
  void operator()(std::vector<T>& values) {
    values.resize(size());
    if constexpr (std::is_trivially_copyable_v<T>) {
      take(values.data(), values.size() * sizeof(T));
    } else {
      for (T& value : values) (*this)(value);
    }
  }
  void operator()(std::string& text) {
    text.resize(size());
    take(text.data(), text.size());
  }

 private:
  std::size_t size() {
    std::size_t n = 0;
    (*this)(n);
    return n;
  }
  void take(void* data, std::size_t size) {
    if (size > 0) std::memcpy(data, bytes_.data() + at_, size);
    at_ += size;
  }
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

}  // namespace relibra::io
