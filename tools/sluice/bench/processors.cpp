// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/processors.hpp"

#include <atomic>
#include <sched.h>

namespace sluice::cli {
namespace {

std::atomic<bool> pins_clients{false};

cpu_set_t allowed_processors() noexcept {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  (void)::sched_getaffinity(0, sizeof allowed, &allowed);
  return allowed;
}

void run_on(const cpu_set_t& processors) noexcept {
  (void)::sched_setaffinity(0, sizeof processors, &processors);
}

}  // namespace

const std::vector<int>& processors_of_process() {
  static const auto all = [] {
    std::vector<int> found;
    const auto allowed = allowed_processors();
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &allowed)) found.push_back(i);
    }
    return found;
  }();
  return all;
}

void use_all_processors() noexcept {
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int i : processors_of_process()) CPU_SET(i, &all);
  run_on(all);
}

void pinned_client::enable() {
  (void)processors_of_process();
  pins_clients = true;
}

bool pinned_client::enabled() noexcept {
  return pins_clients;
}

pinned_client::pinned_client(std::size_t number) noexcept {
  if (!pins_clients) return;
  const auto& all = processors_of_process();
  if (all.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(all[all.size() - 1 - number % all.size()], &one);
  run_on(one);
}

pinned_client::~pinned_client() {
  if (pins_clients) use_all_processors();
}

}  // namespace sluice::cli
