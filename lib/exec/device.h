#pragma once
// The device seam (kernels/backend.h) as C++ objects: owned handles, statuses turned into Error.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "lib/base/error.h"

namespace relibra::exec {

/// Throws Fault::environment with the call and the backend's text unless `status` is ok.
void check(const kernels::Backend& backend, kernels::Status status, const char* call);

/// An opened device. Outlives everything made on it.
class Device {
 public:
  explicit Device(const kernels::Backend& backend, int index = 0);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const kernels::Backend& backend() const { return backend_; }
  kernels::Device* handle() const { return handle_; }
  kernels::DeviceInfo info() const;

  /// Throws Fault::environment unless the status is ok: device.check(device.backend().fill(...), "fill").
  void check(kernels::Status status, const char* call) const { exec::check(backend_, status, call); }

 private:
  const kernels::Backend& backend_;
  kernels::Device* handle_ = nullptr;
};

/// Device memory, content undefined. Empty and default-constructed buffers hold nothing.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept;

  std::size_t bytes() const { return bytes_; }
  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  const Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

class Stream {
 public:
  explicit Stream(const Device& device);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Device& device() const { return device_; }
  kernels::Stream* handle() const { return handle_; }
  void copy(void* to, const void* from, std::size_t bytes) const;
  void synchronize() const;

 private:
  const Device& device_;
  kernels::Stream* handle_ = nullptr;
};

class Event {
 public:
  explicit Event(const Device& device);
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  kernels::Event* handle() const { return handle_; }
  void record(kernels::Stream* stream) const;
  bool passed() const;

 private:
  const Device* device_;
  kernels::Event* handle_ = nullptr;
};

/// Seconds between two passed events.
double elapsed(const Device& device, kernels::Event* from, kernels::Event* to);

/// A grouped GEMM prepared once.
class Gemm {
 public:
  Gemm(const Device& device, const kernels::GemmSpec& spec);
  ~Gemm();
  Gemm(Gemm&& other) noexcept;
  Gemm& operator=(Gemm&&) = delete;
  void run(kernels::Stream* stream) const;

 private:
  const Device* device_;
  kernels::Gemm* handle_ = nullptr;
};

/// A copy of host values in device memory; complete on return.
template <class T>
Buffer upload(const Stream& stream, std::span<const T> values) {
  Buffer buffer(stream.device(), values.size_bytes());
  stream.copy(buffer.data(), values.data(), values.size_bytes());
  stream.synchronize();
  return buffer;
}

/// `count` values of device memory on the host, after all work given to the stream.
template <class T>
std::vector<T> download(const Stream& stream, const void* data, std::size_t count) {
  std::vector<T> values(count);
  stream.copy(values.data(), data, count * sizeof(T));
  stream.synchronize();
  return values;
}

}  // namespace relibra::exec
