#pragma once
// Checked MPI: every call's result becomes an Error that names the call. Counts are 64-bit; large messages
// are cut.
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/base/error.h"

namespace relibra {

/// Throws Fault::environment with the call's name and MPI's text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* call);

template <class T>
constexpr MPI_Datatype mpi_type();

/// MPI_Init_thread (MPI_THREAD_FUNNELED) for the life of the object, errors returned instead of fatal.
class MpiSession {
 public:
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
};

/// A communicator that is used, not owned. Every member with a rank argument or a reduction is collective
/// over it unless it says "local".
class Comm {
 public:
  explicit Comm(MPI_Comm handle);
  static Comm world() { return Comm(MPI_COMM_WORLD); }

  int rank() const { return rank_; }  ///< local
  int size() const { return size_; }  ///< local
  bool root() const { return rank_ == 0; }
  MPI_Comm handle() const { return handle_; }

  void barrier() const;

  template <class T>
  T sum(T value) const {
    return reduce_one(value, MPI_SUM);
  }
  template <class T>
  T max(T value) const {
    return reduce_one(value, MPI_MAX);
  }
  template <class T>
  T min(T value) const {
    return reduce_one(value, MPI_MIN);
  }

  /// Element-wise over equal-sized spans, in place on every rank.
  template <class T>
  void sum_in_place(std::span<T> values) const {
    reduce_in_place(values, MPI_SUM);
  }
  template <class T>
  void max_in_place(std::span<T> values) const {
    reduce_in_place(values, MPI_MAX);
  }
  template <class T>
  void min_in_place(std::span<T> values) const {
    reduce_in_place(values, MPI_MIN);
  }

  /// Sum over the ranks below this one; 0 on rank 0.
  template <class T>
  T sum_below(T value) const {
    T result{};
    check_mpi(MPI_Exscan(&value, &result, 1, mpi_type<T>(), MPI_SUM, handle_), "MPI_Exscan");
    return rank_ == 0 ? T{} : result;
  }

  /// Root's bytes to everyone; the vector or string is resized.
  template <class T>
  void broadcast(std::vector<T>& values, int from = 0) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::int64_t count = static_cast<std::int64_t>(values.size());
    broadcast_bytes(&count, sizeof count, from);
    values.resize(static_cast<std::size_t>(count));
    broadcast_bytes(values.data(), values.size() * sizeof(T), from);
  }
  void broadcast(std::string& text, int from = 0) const;
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void broadcast(T& value, int from = 0) const { broadcast_bytes(&value, sizeof value, from); }

  /// Every rank's list, joined in rank order, on every rank.
  template <class T>
  std::vector<T> gather_all(std::span<const T> mine) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<std::byte>> parts(static_cast<std::size_t>(size_));
    std::vector<T> joined;
    gather_all_bytes(std::as_bytes(mine), parts);
    for (const auto& part : parts) {
      const auto* first = reinterpret_cast<const T*>(part.data());
      joined.insert(joined.end(), first, first + part.size() / sizeof(T));
    }
    return joined;
  }

  /// send[r] goes to rank r; the result's element r came from rank r. Any sizes; each message may pass 2 GiB.
  template <class T>
  std::vector<std::vector<T>> exchange(const std::vector<std::vector<T>>& send) const {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::int64_t> bytes_out, bytes_in(send.size());
    for (const auto& part : send) bytes_out.push_back(static_cast<std::int64_t>(part.size() * sizeof(T)));
    check_mpi(MPI_Alltoall(bytes_out.data(), 1, MPI_INT64_T, bytes_in.data(), 1, MPI_INT64_T, handle_),
              "MPI_Alltoall");
    std::vector<std::vector<T>> received(send.size());
    std::vector<const void*> from;
    std::vector<void*> to;
    for (std::size_t r = 0; r < send.size(); ++r) {
      received[r].resize(static_cast<std::size_t>(bytes_in[r]) / sizeof(T));
      from.push_back(send[r].data());
      to.push_back(received[r].data());
    }
    exchange_bytes(from, bytes_out, to, bytes_in);
    return received;
  }

 private:
  template <class T>
  T reduce_one(T value, MPI_Op op) const {
    T result{};
    check_mpi(MPI_Allreduce(&value, &result, 1, mpi_type<T>(), op, handle_), "MPI_Allreduce");
    return result;
  }
  template <class T>
  void reduce_in_place(std::span<T> values, MPI_Op op) const {
    constexpr std::size_t step = std::size_t{1} << 24;
    for (std::size_t at = 0; at < values.size(); at += step) {
      const auto n = static_cast<int>(std::min(step, values.size() - at));
      check_mpi(MPI_Allreduce(MPI_IN_PLACE, values.data() + at, n, mpi_type<T>(), op, handle_),
                "MPI_Allreduce");
    }
  }
  void broadcast_bytes(void* data, std::size_t bytes, int from) const;
  void gather_all_bytes(std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& parts) const;
  void exchange_bytes(const std::vector<const void*>& from, const std::vector<std::int64_t>& bytes_out,
                      const std::vector<void*>& to, const std::vector<std::int64_t>& bytes_in) const;

  MPI_Comm handle_;
  int rank_ = 0;
  int size_ = 1;
};

template <class T>
constexpr MPI_Datatype mpi_type() {
  if constexpr (std::is_same_v<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (std::is_same_v<T, std::uint32_t>) return MPI_UINT32_T;
  if constexpr (std::is_same_v<T, std::int64_t> || std::is_same_v<T, long long>) return MPI_INT64_T;
  if constexpr (std::is_same_v<T, std::uint64_t>) return MPI_UINT64_T;
  if constexpr (std::is_same_v<T, float>) return MPI_FLOAT;
  if constexpr (std::is_same_v<T, double>) return MPI_DOUBLE;
}

}  // namespace relibra
