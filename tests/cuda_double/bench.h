#pragma once
// What the tests of the CUDA double share: objects made in one line, and the violation that a test provokes.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "tests/support/cuda_double/report.h"

namespace relibra::testing {

/// Everything is forgotten after each test, so that what a violation left in flight does not reach the next.
class DoubleTest : public ::testing::Test {
 protected:
  ~DoubleTest() override { cuda_double_reset(); }

  static cudaStream_t make_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    return stream;
  }
  static std::byte* device_memory(std::size_t bytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMalloc(&data, bytes), cudaSuccess);
    return static_cast<std::byte*>(data);
  }
  static std::byte* host_memory(std::size_t bytes) {
    void* data = nullptr;
    EXPECT_EQ(cudaMallocHost(&data, bytes), cudaSuccess);
    return static_cast<std::byte*>(data);
  }
  /// Device memory that was written on `stream`.
  static std::byte* written(std::size_t bytes, cudaStream_t stream) {
    std::byte* data = device_memory(bytes);
    const std::vector<std::byte> zeros(bytes);
    copy(data, zeros.data(), bytes, stream);
    return data;
  }
  static void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream);
  }
  static cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDefault), cudaSuccess);
    EXPECT_EQ(cudaEventRecord(event, stream), cudaSuccess);
    return event;
  }
  static void expect_violation(const std::string& part) {
    EXPECT_THAT(cuda_double_violation(), ::testing::HasSubstr(part));
  }
  static void expect_clean() { EXPECT_STREQ(cuda_double_violation(), ""); }
};

}  // namespace relibra::testing
