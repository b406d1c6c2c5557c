#pragma once
// Messages between communicators' ranks: within the process by a table, between processes of an MPI job by
// MPI, where it is up. Nothing blocks.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cuda_double {

enum class Kind : std::int32_t { join = 0, members = 1, data = 2, leave = 3 };

struct Message {
  std::uint64_t communicator = 0;
  Kind kind = Kind::data;
  std::int32_t from = 0, to = 0;  ///< ranks of the communicator
  std::uint64_t number = 0;       ///< of its kind from `from` to `to`, from 0
  std::uint64_t order = 0;        ///< of the sender's call among all calls of its device
  std::int32_t device = 0;        ///< the sender's
  std::vector<std::byte> content;
};

/// This process among those of the job: 0 of 1 without MPI.
int process_index();

void post(int process, Message message);
/// The message, once; empty while it has not come.
std::optional<Message> take(std::uint64_t communicator, Kind kind, int from, int to, std::uint64_t number);
/// All messages of that kind that have come for the communicator.
std::vector<Message> take_all(std::uint64_t communicator, Kind kind);
/// Communicators that messages of this kind wait for.
std::vector<std::uint64_t> waiting(Kind kind);

/// Takes in what has arrived and lets go of what has left; true where something came.
bool pump();

/// Messages that came and nobody took, for texts; " no message waits" where there are none.
std::string waiting_messages_text();
void reset_wire();

}  // namespace cuda_double
