#include "lib/job/check_broken.h"

#include <cstring>

namespace relibra {

void BrokenRules::add(std::int64_t cell, const std::string& what) {
  ++count_;
  first_.emplace(cell, what);
  if (first_.size() > kShown) first_.erase(std::prev(first_.end()));
}

std::pair<std::int64_t, std::vector<std::string>> BrokenRules::gather(const Comm& comm) const {
  std::vector<std::int64_t> cells;
  std::vector<char> texts;
  for (const auto& [cell, text] : first_) {
    cells.push_back(cell);
    texts.insert(texts.end(), text.begin(), text.end());
    texts.push_back('\0');
  }
  cells = comm.gather_all(std::span<const std::int64_t>(cells));
  texts = comm.gather_all(std::span<const char>(texts));
  BrokenRules joined;
  const char* at = texts.data();
  for (std::int64_t cell : cells) {
    joined.add(cell, at);
    at += std::strlen(at) + 1;
  }
  std::vector<std::string> shown;
  for (const auto& [cell, text] : joined.first_) shown.push_back(text);
  return {comm.sum(count_), std::move(shown)};
}

}  // namespace relibra
