#pragma once
// Where the shared data lies that is no part of the project: $RELIBRA_SHARED, else `shared` beside the
// checkout (whose path the test suite passes as $SOURCE). Tests that use it skip aloud where it is absent.
#include <cstdlib>
#include <filesystem>

namespace relibra::test {

inline std::filesystem::path shared_folder() {
  if (const char* shared = std::getenv("RELIBRA_SHARED")) return shared;
  const char* source = std::getenv("SOURCE");
  return std::filesystem::path(source ? source : ".") / ".." / "shared";
}

}  // namespace relibra::test
