// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/request_error.hpp"

namespace sluice::service {

unsigned http_status(request_status status) noexcept {
  switch (status) {
    case request_status::invalid_argument:
      return 400;
    case request_status::unauthenticated:
      return 401;
    case request_status::permission_denied:
      return 403;
    case request_status::not_found:
      return 404;
    case request_status::aborted:
      return 409;
    case request_status::too_large:
      return 413;
    case request_status::resource_exhausted:
      return 429;
    case request_status::cancelled:
      return 499;
    case request_status::internal:
      return 500;
    case request_status::unimplemented:
      return 501;
    case request_status::unavailable:
      return 503;
    case request_status::deadline_exceeded:
      return 504;
  }
  return 500;
}

}  // namespace sluice::service
