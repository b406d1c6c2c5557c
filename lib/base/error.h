#pragma once
// Errors of the whole program: typed, and saying where, what was expected, what was found, what to do next.
#include <exception>
#include <stdexcept>
#include <string>

namespace relibra {

/// Whose fault it is; the value is the exit status of the program.
enum class Fault : int {
  check = 1,        ///< a check or a verification failed
  usage = 2,        ///< an option or a combination of options
  input = 3,        ///< a file or its content
  environment = 4,  ///< MPI, CUDA, disk, memory
};

/// The parts of a message. `where` is a file, a dataset in a file ("a.h5:/experts") or an option
/// ("--ep-size"). Empty parts are left out of the text: "WHERE: expected EXPECTED, found FOUND; ADVICE".
struct ErrorText {
  std::string where = {};
  std::string expected = {};
  std::string found = {};
  std::string advice = {};
};

/// The one exception type of the project. Nothing below `apps` prints it, exits or aborts.
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const ErrorText& text);
  /// An error whose whole text is `message`.
  static Error with_message(Fault fault, const std::string& message) { return Error(message, fault); }

  Fault fault() const { return fault_; }
  int exit_status() const { return static_cast<int>(fault_); }

  /// True once all ranks of the communicator have thrown this same error together (see comm/agree.h), so that
  /// every rank may unwind and leave; otherwise the driver has to abort the others.
  bool agreed() const { return agreed_; }
  Error as_agreed() const;

 private:
  Error(const std::string& message, Fault fault) : std::runtime_error(message), fault_(fault) {}
  Fault fault_;
  bool agreed_ = false;
};

[[noreturn]] void throw_usage(const ErrorText& text);
[[noreturn]] void throw_input(const ErrorText& text);
[[noreturn]] void throw_environment(const ErrorText& text);

/// Any exception as an Error: an Error as it is, bad_alloc and the rest as Fault::environment with their
/// text.
Error to_error(const std::exception_ptr& thrown);

}  // namespace relibra
