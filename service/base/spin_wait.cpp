// SPDX-License-Identifier: Apache-2.0
#include "service/base/spin_wait.hpp"

#include <thread>

namespace sluice::service {

spin_limit& spin_limit::of_process() noexcept {
  static spin_limit instance(std::thread::hardware_concurrency() / 4);
  return instance;
}

void spin_wait::pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#else
  std::this_thread::yield();
#endif
}

}  // namespace sluice::service
