#include "tests/support/cuda_double/wire.h"

#include <mpi.h>

#include <cstring>
#include <list>
#include <map>
#include <tuple>

namespace cuda_double {
namespace {

constexpr int kTag = 29753;  // of all messages of the double, in MPI_COMM_WORLD

using Key = std::tuple<std::uint64_t, Kind, std::int32_t, std::int32_t, std::uint64_t>;

struct Header {
  std::uint64_t communicator, number, order;
  Kind kind;
  std::int32_t from, to, device;
};

struct Leaving {
  std::vector<std::byte> bytes;
  MPI_Request request;
};

std::multimap<Key, Message>& arrived() {
  static auto* table = new std::multimap<Key, Message>;
  return *table;
}

std::list<Leaving>& leaving() {
  static auto* list = new std::list<Leaving>;
  return *list;
}

bool mpi_is_up() {
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun && !ended;
}

void deliver(Message message) {
  const Key key{message.communicator, message.kind, message.from, message.to, message.number};
  arrived().emplace(key, std::move(message));
}

void receive_one(const MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  std::vector<std::byte> buffer(static_cast<std::size_t>(bytes));
  MPI_Recv(buffer.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kTag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Header header{};
  std::memcpy(&header, buffer.data(), sizeof header);
  buffer.erase(buffer.begin(), buffer.begin() + sizeof header);
  deliver({header.communicator, header.kind, header.from, header.to, header.number, header.order,
           header.device, std::move(buffer)});
}

}  // namespace

int process_index() {
  int rank = 0;
  if (mpi_is_up()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

void post(int process, Message message) {
  if (process == process_index()) {
    deliver(std::move(message));
    return;
  }
  const Header header{message.communicator, message.number, message.order, message.kind,
                      message.from,         message.to,     message.device};
  Leaving& sent = leaving().emplace_back();
  sent.bytes.resize(sizeof header + message.content.size());
  std::memcpy(sent.bytes.data(), &header, sizeof header);
  if (!message.content.empty())
    std::memcpy(sent.bytes.data() + sizeof header, message.content.data(), message.content.size());
  MPI_Isend(sent.bytes.data(), static_cast<int>(sent.bytes.size()), MPI_BYTE, process, kTag, MPI_COMM_WORLD,
            &sent.request);
}

std::optional<Message> take(std::uint64_t communicator, Kind kind, int from, int to, std::uint64_t number) {
  const auto it = arrived().find({communicator, kind, from, to, number});
  if (it == arrived().end()) return std::nullopt;
  Message message = std::move(it->second);
  arrived().erase(it);
  return message;
}

std::vector<Message> take_all(std::uint64_t communicator, Kind kind) {
  std::vector<Message> found;
  for (auto it = arrived().begin(); it != arrived().end();) {
    if (it->second.communicator == communicator && it->second.kind == kind) {
      found.push_back(std::move(it->second));
      it = arrived().erase(it);
    } else {
      ++it;
    }
  }
  return found;
}

std::vector<std::uint64_t> waiting(Kind kind) {
  std::vector<std::uint64_t> found;
  for (const auto& [key, message] : arrived())
    if (message.kind == kind && (found.empty() || found.back() != message.communicator))
      found.push_back(message.communicator);
  return found;
}

bool pump() {
  if (!mpi_is_up()) return false;
  bool came = false;
  int flag = 0;
  MPI_Status status;
  for (;;) {
    MPI_Iprobe(MPI_ANY_SOURCE, kTag, MPI_COMM_WORLD, &flag, &status);
    if (!flag) break;
    receive_one(status);
    came = true;
  }
  std::erase_if(leaving(), [](Leaving& sent) {
    int done = 0;
    MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE);
    return done != 0;
  });
  return came;
}

std::string waiting_messages_text() {
  if (arrived().empty()) return " no message waits";
  const Message& first = arrived().begin()->second;
  return " " + std::to_string(arrived().size()) + " messages wait, the first from rank " +
         std::to_string(first.from) + " to rank " + std::to_string(first.to);
}

void reset_wire() {
  arrived().clear();
}

}  // namespace cuda_double
