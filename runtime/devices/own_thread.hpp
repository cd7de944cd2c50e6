// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/user_code_scope.hpp>

namespace sluice::detail {

/// The context that the calling thread keeps current. A thread that sluice makes for one device
/// enters its context once and stays in it, so its calls need not query the driver.
struct own_thread {
  const void* context = nullptr;                            ///< null on threads of the program
  void (*restore)(const void* context) noexcept = nullptr;  ///< makes the context current again
  unsigned suspended = 0;  ///< open scopes of other contexts and of user code

  [[nodiscard]] static own_thread& here() noexcept;
};

}  // namespace sluice::detail
