#include "lib/comm/comm.h"

#include <cstdlib>

namespace relibra {
namespace {

constexpr std::int64_t kMessageBytes = std::int64_t{1} << 30;  // below the int limit of an MPI count

}  // namespace

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw_environment({.where = call, .found = std::string(text, static_cast<std::size_t>(length))});
}

// Shared file pointers are not used; with several nodes Open MPI would put a .lock file beside every file,
// and leave it there when a job is cancelled. Others ignore the variable.
MpiSession::MpiSession(int* argc, char*** argv) {
  setenv("OMPI_MCA_sharedfp", "^lockedfile", /*overwrite=*/0);
  int provided = 0;
  check_mpi(MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check_mpi(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

MpiSession::~MpiSession() {
  MPI_Finalize();
}

Comm::Comm(MPI_Comm handle) : handle_(handle) {
  check_mpi(MPI_Comm_rank(handle, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(handle, &size_), "MPI_Comm_size");
}

void Comm::barrier() const {
  check_mpi(MPI_Barrier(handle_), "MPI_Barrier");
}

void Comm::broadcast(std::string& text, int from) const {
  std::vector<char> letters(text.begin(), text.end());
  broadcast(letters, from);
  text.assign(letters.begin(), letters.end());
}

void Comm::broadcast_bytes(void* data, std::size_t bytes, int from) const {
  auto* at = static_cast<std::byte*>(data);
  for (std::int64_t left = static_cast<std::int64_t>(bytes); left > 0;
       left -= kMessageBytes, at += kMessageBytes)
    check_mpi(MPI_Bcast(at, static_cast<int>(std::min(left, kMessageBytes)), MPI_BYTE, from, handle_),
              "MPI_Bcast");
}

void Comm::gather_all_bytes(std::span<const std::byte> mine,
                            std::vector<std::vector<std::byte>>& parts) const {
  std::int64_t bytes = static_cast<std::int64_t>(mine.size());
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(size_));
  check_mpi(MPI_Allgather(&bytes, 1, MPI_INT64_T, sizes.data(), 1, MPI_INT64_T, handle_), "MPI_Allgather");
  for (int r = 0; r < size_; ++r) {
    auto& part = parts[static_cast<std::size_t>(r)];
    if (r == rank_) part.assign(mine.begin(), mine.end());
    part.resize(static_cast<std::size_t>(sizes[static_cast<std::size_t>(r)]));
    broadcast_bytes(part.data(), part.size(), r);
  }
}

void Comm::exchange_bytes(const std::vector<const void*>& from, const std::vector<std::int64_t>& bytes_out,
                          const std::vector<void*>& to, const std::vector<std::int64_t>& bytes_in) const {
  std::vector<MPI_Request> requests;
  const auto post = [&](int peer, std::int64_t bytes, auto&& call) {
    for (std::int64_t at = 0; at < bytes; at += kMessageBytes) {
      requests.emplace_back();
      call(at, static_cast<int>(std::min(kMessageBytes, bytes - at)), peer, &requests.back());
    }
  };
  for (int i = 0; i < size_; ++i) {
    const int source = (rank_ - i + size_) % size_;
    auto* base = static_cast<std::byte*>(to[static_cast<std::size_t>(source)]);
    post(source, bytes_in[static_cast<std::size_t>(source)],
         [&](std::int64_t at, int n, int peer, MPI_Request* request) {
           check_mpi(MPI_Irecv(base + at, n, MPI_BYTE, peer, 0, handle_, request), "MPI_Irecv");
         });
  }
  for (int i = 0; i < size_; ++i) {
    const int target = (rank_ + i) % size_;
    const auto* base = static_cast<const std::byte*>(from[static_cast<std::size_t>(target)]);
    post(target, bytes_out[static_cast<std::size_t>(target)],
         [&](std::int64_t at, int n, int peer, MPI_Request* request) {
           check_mpi(MPI_Isend(base + at, n, MPI_BYTE, peer, 0, handle_, request), "MPI_Isend");
         });
  }
  check_mpi(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE),
            "MPI_Waitall");
}

}  // namespace relibra
