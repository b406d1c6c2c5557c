#pragma once
// A file that appears under its name only when it is whole: written beside it under a temporary name, then
// renamed.
#include <string>

#include "lib/comm/comm.h"

namespace relibra::io {

/// Whether a file must outlive a crash of the machine, which costs a flush, or only one of the program.
enum class Durable { yes, no };

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
  void commit(Durable durable = Durable::yes);

 private:
  const Comm& comm_;
  std::string target_, path_;
  bool committed_ = false;
};

/// A process that wrote into a folder.
struct Writer {
  std::string host;
  long process = 0;
};
/// Local: the writer that this process is.
Writer this_writer();

/// Local: removes the temporary files in `folder`, of any target, that processes of this host left behind
/// that are no more, and those of `gone`, a process of any host that the caller knows to be no more.
void remove_left_behind(const std::string& folder, const Writer& gone);

/// Local, safe in a signal handler: removes the temporary file that this process is responsible for, if any.
void remove_pending_file_in_signal_handler();

}  // namespace relibra::io
