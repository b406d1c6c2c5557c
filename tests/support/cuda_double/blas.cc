// cuBLAS's functions on queues and memory of the double: column-major products, in double, rounded once.
#include <cstring>
#include <set>

#include "cublas_v2.h"
#include "kernels/bodies/host_device.h"
#include "tests/support/cuda_double/queue.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  int device = 0;
};

namespace cuda_double {
namespace {

using relibra::kernels::Bf16;

std::set<cublasHandle_t>& handles() {
  static auto* all = new std::set<cublasHandle_t>;
  return *all;
}

/// A refusal of cuBLAS, through the results of the runtime.
constexpr cudaError_t kNotSupported = cudaErrorInvalidValue;

template <class F>
cublasStatus_t guarded_blas(F&& f, On kind = On::use) {
  switch (guarded(f, kind)) {
    case cudaSuccess:
      return CUBLAS_STATUS_SUCCESS;
    case kNotSupported:
      return CUBLAS_STATUS_NOT_SUPPORTED;
    default:
      return CUBLAS_STATUS_INTERNAL_ERROR;
  }
}

/// One product C (m, n) = alpha op(A) op(B) + beta C.
struct Product {
  cublasOperation_t transpose_a, transpose_b;
  int m, n, k, lda, ldb, ldc;
  float alpha, beta;
  cudaDataType_t type;
};

std::uint64_t size_of(cudaDataType_t type) {
  return type == CUDA_R_16BF ? 2 : 4;
}

float load(const void* data, std::int64_t i, cudaDataType_t type) {
  return type == CUDA_R_16BF ? relibra::kernels::to_float(static_cast<const Bf16*>(data)[i])
                             : static_cast<const float*>(data)[i];
}

void store(void* data, std::int64_t i, cudaDataType_t type, float value) {
  if (type == CUDA_R_16BF)
    static_cast<Bf16*>(data)[i] = relibra::kernels::from_float<Bf16>(value);
  else
    static_cast<float*>(data)[i] = value;
}

/// The columns of a matrix of `rows` with this leading dimension, as ranges.
template <class F>
void for_columns(std::int64_t rows, std::int64_t columns, std::int64_t stride, cudaDataType_t type, F&& f) {
  const auto size = static_cast<std::int64_t>(size_of(type));
  if (stride == rows)
    f(0, static_cast<std::uint64_t>(rows * columns * size));
  else
    for (std::int64_t c = 0; c < columns; ++c) f(c * stride * size, static_cast<std::uint64_t>(rows * size));
}

void access_of(const Product& p, const void* a, const void* b, void* c, Access& access) {
  const auto reader = [&](const void* data) {
    return [&access, data](std::int64_t at, std::uint64_t bytes) {
      access.read(static_cast<const std::byte*>(data) + at, bytes);
    };
  };
  const bool ta = p.transpose_a == CUBLAS_OP_T, tb = p.transpose_b == CUBLAS_OP_T;
  for_columns(ta ? p.k : p.m, ta ? p.m : p.k, p.lda, p.type, reader(a));
  for_columns(tb ? p.n : p.k, tb ? p.k : p.n, p.ldb, p.type, reader(b));
  for_columns(p.m, p.n, p.ldc, p.type, [&](std::int64_t at, std::uint64_t bytes) {
    access.write(static_cast<std::byte*>(c) + at, bytes);
  });
}

/// What beta brings in is read and written in place, which access_of() must not see as an overlap.
void access_of_old(const Product& p, const void* c, Access& access) {
  if (p.beta != 0)
    for_columns(p.m, p.n, p.ldc, p.type, [&](std::int64_t at, std::uint64_t bytes) {
      access.read(static_cast<const std::byte*>(c) + at, bytes);
    });
}

void multiply(const Product& p, const void* a, const void* b, void* c) {
  const bool ta = p.transpose_a == CUBLAS_OP_T, tb = p.transpose_b == CUBLAS_OP_T;
  std::vector<double> column(static_cast<std::size_t>(p.m));
  for (std::int64_t j = 0; j < p.n; ++j) {
    std::fill(column.begin(), column.end(), 0.0);
    for (std::int64_t t = 0; t < p.k; ++t) {
      const double right = load(b, tb ? t * p.ldb + j : j * p.ldb + t, p.type);
      for (std::int64_t i = 0; i < p.m; ++i)
        column[static_cast<std::size_t>(i)] += load(a, ta ? i * p.lda + t : t * p.lda + i, p.type) * right;
    }
    for (std::int64_t i = 0; i < p.m; ++i) {
      const std::int64_t at = j * p.ldc + i;
      const double old = p.beta != 0 ? p.beta * static_cast<double>(load(c, at, p.type)) : 0.0;
      store(c, at, p.type, static_cast<float>(p.alpha * column[static_cast<std::size_t>(i)] + old));
    }
  }
}

void check_shape(const Product& p) {
  const bool ta = p.transpose_a == CUBLAS_OP_T, tb = p.transpose_b == CUBLAS_OP_T;
  if (p.m < 1 || p.n < 1 || p.k < 1) violate("GEMM: a dimension below 1");
  if (p.lda < (ta ? p.k : p.m) || p.ldb < (tb ? p.n : p.k) || p.ldc < p.m)
    violate("GEMM: a leading dimension below the rows of its matrix");
}

void check_aligned(const Product& p, const void* a, const void* b, const void* c) {
  for (const void* data : {a, b, c})
    if (p.type == CUDA_R_16BF && reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
      violate("GEMM: a bfloat16 matrix that does not start at a multiple of 16 bytes");
}

void check_handle(cublasHandle_t handle) {
  if (!handles().contains(handle)) violate("cuBLAS: a handle that does not exist");
  check_stream(handle->stream, "cuBLAS");
}

void check_types(cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cublasComputeType_t compute) {
  if (a != b || b != c || compute != CUBLAS_COMPUTE_32F) throw Refusal{kNotSupported};
}

/// A grouped GEMM once its host arrays have been read: problem i uses pointers[i] on the device.
struct Grouped {
  std::vector<Product> problems;
  const void* const* a;
  const void* const* b;
  void* const* c;

  void accesses(Access& access) const {
    const std::uint64_t bytes = problems.size() * sizeof(void*);
    access.read(a, bytes);
    access.read(b, bytes);
    access.read(c, bytes);
    access.commit();  // before the pointers are followed
    for (std::size_t i = 0; i < problems.size(); ++i) {
      check_aligned(problems[i], a[i], b[i], c[i]);
      access_of(problems[i], a[i], b[i], c[i], access);
    }
    access.check_disjoint();
    for (std::size_t i = 0; i < problems.size(); ++i) access_of_old(problems[i], c[i], access);
  }
  void run() const {
    for (std::size_t i = 0; i < problems.size(); ++i) multiply(problems[i], a[i], b[i], c[i]);
  }
};

}  // namespace

std::string blas_leaks() {
  return handles().empty() ? "" : std::to_string(handles().size()) + " cuBLAS handles\n";
}

void reset_blas() {
  for (const cublasHandle_t handle : handles()) delete handle;
  handles().clear();
}

}  // namespace cuda_double

using namespace cuda_double;

extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  return guarded_blas([&](auto&) {
    *handle = new cublasContext{nullptr, current_device()};
    handles().insert(*handle);
  });
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  return guarded_blas(
      [&](auto&) {
        if (handles().erase(handle) == 0) violate("cublasDestroy: a handle that does not exist");
        delete handle;
      },
      On::release);
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  return guarded_blas([&](auto&) {
    check_stream(stream, "cublasSetStream");
    if (stream->device != handle->device) violate("cublasSetStream: a stream of another device");
    handle->stream = stream;
  });
}

