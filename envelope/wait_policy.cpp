// SPDX-License-Identifier: Apache-2.0
#include "runtime/seam.hpp"

#include <sluice/envelope/wait_policy.hpp>

#include <sched.h>
#include <thread>

namespace sluice::detail {
namespace {

std::size_t processors() noexcept {
  return static_cast<std::size_t>(host::host_threads::available_processors());
}

constexpr std::size_t fewest_processors = 4;  // on which threads spin without yielding
constexpr unsigned turns_between_yields = 32;

}  // namespace

void spin_turns::next() noexcept {
  static const bool yields = processors() < fewest_processors;
  if (yields || ++count_ % turns_between_yields == 0) {
    std::this_thread::yield();
  } else {
    spin_pause();
  }
}

spinners& spinners::of_process() noexcept {
  static spinners instance(processors() / fewest_processors);
  return instance;
}

}  // namespace sluice::detail
