// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/processors.hpp"

#include <sched.h>

namespace sluice::cli {

std::vector<int> processors_of_process() {
  // As of the first call, before a thread is pinned.
  static const auto all = [] {
    std::vector<int> found;
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &allowed)) found.push_back(i);
    }
    return found;
  }();
  return all;
}

}  // namespace sluice::cli
