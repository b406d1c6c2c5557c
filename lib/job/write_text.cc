#include "lib/job/write_text.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include "lib/comm/agree.h"

namespace relibra {

void write_text(const Comm& comm, const std::string& path, const std::string& text, io::Durable durable) {
  io::PendingFile pending(comm, path);
  agreed(comm, [&] {
    if (!comm.root()) return;
    std::ofstream file(pending.path(), std::ios::binary);
    file << text;
    file.close();
    if (!file) throw_environment({.where = path, .expected = "room to write", .found = std::strerror(errno)});
  });
  pending.commit(durable);
}

}  // namespace relibra
