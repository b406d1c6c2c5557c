#pragma once
// Lines for people, put together.
#include <cstdio>
#include <string>

namespace relibra {

/// printf into a string of at most a line or two (511 letters; what is beyond is cut off). Example:
/// text("%d of %d", 3, 4) = "3 of 4".
template <class... Values>
std::string text(const char* format, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, format, values...);
  return line;
}

}  // namespace relibra
