#pragma once
// Rows of one dump file, piece by piece, in the element type that the source promises.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/hdf5.h"
#include "io/shard.h"

namespace relibra::io {

/// Pieces to read for `ranges` (of one file) when a block is to hold about `block_bytes`: at most that many
/// rows, but where rows pass through filters whole chunks, however large, so that none is decoded twice (HDF5
/// holds a whole one in memory anyway).
/// Example: chunks of 4 rows, blocks of 10 rows: [3, 21) is read as [3, 8) [8, 16) [16, 21).
std::vector<Range> pieces_to_read(std::span<const Range> ranges, const RoutingHeader& header,
                                  const RowStorage& storage, std::size_t block_bytes);

class RowReader {
 public:
  /// Local where `file` was opened so; else collective, and so is read() if `transfer` is. With independent
  /// transfer read() is always local.
  RowReader(h5::File file, const RoutingHeader& header, const RowStorage& storage, bool with_weights,
            h5::Transfer transfer);

  /// Local. Memory for pieces of so many rows, so that read() does not fail between two transfers.
  void reserve(std::int64_t rows);

  /// Reads rows of the file. Empty ranges take part in the transfer. Throws Fault::input, not agreed, and
  /// only after all transfers of the call.
  void read(Range rows);

  /// Calls `take` with the rows just read, in blocks of at most `most` rows; `file_start` is the joined
  /// dump's number of the file's first row.
  void hand_out(std::int64_t most, std::int64_t file_start, const RoutingSource::BlockFn& take) const;

  std::int64_t bytes_of(Range rows) const;  ///< ids and weights in memory
  const h5::Transfer& transfer() const { return transfer_; }

 private:
  void narrow(Range rows);
  std::size_t values_of(std::int64_t rows) const { return static_cast<std::size_t>(rows) * row_values_; }

  h5::File file_;
  h5::Dataset ids_file_;
  std::vector<h5::Dataset> weights_file_;  // none or one
  h5::Transfer transfer_;
  RowStorage storage_;
  std::int64_t missing_id_;
  std::size_t row_values_;  // L*K
  int top_k_;
  Range rows_;
  std::vector<std::byte> ids_;
  std::vector<std::int64_t> wide_;
  std::vector<float> weights_;
};

}  // namespace relibra::io
