// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/constant_copies.hpp"
#include "operations/program/folding.hpp"
#include "operations/program/shared_constant.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sluice::detail {
class program_graph;
}  // namespace sluice::detail

namespace sluice::operations {

/// Those constants of a program that lie in host memory, and the results of the steps that depend
/// on nothing else, on a device: each large constant in a block that programs may share, all others
/// in one block. Nobody writes them, so launches that own this object need not record them.
class uploaded_constants {
 public:
  /// Allocates the block of the program, brings the small constants there and computes the steps
  /// `folded`, as one launch on a stream that the lane keeps for this. Waits for the device.
  /// @param shared the shared constants of the program, in order
  /// @param spare_sizes see `planner_block`
  /// @throws error as an allocation, a transfer and a step
  uploaded_constants(const detail::program_graph& graph, const program_inference& inferred,
                     const folding& folded,
                     std::vector<std::shared_ptr<const device_constant>> shared,
                     lane_libraries& libraries, std::span<const std::size_t> spare_sizes);

  /// Where the memory of the constants is, by `constant_place::block`; nullptr for an empty one.
  [[nodiscard]] void* address(std::uint32_t block) const noexcept { return addresses_[block]; }
  /// The size of all of them, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept;
  /// The share of this program, in bytes, in the memory of the device that they take.
  [[nodiscard]] std::size_t share() const noexcept;
  /// The steps whose results are there.
  [[nodiscard]] const folding& folded() const noexcept { return folded_; }
  /// A copy of a constant in another order; nullptr if there is none.
  [[nodiscard]] std::shared_ptr<const constant_copy> find_copy(const constant_copy_key& key) const {
    return copies_.find(key);
  }
  /// A copy of a constant in another order; made if there is none, or nullptr as
  /// `constant_copies::copy` states.
  /// @throws error as `constant_copies::copy`
  [[nodiscard]] std::shared_ptr<const constant_copy> copy(lane_libraries& libraries,
                                                          constant_copy_request request) const;

 private:
  folding folded_;
  std::vector<std::shared_ptr<const device_constant>> shared_;
  block_ref block_;                    // empty if nothing lies there
  std::vector<std::byte*> addresses_;  // that of the block, then those of the shared constants
  mutable constant_copies copies_;
};

/// The copies of one program on all devices where an executable uses them. Thread-safe.
class constants_on_devices {
 public:
  /// The copies on the device of a runtime; nullptr if there are none.
  [[nodiscard]] std::shared_ptr<const uploaded_constants> find(device_runtime& runtime);
  /// The copies on the device of a lane, made if there are none, with the results of the steps
  /// `folded`. Without these if they cannot be computed now, for example because there is no memory
  /// for them beside `spare_sizes`: then each run computes the steps, and answers with what a step
  /// fails with.
  /// @throws error as an allocation and a transfer
  [[nodiscard]] std::shared_ptr<const uploaded_constants> upload(
      lane_libraries& libraries, const detail::program_graph& graph,
      const program_inference& inferred, const folding& folded,
      std::span<const std::size_t> spare_sizes);

 private:
  std::mutex mutex_;
  std::map<std::uint32_t, std::weak_ptr<const uploaded_constants>> constants_;  // by runtime
};

}  // namespace sluice::operations
