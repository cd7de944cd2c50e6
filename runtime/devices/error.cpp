// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime/error.hpp>

#include <exception>
#include <new>

namespace sluice {
namespace {

// Constructed in advance: a copy of it allocates nothing.
const error& no_memory = *new error(errc::out_of_memory, "out of host memory");  // never destroyed

}  // namespace

std::string_view to_string(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return "invalid_argument";
    case errc::stale_ref:
      return "stale_ref";
    case errc::stream_misuse:
      return "stream_misuse";
    case errc::out_of_memory:
      return "out_of_memory";
    case errc::over_budget:
      return "over_budget";
    case errc::unsupported:
      return "unsupported";
    case errc::library_failure:
      return "library_failure";
    case errc::upstream_failed:
      return "upstream_failed";
    case errc::cancelled:
      return "cancelled";
    case errc::overloaded:
      return "overloaded";
    case errc::shutting_down:
      return "shutting_down";
    case errc::device_lost:
      return "device_lost";
    case errc::deadline_exceeded:
      return "deadline_exceeded";
  }
  return "unknown";
}

error invalid_argument(std::string_view name, const std::string& message,
                       const source_location& location) {
  return {errc::invalid_argument, std::string(name) + ": " + message, {}, location};
}

error current_error() noexcept {
  try {
    try {
      throw;
    } catch (const error& e) {
      return e;
    } catch (const std::bad_alloc&) {
      return no_memory;
    } catch (const std::exception& e) {
      return {errc::library_failure, e.what()};
    } catch (...) {
      return {errc::library_failure, "an exception that is not a std::exception"};
    }
  } catch (...) {
    return no_memory;  // for the text
  }
}

}  // namespace sluice
