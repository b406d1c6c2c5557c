#include "lib/base/error.h"

#include <new>

namespace relibra {
namespace {

std::string compose(const ErrorText& text) {
  std::string message = text.where;
  const auto add = [&](const char* separator, const char* label, const std::string& part) {
    if (part.empty()) return;
    if (!message.empty()) message += separator;
    message += label + part;
  };
  add(": ", "expected ", text.expected);
  add(text.expected.empty() ? ": " : ", ", "found ", text.found);
  add("; ", "", text.advice);
  return message;
}

}  // namespace

Error::Error(Fault fault, const ErrorText& text) : std::runtime_error(compose(text)), fault_(fault) {}

Error Error::as_agreed() const {
  Error copy = *this;
  copy.agreed_ = true;
  return copy;
}

void throw_usage(const ErrorText& text) {
  throw Error(Fault::usage, text);
}
void throw_input(const ErrorText& text) {
  throw Error(Fault::input, text);
}
void throw_environment(const ErrorText& text) {
  throw Error(Fault::environment, text);
}

Error to_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error::with_message(Fault::environment,
                               "out of memory; use more ranks or nodes, or a smaller dump");
  } catch (const std::exception& error) {
    return Error::with_message(Fault::environment, std::string("unexpected error: ") + error.what());
  } catch (...) {
    return Error::with_message(Fault::environment, std::string("unexpected error of unknown type"));
  }
}

}  // namespace relibra
