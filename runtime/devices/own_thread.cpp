// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/own_thread.hpp"

namespace sluice::detail {

own_thread& own_thread::here() noexcept {
  static constinit thread_local own_thread state;
  return state;
}

user_code_scope::user_code_scope() noexcept {
  ++own_thread::here().suspended;
}

user_code_scope::~user_code_scope() {
  auto& thread = own_thread::here();
  if (--thread.suspended == 0 && thread.context != nullptr) thread.restore(thread.context);
}

}  // namespace sluice::detail
