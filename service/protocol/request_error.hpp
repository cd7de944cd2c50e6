// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace sluice::service {

/// Why a request has no result. Each status has a code of HTTP and one of gRPC.
enum class request_status : std::uint8_t {
  invalid_argument,    ///< 400, INVALID_ARGUMENT: the request contradicts itself or the model
  unauthenticated,     ///< 401, UNAUTHENTICATED: a token is missing or unknown
  permission_denied,   ///< 403, PERMISSION_DENIED: the client must not ask for this
  not_found,           ///< 404, NOT_FOUND: no such model, version or path
  aborted,             ///< 409, ABORTED: its sequence is lost or busy; begin the sequence again
  too_large,           ///< 413, RESOURCE_EXHAUSTED: no retry of this request can succeed
  resource_exhausted,  ///< 429, RESOURCE_EXHAUSTED: a limit is reached now; retry later
  cancelled,           ///< 499, CANCELLED: the client has hung up
  internal,            ///< 500, INTERNAL: a fault of the service
  unimplemented,       ///< 501, UNIMPLEMENTED: no such extension
  unavailable,         ///< 503, UNAVAILABLE: no worker or no model can answer now; retry later
  deadline_exceeded,   ///< 504, DEADLINE_EXCEEDED: the deadline passed before the result was there
};

/// The status code of HTTP.
[[nodiscard]] unsigned http_status(request_status status) noexcept;

/// Why a request has no result, in one sentence for the client.
class request_error : public std::runtime_error {
 public:
  request_error(request_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  [[nodiscard]] request_status status() const noexcept { return status_; }

 private:
  request_status status_;
};

}  // namespace sluice::service
