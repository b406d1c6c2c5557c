#include "lib/exec/tables.h"

#include <bit>
#include <utility>
#include <vector>

namespace relibra::exec {

CellTables::CellTables(const Stream& stream, const CellSchedule& cell) {
  std::vector<std::int32_t> joined;
  std::vector<std::pair<const std::int32_t**, std::size_t>> fields;
  const auto add = [&](const std::int32_t*& field, const std::vector<std::int32_t>& values) {
    fields.emplace_back(&field, joined.size());
    joined.insert(joined.end(), values.begin(), values.end());
  };
  add(token, cell.send.token);
  add(return_offset, cell.send.return_offset);
  add(return_row, cell.send.return_row);
  add(gate_index, cell.send.gate_index);
  add(row, cell.receive.row);
  add(sum_offset, cell.receive.sum_offset);
  add(sum, cell.receive.sum);
  const std::size_t weights = joined.size();
  for (const float w : cell.receive.weight) joined.push_back(std::bit_cast<std::int32_t>(w));
  buffer_ = upload(stream, std::span<const std::int32_t>(joined));
  for (const auto& [field, at] : fields) *field = buffer_.as<std::int32_t>() + at;
  weight = reinterpret_cast<const float*>(buffer_.as<std::int32_t>() + weights);
}

}  // namespace relibra::exec
