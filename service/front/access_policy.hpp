// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_tokens.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace sluice::service {

/// How a client has reached the server.
struct connection_origin {
  /// Whether nobody else can read what it sends: TLS, a Unix socket or a loopback address.
  bool is_private = false;
  /// Whether it uses a Unix socket, which the page of a browser cannot.
  bool is_unix = false;
  /// What it may do without a token, because the kernel has named its user.
  access_role role = access_role::none;
};

/// Decides what clients may do. All functions are thread-safe.
///
/// Without a token file clients may use models, and users that the kernel has named may do what
/// their role says. With one, all others need a token. A header that names a user is never
/// believed.
class access_policy {
 public:
  /// A policy without tokens.
  access_policy() = default;
  /// @throws std::runtime_error if the file cannot be read, is malformed, or others may write to it
  explicit access_policy(std::string token_file);

  /// Reads the token file again, for requests from now on.
  /// @throws std::runtime_error as the constructor; the tokens stay the same then
  void reload();

  /// The tenant of a request: the name of its token, or empty.
  /// @param authorization  the field of this name, or empty: "Bearer" and a token
  /// @throws request_error `unauthenticated` without a valid token, `permission_denied` if the role
  /// of the client is less than `needed`, or if others can read its token
  [[nodiscard]] std::string admit(std::string_view authorization, const connection_origin& origin,
                                  access_role needed) const;

 private:
  [[nodiscard]] std::shared_ptr<const access_tokens> tokens() const;

  const std::string token_file_{};
  mutable std::mutex mutex_{};
  std::shared_ptr<const access_tokens> tokens_{};  // guarded by mutex_; null without a file
};

}  // namespace sluice::service
