// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice::detail {

/// While it lives, the calling thread runs code of users: a trace's hook, a reply, a destructor of
/// what they handed over. That code may change the thread's current device. A thread of sluice's
/// own, which otherwise relies on its device being current, asks the driver in every call inside,
/// and restores its device at the end. They nest.
class user_code_scope {
 public:
  user_code_scope() noexcept;
  user_code_scope(const user_code_scope&) = delete;
  user_code_scope& operator=(const user_code_scope&) = delete;
  ~user_code_scope();
};

}  // namespace sluice::detail
