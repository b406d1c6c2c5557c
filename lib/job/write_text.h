#pragma once
// Small text files, such as JSON documents.
#include <string>

#include "io/pending_file.h"
#include "lib/comm/comm.h"

namespace relibra {

/// Collective. Rank 0's `text` becomes the file `path`, as a whole or not at all. Throws Fault::environment,
/// agreed.
void write_text(const Comm& comm, const std::string& path, const std::string& text,
                io::Durable durable = io::Durable::yes);

}  // namespace relibra
