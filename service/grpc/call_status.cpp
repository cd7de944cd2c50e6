// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/call_status.hpp"

#include "service/arena/utf8_text.hpp"

#include <cstddef>
#include <new>
#include <string>
#include <string_view>

namespace sluice::service {
namespace {

// Clients refuse metadata of more than 8 KiB, in which a byte may become three.
constexpr std::size_t most_text_bytes_of_status = 2000;

}  // namespace

grpc::StatusCode grpc_status(request_status status) noexcept {
  switch (status) {
    case request_status::invalid_argument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case request_status::unauthenticated:
      return grpc::StatusCode::UNAUTHENTICATED;
    case request_status::permission_denied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case request_status::not_found:
      return grpc::StatusCode::NOT_FOUND;
    case request_status::aborted:
      return grpc::StatusCode::ABORTED;
    case request_status::too_large:
    case request_status::resource_exhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case request_status::cancelled:
      return grpc::StatusCode::CANCELLED;
    case request_status::internal:
      return grpc::StatusCode::INTERNAL;
    case request_status::unimplemented:
      return grpc::StatusCode::UNIMPLEMENTED;
    case request_status::unavailable:
      return grpc::StatusCode::UNAVAILABLE;
    case request_status::deadline_exceeded:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
  }
  return grpc::StatusCode::INTERNAL;
}

request_error error_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const request_error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return {request_status::unavailable, "the server is out of memory"};
  } catch (...) {
    return {request_status::internal, "the server failed"};
  }
}

grpc::Status failed_status(const request_error& error, grpc::CallbackServerContext& call) {
  if (error.status() == request_status::resource_exhausted ||
      error.status() == request_status::unavailable) {
    call.AddTrailingMetadata("grpc-retry-pushback-ms", "1000");
  }
  const std::string_view text = error.what();
  return {grpc_status(error.status()), valid_utf8(text.substr(0, most_text_bytes_of_status))};
}

}  // namespace sluice::service
