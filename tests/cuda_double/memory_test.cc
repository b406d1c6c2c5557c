// The double catches every misuse of memory, streams and events; and what is right passes.
#include <cstring>

#include "tests/cuda_double/bench.h"

namespace relibra::testing {
namespace {

using Memory = DoubleTest;
using Order = DoubleTest;
using Gemm = DoubleTest;
using Machine = DoubleTest;

TEST_F(Memory, UnwrittenBytesAreNotRead) {
  const auto stream = make_stream();
  std::byte* from = device_memory(64);
  copy(from, written(16, stream), 16, stream);
  copy(device_memory(64), from, 24, stream);
  expect_clean();  // nothing has run
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorAssert);
  expect_violation("reads bytes 16 to 23 of allocation");
  expect_violation("which were never written");
}

TEST_F(Memory, FreedMemoryIsNotUsed) {
  const auto stream = make_stream();
  std::byte *from = written(64, stream), *to = device_memory(64);
  cudaStreamSynchronize(stream);
  copy(to, from, 64, stream);
  EXPECT_EQ(cudaFree(from), cudaSuccess);  // the copy has not run
  cudaStreamSynchronize(stream);
  expect_violation("which has been freed");
}

TEST_F(Memory, NothingIsFreedTwiceOrAsAnotherKind) {
  std::byte* data = device_memory(64);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaErrorAssert);
  expect_violation("is freed twice");
  cuda_double_reset();
  EXPECT_EQ(cudaFreeHost(device_memory(64)), cudaErrorAssert);
  expect_violation("as memory of another kind");
  cuda_double_reset();
  EXPECT_EQ(cudaFree(device_memory(64) + 8), cudaErrorAssert);
  expect_violation("no allocation starts at");
}

TEST_F(Memory, TheEndOfAnAllocationIsTheEnd) {
  const auto stream = make_stream();
  copy(device_memory(10), written(64, stream), 11, stream);
  cudaStreamSynchronize(stream);
  expect_violation("beyond the end: bytes 0 to 10 of allocation");
}

TEST_F(Memory, CopiesDoNotOverlap) {
  const auto stream = make_stream();
  std::byte* data = written(64, stream);
  copy(data + 8, data, 16, stream);
  cudaStreamSynchronize(stream);
  expect_violation("both reads and writes byte 8");
}

TEST_F(Memory, MemoryIsOfTheDeviceThatUsesIt) {
  cudaSetDevice(1);
  std::byte* other = device_memory(64);
  cudaSetDevice(0);
  const auto stream = make_stream();
  copy(other, written(64, stream), 64, stream);
  cudaStreamSynchronize(stream);
  expect_violation("of device 1) from device 0");
}

TEST_F(Memory, TooMuchIsRefusedAndIsNoViolation) {
  void* data = nullptr;
  EXPECT_EQ(cudaMalloc(&data, std::size_t{1} << 50), cudaErrorMemoryAllocation);
  expect_clean();
}

TEST_F(Order, NothingRunsBeforeSomethingWaits) {
  const auto stream = make_stream();
  std::byte* host = host_memory(4);
  std::byte* data = written(4, stream);
  std::memset(host, 5, 4);
  copy(host, data, 4, stream);
  EXPECT_EQ(host[0], std::byte{5});
  cudaStreamSynchronize(stream);
  EXPECT_EQ(host[0], std::byte{0});
  expect_clean();
}

// Two streams, the second reads what the first writes. The double runs them in the right order; the missing
// wait is an error all the same.
TEST_F(Order, AReadBehindAWriteNeedsAWait) {
  const auto one = make_stream(), two = make_stream();
  std::byte *source = written(64, one), *data = device_memory(64);
  copy(data, source, 64, one);
  EXPECT_EQ(cudaEventQuery(record(one)), cudaSuccess);
  copy(device_memory(64), data, 64, two);
  cudaStreamSynchronize(two);
  expect_clean();  // the host knew that the write was over

  copy(data, source, 64, one);
  copy(device_memory(64), data, 64, two);
  cudaStreamSynchronize(one);
  cudaStreamSynchronize(two);
  expect_violation("may still be running: no wait orders the two");
}

TEST_F(Order, AWriteBehindAReadNeedsAWait) {
  const auto one = make_stream(), two = make_stream();
  std::byte *data = written(64, one), *other = written(64, two);
  cudaStreamSynchronize(one);
  copy(device_memory(64), data, 64, one);
  copy(data, other, 64, two);
  cudaStreamSynchronize(one);
  cudaStreamSynchronize(two);
  expect_violation("which reads them, may still be running");
}

TEST_F(Order, EventsAndTheHostOrderStreams) {
  const auto one = make_stream(), two = make_stream();
  std::byte *data = device_memory(64), *source = written(64, one);
  copy(data, source, 64, one);
  cudaStreamWaitEvent(two, record(one), 0);
  copy(device_memory(64), data, 64, two);
  cudaStreamSynchronize(two);
  copy(data, source, 64, one);  // the host knows that the read is over
  cudaStreamSynchronize(one);
  copy(device_memory(64), data, 64, two);
  EXPECT_EQ(cudaFree(source), cudaSuccess);
  cudaStreamSynchronize(two);
  expect_clean();
}

