// SPDX-License-Identifier: Apache-2.0
#include "operations/core/member_copies.hpp"
#include "operations/core/member_kernels.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device_runtime.hpp>

namespace sluice::cuda {
namespace {

operations::member_rows arguments(std::span<const member_row> all) noexcept {
  operations::member_rows members{};
  for (const auto& one : all) {
    members.addresses[members.count] = one.address;
    members.row_bytes[members.count++] = static_cast<unsigned>(one.bytes);
  }
  return members;
}

operations::place_shape shape_of(const member_places& places) noexcept {
  return {places.count, places.rows, places.row_bytes, places.place_stride(), places.row_stride()};
}

}  // namespace

void load_member_copies(lane_libraries& libraries) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::load_member_kernels()));
}

void gather_members(lane_libraries& libraries, std::span<const member_row> sources,
                    void* destination, const member_places& places) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::launch_gather(
      arguments(sources), destination, shape_of(places), libraries.stream().native())));
}

void scatter_members(lane_libraries& libraries, const void* source,
                     std::span<const member_row> destinations, const member_places& places) {
  const current_device_scope current(libraries.runtime().device());
  check(static_cast<cudaError_t>(operations::launch_scatter(
      source, arguments(destinations), shape_of(places), libraries.stream().native())));
}

}  // namespace sluice::cuda
