#include "lib/job/watch_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "lib/base/error.h"
#include "lib/base/timer.h"

namespace relibra {

WatchLock::WatchLock(const std::string& folder, double patience, const std::function<std::string()>& holder)
    : folder_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const Timer waited;
  while (folder_ >= 0 && flock(folder_, LOCK_EX | LOCK_NB) != 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
    if (waited.seconds() < patience) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    const std::string who = holder();
    close(folder_);
    throw Error(Fault::usage, {.where = folder,
                               .expected = "no other watcher for this folder of plans",
                               .found = "another watcher at work" + who,
                               .advice = "end that one first, or choose another folder by --out"});
  }
}

WatchLock::~WatchLock() {
  if (folder_ >= 0) close(folder_);
}

}  // namespace relibra
