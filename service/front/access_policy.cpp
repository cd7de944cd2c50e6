// SPDX-License-Identifier: Apache-2.0
#include "service/front/access_policy.hpp"

#include "service/front/ascii_case.hpp"
#include "service/front/protected_file.hpp"
#include "service/protocol/request_error.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sluice::service {
namespace {

/// The token of a field Authorization.
/// @throws request_error `unauthenticated` if it has none
[[nodiscard]] std::string_view token_of(std::string_view authorization) {
  constexpr std::string_view scheme = "Bearer ";
  if (authorization.size() > scheme.size() &&
      equals_ignoring_case(authorization.substr(0, scheme.size()), scheme)) {
    authorization.remove_prefix(
        std::min(authorization.find_first_not_of(' ', scheme.size()), authorization.size()));
    if (!authorization.empty()) return authorization;
  }
  throw request_error(request_status::unauthenticated, "Authorization is not Bearer with a token");
}

}  // namespace

access_policy::access_policy(std::string token_file) : token_file_(std::move(token_file)) {
  reload();
}

void access_policy::reload() {
  if (token_file_.empty()) return;
  const auto text = read_protected_file(token_file_, file_readers::everybody);
  std::shared_ptr<const access_tokens> tokens;
  try {
    tokens = std::make_shared<const access_tokens>(access_tokens::parse(text));
  } catch (const std::runtime_error& e) {
    throw std::runtime_error(token_file_ + ": " + e.what());
  }
  const std::lock_guard lock(mutex_);
  tokens_ = std::move(tokens);
}

std::shared_ptr<const access_tokens> access_policy::tokens() const {
  const std::lock_guard lock(mutex_);
  return tokens_;
}

std::string access_policy::admit(std::string_view authorization, const connection_origin& origin,
                                 access_role needed) const {
  const auto known = token_file_.empty() ? nullptr : tokens();
  if (!known) {
    if (needed <= std::max(origin.role, access_role::infer)) return {};
    throw request_error(request_status::permission_denied,
                        "the request needs the Unix socket of the server, or a token: the server "
                        "has no token file");
  }
  if (authorization.empty()) {
    if (needed <= std::max(origin.role, known->anonymous_role())) return {};
    throw request_error(request_status::unauthenticated, "the request needs a token");
  }
  if (!origin.is_private) {
    throw request_error(request_status::permission_denied,
                        "a token is accepted only over TLS, a Unix socket or a loopback address");
  }
  auto holder = known->find(token_of(authorization));
  if (!holder) throw request_error(request_status::unauthenticated, "the token is not valid");
  if (needed > std::max(origin.role, holder->role)) {
    throw request_error(request_status::permission_denied, "the request needs the role admin");
  }
  return std::move(holder->name);
}

}  // namespace sluice::service
