// SPDX-License-Identifier: Apache-2.0
#include "operations/program/member_copies.hpp"
#include "operations/program/member_kernels.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <algorithm>

namespace sluice::cuda {
namespace {

operations::member_addresses arguments(std::span<void* const> all) noexcept {
  operations::member_addresses made{};
  std::copy(all.begin(), all.end(), made.of);
  return made;
}

}  // namespace

void load_member_copies(lane_libraries& libraries) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::load_member_kernels()));
}

void gather_members(lane_libraries& libraries, std::span<void* const> from, void* to,
                    std::size_t bytes, std::size_t count) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::launch_gather(arguments(from), from.size(), to, bytes,
                                                           count, libraries.stream().native())));
}

void scatter_members(lane_libraries& libraries, const void* from, std::span<void* const> to,
                     std::size_t bytes) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::launch_scatter(from, arguments(to), to.size(), bytes,
                                                            libraries.stream().native())));
}

}  // namespace sluice::cuda
