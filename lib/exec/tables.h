#pragma once
// Index tables of a cell on the device: uploaded before the step, so that nothing is sent over during it.
#include <cstdint>

#include "lib/exec/device.h"
#include "lib/exec/schedule.h"

namespace relibra::exec {

/// Fields point into one buffer; names and shapes are those of SendList and ReceiveList.
struct CellTables {
  CellTables(const Stream& stream, const CellSchedule& cell);

  const std::int32_t* token = nullptr;
  const std::int32_t* return_offset = nullptr;
  const std::int32_t* return_row = nullptr;
  const std::int32_t* gate_index = nullptr;
  const std::int32_t* row = nullptr;
  const float* weight = nullptr;
  const std::int32_t* sum_offset = nullptr;
  const std::int32_t* sum = nullptr;

 private:
  Buffer buffer_;
};

}  // namespace relibra::exec
