#include "lib/exec/device.h"

#include <utility>

namespace relibra::exec {

void check(const kernels::Backend& backend, kernels::Status status, const char* call) {
  if (status == kernels::Status::ok) return;
  throw_environment({.where = std::string(backend.name) + " backend, " + call,
                     .found = backend.last_error(),
                     .advice = status == kernels::Status::out_of_memory
                                   ? "select fewer layers or micro-batches, or use more ranks"
                                   : ""});
}

Device::Device(const kernels::Backend& backend, int index) : backend_(backend) {
  check(backend.device_open(index, &handle_), "device_open");
}

Device::~Device() {
  backend_.device_close(handle_);
}

kernels::DeviceInfo Device::info() const {
  kernels::DeviceInfo info;
  check(backend_.device_info(handle_, &info), "device_info");
  return info;
}

Buffer::Buffer(const Device& device, std::size_t bytes) : device_(&device), bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  device.check(device.backend().allocate(device.handle(), kernels::Memory::device, bytes, &data), "allocate");
  data_ = static_cast<std::byte*>(data);
}

Buffer::~Buffer() {
  if (data_) device_->backend().free(device_->handle(), kernels::Memory::device, data_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Stream::Stream(const Device& device) : device_(device) {
  device.check(device.backend().stream_create(device.handle(), &handle_), "stream_create");
}

Stream::~Stream() {
  device_.backend().stream_destroy(handle_);
}

void Stream::copy(void* to, const void* from, std::size_t bytes) const {
  if (bytes) device_.check(device_.backend().copy(handle_, to, from, bytes), "copy");
}

void Stream::synchronize() const {
  device_.check(device_.backend().stream_synchronize(handle_), "stream_synchronize");
}

Event::Event(const Device& device) : device_(&device) {
  device.check(device.backend().event_create(device.handle(), &handle_), "event_create");
}

Event::Event(Event&& other) noexcept
    : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Event::~Event() {
  if (handle_) device_->backend().event_destroy(handle_);
}

void Event::record(kernels::Stream* stream) const {
  device_->check(device_->backend().event_record(handle_, stream), "event_record");
}

bool Event::passed() const {
  bool passed = false;
  device_->check(device_->backend().event_query(handle_, &passed), "event_query");
  return passed;
}

double elapsed(const Device& device, kernels::Event* from, kernels::Event* to) {
  double seconds = 0;
  device.check(device.backend().event_elapsed(from, to, &seconds), "event_elapsed");
  return seconds;
}

Gemm::Gemm(const Device& device, const kernels::GemmSpec& spec) : device_(&device) {
  device.check(device.backend().gemm_create(device.handle(), &spec, &handle_), "gemm_create");
}

Gemm::Gemm(Gemm&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}

Gemm::~Gemm() {
  if (handle_) device_->backend().gemm_destroy(handle_);
}

void Gemm::run(kernels::Stream* stream) const {
  device_->check(device_->backend().gemm_run(stream, handle_), "gemm_run");
}

}  // namespace relibra::exec
