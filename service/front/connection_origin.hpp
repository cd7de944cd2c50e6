// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/access_policy.hpp"

namespace sluice::service {

/// The origin of a connection that was accepted, as far as its socket tells. The users that may do
/// everything over a Unix socket are this one and root.
[[nodiscard]] connection_origin origin_of(int socket) noexcept;

}  // namespace sluice::service
