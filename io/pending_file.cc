#include "io/pending_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lib/comm/agree.h"

namespace relibra::io {
namespace {

constexpr const char* kSuffix = ".partial";

// One file at a time is pending in a process; a handler may read the name once the flag is up.
char pending_path[PATH_MAX];
std::atomic<bool> is_pending{false};

[[noreturn]] void throw_errno(const std::string& where, const char* what) {
  throw_environment({.where = where,
                     .found = std::string(what) + ": " + std::strerror(errno),
                     .advice = "look at free space, quota and permissions there"});
}

void sync_to_disk(const std::string& path, const std::string& shown) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw_errno(shown, "cannot open it to flush it");
  const int result = fsync(file);
  close(file);
  // Some file systems have nothing to flush for a folder and say so.
  if (result != 0 && errno != EINVAL) throw_errno(shown, "cannot flush it");
}

std::filesystem::path folder_of(const std::string& target) {
  const auto folder = std::filesystem::path(target).parent_path();
  return folder.empty() ? "." : folder;
}

void require_writable(const std::string& target) {
  const auto folder = folder_of(target);
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw_environment({.where = target,
                       .expected = "a folder " + folder.string() + " to write it into",
                       .found = "none",
                       .advice = "make it or choose another name"});
  if (std::filesystem::is_directory(target, ignored))
    throw_environment({.where = target, .expected = "the name of a file", .found = "a folder"});
  if (access(folder.c_str(), W_OK) != 0)
    throw_environment({.where = target, .expected = "a writable folder", .found = "no permission"});
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
}

bool is_running(long process) {
  return kill(static_cast<pid_t>(process), 0) == 0 || errno != ESRCH;
}

// The writer of ".TARGET.HOST.PROCESS.partial", for any target, or one; process 0 where the name is another.
Writer writer_of(const std::string& name, const std::string& prefix) {
  if (!name.starts_with(prefix) || !name.ends_with(kSuffix)) return {};
  const std::string stem = name.substr(0, name.size() - std::strlen(kSuffix));
  const std::size_t dot = stem.rfind('.');
  char* end = nullptr;
  const long process = std::strtol(stem.c_str() + dot + 1, &end, 10);
  return *end == '\0' ? Writer{stem.substr(0, dot), process} : Writer{};
}

template <class Gone>
void remove_files_of(const std::filesystem::path& folder, const std::string& prefix, Gone&& gone) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const Writer writer = writer_of(entry.path().filename().string(), prefix);
    if (writer.process > 0 && gone(writer)) std::filesystem::remove(entry.path(), ignored);
  }
}

}  // namespace

PendingFile::PendingFile(const Comm& comm, std::string target) : comm_(comm), target_(std::move(target)) {
  agreed(comm, [&] {
    if (!comm.root()) return;
    require_writable(target_);
    const auto folder = folder_of(target_);
    const std::string prefix =
        "." + std::filesystem::path(target_).filename().string() + "." + host_name() + ".";
    remove_files_of(folder, prefix, [](const Writer& writer) { return !is_running(writer.process); });
    path_ = (folder / (prefix + std::to_string(getpid()) + kSuffix)).string();
    if (path_.size() >= sizeof pending_path)
      throw_environment({.where = target_, .expected = "a shorter path", .found = "one over the limit"});
    std::strcpy(pending_path, path_.c_str());
    is_pending = true;
  });
  comm.broadcast(path_);
}

PendingFile::~PendingFile() {
  if (committed_) return;
  remove_pending_file_in_signal_handler();
  // Any rank may be the one that leaves alone, with the others about to be stopped.
  if (!path_.empty()) unlink(path_.c_str());
}

void PendingFile::commit(Durable durable) {
  agreed(comm_, [&] {
    if (!comm_.root()) return;
    if (durable == Durable::yes) sync_to_disk(path_, target_);
    if (std::rename(path_.c_str(), target_.c_str()) != 0) throw_errno(target_, "cannot rename to it");
    is_pending = false;
    if (durable == Durable::yes) sync_to_disk(folder_of(target_).string(), target_);
  });
  committed_ = true;
}

Writer this_writer() {
  return {host_name(), getpid()};
}

void remove_left_behind(const std::string& folder, const Writer& gone) {
  const std::string of_host = "." + host_name(), of_gone = "." + gone.host;
  remove_files_of(folder, ".", [&](const Writer& writer) {
    if (writer.process == gone.process && writer.host.ends_with(of_gone)) return true;
    return writer.host.ends_with(of_host) && !is_running(writer.process);
  });
}

void remove_pending_file_in_signal_handler() {
  if (is_pending.exchange(false)) unlink(pending_path);
}

}  // namespace relibra::io
