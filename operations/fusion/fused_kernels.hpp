// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_map.hpp"

#include <sluice/operations/lane_libraries.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>

// Between programs and the kernels that are generated for them.
namespace sluice::cuda {

/// The kernel of a fused map on a GPU. It is made by another thread, and then loaded.
class fused_kernel {
 public:
  fused_kernel() = default;
  fused_kernel(const fused_kernel&) = delete;
  fused_kernel& operator=(const fused_kernel&) = delete;
  virtual ~fused_kernel() = default;

  /// Its size in host memory, without the code, which the process has once.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Whether it has been made, or will never be.
  [[nodiscard]] virtual bool is_settled() const noexcept = 0;
  /// Loads it on the device of a lane, once it is settled. Only the planner calls it.
  /// @throws error the reason why there is none
  virtual void load(lane_libraries& libraries) = 0;
  /// Enqueues it, once it is loaded. The addresses are those of the result and the inputs. The
  /// workspace has the size that the map states.
  /// @throws error `library_failure` if the driver refuses it
  virtual void enqueue(lane_libraries& libraries, std::span<void* const> addresses,
                       void* workspace) const = 0;
};

/// The kernel of a map for the device of a lane; its making begins, unless it is known.
[[nodiscard]] std::shared_ptr<fused_kernel> kernel_of(
    lane_libraries& libraries, std::shared_ptr<const operations::fused_map> map);

}  // namespace sluice::cuda
