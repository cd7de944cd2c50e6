// SPDX-License-Identifier: Apache-2.0
#include <sluice/envelope/wait_policy.hpp>

#include <sched.h>

namespace sluice::detail {
namespace {

/// The number of processors that the process may use.
std::size_t processors() noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) {
    return static_cast<std::size_t>(CPU_COUNT(&allowed));
  }
  return std::thread::hardware_concurrency();  // more processors than the set has
}

}  // namespace

spinners& spinners::of_process() noexcept {
  static spinners instance(processors() / 4);
  return instance;
}

}  // namespace sluice::detail
