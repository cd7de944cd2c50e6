// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

namespace sluice::detail {

/// Marks code of the program on the calling thread: a hook, a reply, or a destructor.
///
/// Such code may change the thread's current device. A thread of sluice normally relies on its
/// current device. Within the scope it queries the driver in every call, and at the end it restores
/// its device. Scopes may be nested.
class SLUICE_EXPORT user_code_scope {
 public:
  user_code_scope() noexcept;
  user_code_scope(const user_code_scope&) = delete;
  user_code_scope& operator=(const user_code_scope&) = delete;
  ~user_code_scope();
};

}  // namespace sluice::detail
