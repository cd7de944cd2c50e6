// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/user_code_scope.hpp>

namespace sluice::detail {

/// What the calling thread knows of the context that is current in it. A thread of sluice's own
/// enters the context of the one device that it serves and stays there, so that its calls need not
/// ask the driver.
struct own_thread {
  const void* context = nullptr;  ///< entered for the thread's life; null on threads of users
  void (*restore)(const void* context) noexcept = nullptr;  ///< makes it current again
  unsigned suspended = 0;  ///< scopes of other contexts and of user code that are open

  [[nodiscard]] static own_thread& here() noexcept;
};

}  // namespace sluice::detail