TEST_F(Order, AnEventIsThePointOfItsLastRecord) {
  const auto one = make_stream(), two = make_stream();
  std::byte *data = device_memory(64), *source = written(64, one);
  const auto event = record(one);  // before the copy
  copy(data, source, 64, one);
  cudaStreamWaitEvent(two, event, 0);
  copy(device_memory(64), data, 64, two);
  cudaStreamSynchronize(one);
  cudaStreamSynchronize(two);
  expect_violation("no wait orders the two");
}

TEST_F(Order, TimesAreOfEventsThatPassed) {
  const auto stream = make_stream();
  const auto from = record(stream), to = record(stream);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaErrorNotReady);
  EXPECT_EQ(cudaEventQuery(to), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaSuccess);
  EXPECT_GE(milliseconds, 0.0f);
  expect_clean();
}

TEST_F(Order, TheDefaultStreamAndBusyStreamsAreRefused) {
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorAssert);
  expect_violation("the default stream");
  cuda_double_reset();
  const auto stream = make_stream();
  copy(device_memory(4), host_memory(4), 4, stream);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorAssert);
  expect_violation("destroyed with 1 operations in flight");
}

TEST_F(Order, TheFirstViolationStaysTheAnswer) {
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaErrorAssert);
  EXPECT_EQ(cudaSetDevice(0), cudaErrorAssert);
  EXPECT_THAT(cudaGetErrorString(cudaErrorAssert), ::testing::HasSubstr("the default stream"));
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
}

class GemmCall {
 public:
  explicit GemmCall(cudaStream_t stream) {
    cublasCreate(&handle_);
    cublasSetStream(handle_, stream);
  }
  ~GemmCall() { cublasDestroy(handle_); }
  cublasStatus_t run(const void* a, const void* b, void* c, int lda, cudaDataType_t type) const {
    const float one = 1, zero = 0;
    return cublasGemmEx(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 1, 2, &one, a, type, lda, b, type, 2, &zero, c,
                        type, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  }

 private:
  cublasHandle_t handle_ = nullptr;
};

// Column-major: (1 3; 2 4) * (1, 10) = (31, 42).
TEST_F(Gemm, MultipliesColumnMajorMatrices) {
  const auto stream = make_stream();
  const float a[] = {1, 2, 3, 4}, b[] = {1, 10};
  float c[2] = {};
  std::byte *da = device_memory(16), *db = device_memory(8), *dc = device_memory(8);
  copy(da, a, 16, stream);
  copy(db, b, 8, stream);
  EXPECT_EQ(GemmCall(stream).run(da, db, dc, 2, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  copy(c, dc, 8, stream);
  EXPECT_EQ(c[0], 31);
  EXPECT_EQ(c[1], 42);
  expect_clean();
}

TEST_F(Gemm, WrongShapesAreCaught) {
  const auto stream = make_stream();
  std::byte *a = written(64, stream), *b = written(64, stream), *c = device_memory(64);
  EXPECT_NE(GemmCall(stream).run(a, b, c, 1, CUDA_R_32F), CUBLAS_STATUS_SUCCESS);
  expect_violation("a leading dimension below the rows");
}

TEST_F(Gemm, MisalignedMatricesAreCaught) {
  const auto stream = make_stream();
  std::byte *a = written(64, stream), *b = written(64, stream), *c = device_memory(64);
  GemmCall(stream).run(a + 2, b, c, 2, CUDA_R_16BF);
  cudaStreamSynchronize(stream);
  expect_violation("does not start at a multiple of 16 bytes");
}

TEST_F(Gemm, UnwrittenOperandsAreCaught) {
  const auto stream = make_stream();
  std::byte *b = written(64, stream), *c = device_memory(64);
  GemmCall(stream).run(device_memory(64), b, c, 2, CUDA_R_32F);
  cudaStreamSynchronize(stream);
  expect_violation("cublasGemmEx on stream");
}

TEST_F(Machine, WithoutADriverTheCountStaysUnwritten) {
  setenv("CUDA_DOUBLE_DEVICES", "0", 1);
  int count = 1234;
  EXPECT_EQ(cudaGetDeviceCount(&count), 35);
  EXPECT_EQ(count, 1234);
  unsetenv("CUDA_DOUBLE_DEVICES");
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  EXPECT_EQ(count, 8);
}

TEST_F(Machine, LeaksAreListed) {
  EXPECT_STREQ(cuda_double_leaks(), "");
  const auto stream = make_stream();
  std::byte* data = device_memory(64);
  EXPECT_THAT(cuda_double_leaks(), ::testing::HasSubstr("64 bytes of device 0"));
  EXPECT_THAT(cuda_double_leaks(), ::testing::HasSubstr("stream "));
  cudaFree(data);
  cudaStreamDestroy(stream);
  EXPECT_STREQ(cuda_double_leaks(), "");
}

}  // namespace
}  // namespace relibra::testing
