#include "lib/comm/idle_wait.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "lib/comm/agree.h"

namespace relibra {
namespace {

// Apart from the tag of Comm::exchange.
constexpr int kWake = 7101, kNotice = 7102;

class Pause {
 public:
  void sleep() {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds_));
    seconds_ = std::min(1.5 * seconds_, kLongest);
  }

 private:
  static constexpr double kLongest = 0.010;
  double seconds_ = 0.0001;
};

bool has_notice(const Comm& comm) {
  int arrived = 0;
  check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, kNotice, comm.handle(), &arrived, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return arrived != 0;
}

void wait_as_root(const Comm& comm, const std::function<bool()>& ready, const std::function<bool()>& asked) {
  for (Pause pause; !asked() && !has_notice(comm) && !ready();) pause.sleep();
}

/// Whether this rank has sent a notice, and its request.
struct Notice {
  bool sent = false;
  MPI_Request request = MPI_REQUEST_NULL;
};

Notice wait_for_root(const Comm& comm, const std::function<bool()>& asked) {
  Notice notice;
  MPI_Request wake = MPI_REQUEST_NULL;
  check_mpi(MPI_Irecv(nullptr, 0, MPI_BYTE, 0, kWake, comm.handle(), &wake), "MPI_Irecv");
  for (Pause pause;; pause.sleep()) {
    int woken = 0;
    check_mpi(MPI_Test(&wake, &woken, MPI_STATUS_IGNORE), "MPI_Test");
    if (woken) return notice;
    if (notice.sent || !asked()) continue;
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, 0, kNotice, comm.handle(), &notice.request), "MPI_Isend");
    notice.sent = true;
  }
}

void wake_others(const Comm& comm) {
  for (int rank = 1; rank < comm.size(); ++rank)
    check_mpi(MPI_Send(nullptr, 0, MPI_BYTE, rank, kWake, comm.handle()), "MPI_Send");
}

/// No notice may be left over for a later wait.
void collect_notices(const Comm& comm, Notice& notice) {
  const int sent = comm.sum(notice.sent ? 1 : 0);
  for (int i = 0; comm.root() && i < sent; ++i)
    check_mpi(MPI_Recv(nullptr, 0, MPI_BYTE, MPI_ANY_SOURCE, kNotice, comm.handle(), MPI_STATUS_IGNORE),
              "MPI_Recv");
  check_mpi(MPI_Wait(&notice.request, MPI_STATUS_IGNORE), "MPI_Wait");
}

}  // namespace

bool wait_idle(const Comm& comm, const std::function<bool()>& ready, const std::function<bool()>& asked) {
  std::optional<Error> failure;
  Notice notice;
  if (comm.root()) {
    try {
      wait_as_root(comm, ready, asked);
    } catch (...) {
      failure = to_error(std::current_exception());
    }
    wake_others(comm);
  } else {
    notice = wait_for_root(comm, asked);
  }
  collect_notices(comm, notice);
  agree(comm, failure);
  return comm.max(asked() ? 1 : 0) != 0;
}

}  // namespace relibra