const char* cublasGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return violation().c_str();
  }
}

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transa_array[],
                                          const cublasOperation_t transb_array[], const int m_array[],
                                          const int n_array[], const int k_array[], const void* alpha_array,
                                          const void* const Aarray[], cudaDataType_t Atype,
                                          const int lda_array[], const void* const Barray[],
                                          cudaDataType_t Btype, const int ldb_array[], const void* beta_array,
                                          void* const Carray[], cudaDataType_t Ctype, const int ldc_array[],
                                          int group_count, const int group_size[],
                                          cublasComputeType_t computeType) {
  return guarded_blas([&](auto&) {
    check_handle(handle);
    check_types(Atype, Btype, Ctype, computeType);
    Grouped grouped{{}, Aarray, Barray, Carray};
    for (int g = 0; g < group_count; ++g) {
      const Product product{transa_array[g],
                            transb_array[g],
                            m_array[g],
                            n_array[g],
                            k_array[g],
                            lda_array[g],
                            ldb_array[g],
                            ldc_array[g],
                            static_cast<const float*>(alpha_array)[g],
                            static_cast<const float*>(beta_array)[g],
                            Atype};
      check_shape(product);
      grouped.problems.insert(grouped.problems.end(), static_cast<std::size_t>(group_size[g]), product);
    }
    const auto shared = std::make_shared<const Grouped>(std::move(grouped));
    enqueue_simple(
        handle->stream, "cublasGemmGroupedBatchedEx", [shared](Access& access) { shared->accesses(access); },
        [shared] { shared->run(); });
  });
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void* alpha, const void* A, cudaDataType_t Atype, int lda,
                            const void* B, cudaDataType_t Btype, int ldb, const void* beta, void* C,
                            cudaDataType_t Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t) {
  return guarded_blas([&](auto&) {
    check_handle(handle);
    check_types(Atype, Btype, Ctype, computeType);
    const Product product{transa,
                          transb,
                          m,
                          n,
                          k,
                          lda,
                          ldb,
                          ldc,
                          *static_cast<const float*>(alpha),
                          *static_cast<const float*>(beta),
                          Atype};
    check_shape(product);
    enqueue_simple(
        handle->stream, "cublasGemmEx",
        [=](Access& access) {
          check_aligned(product, A, B, C);
          access_of(product, A, B, C, access);
          access.check_disjoint();
          access_of_old(product, C, access);
        },
        [=] { multiply(product, A, B, C); });
  });
}

}  // extern "C"
