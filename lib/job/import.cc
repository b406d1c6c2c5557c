#include "lib/job/import.h"

#include "io/dump_file.h"
#include "lib/count/count.h"

namespace relibra {

CountedRouting import_npy(const Comm& comm, const io::NpyRouting& what, const std::string& path) {
  const auto source = io::open_npy(comm, what);
  CountedRouting counted = count_routing(comm, *source, {.max_missing = 1});
  io::write_dump(comm, *source, path, {});
  return counted;
}

}  // namespace relibra
