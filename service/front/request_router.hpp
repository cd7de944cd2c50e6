// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_reply.hpp"
#include "service/front/routes.hpp"

#include <string_view>

namespace sluice::service {

/// The paths that a server has, and its answers to requests without a body. Threads of the server
/// call the functions at the same time.
class request_router {
 public:
  request_router() = default;
  request_router(const request_router&) = delete;
  request_router& operator=(const request_router&) = delete;
  virtual ~request_router() = default;

  /// The route of a path. That of `endpoint::infer` is answered by the backend.
  /// @throws http_error 404 if there is no such path, 400 if it is malformed
  [[nodiscard]] virtual route find(std::string_view path) const = 0;
  /// Answers a request for any other endpoint.
  /// @throws request_error, which becomes the answer
  [[nodiscard]] virtual http_reply answer(const route& query) const = 0;
};

}  // namespace sluice::service
