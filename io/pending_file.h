#pragma once
// A file that appears under its name only when it is whole: written beside it under a temporary name, then
// renamed.
#include <string>

#include "lib/comm/comm.h"

namespace relibra::io {

/// The temporary file starts with a dot and ends in ".partial", so that nobody who looks for "*.h5" sees it:
/// "out/step7.plan.h5" is written as "out/.step7.plan.h5.HOST.4711.partial", 4711 being the process. What a
/// killed process of this host left behind under the same name is removed.
class PendingFile {
 public:
  /// Collective. Throws Fault::environment, agreed, where the folder cannot be written to.
  PendingFile(const Comm& comm, std::string target);
  /// Removes the temporary file unless commit() has been reached.
  ~PendingFile();
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  const std::string& path() const { return path_; }      ///< where to write
  const std::string& target() const { return target_; }  ///< where it will be

  /// Collective. The file must be closed on all ranks. Flushes it and its folder to the disk and renames it.
  void commit();

 private:
  const Comm& comm_;
  std::string target_, path_;
  bool committed_ = false;
};

/// Local, safe in a signal handler: removes the temporary file that this process is responsible for, if any.
void remove_pending_file_in_signal_handler();

}  // namespace relibra::io
