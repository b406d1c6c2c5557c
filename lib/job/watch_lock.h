#pragma once
// One watcher at a time for a folder of plans.
#include <functional>
#include <string>

namespace relibra {

/// Local: a hold on a folder that ends with the process, however that ends; no file is left. It is a lock of
/// the folder itself (flock), which all processes of a machine see. A file system that locks no folders, as
/// NFS, gives none: then nothing is held.
class WatchLock {
 public:
  /// Waits `patience` seconds for a watcher that is about to end. Throws Fault::usage naming the folder and
  /// what `holder` then says of who has it, where it is held after that.
  WatchLock(const std::string& folder, double patience, const std::function<std::string()>& holder);
  ~WatchLock();
  WatchLock(const WatchLock&) = delete;
  WatchLock& operator=(const WatchLock&) = delete;

 private:
  int folder_ = -1;
};

}  // namespace relibra
