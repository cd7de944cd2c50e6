// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/device_constant.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/lane_libraries.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace sluice::operations {

/// A large constant in host memory. All programs of the process with its memory share it if nobody
/// writes the elements any more. It owns the memory, so no address stands for others. Thread-safe.
class shared_constant {
 public:
  /// The smallest size, in bytes. Smaller constants lie together in one block of each program,
  /// because a block and a transfer for each would cost more than they save.
  static constexpr std::size_t min_bytes = std::size_t{16} << 10U;

  /// The constant of other programs with these `fixed_elements`, or a new one. Others are new.
  [[nodiscard]] static std::shared_ptr<const shared_constant> of(const host_tensor& elements);

  explicit shared_constant(host_tensor elements) noexcept : elements_(std::move(elements)) {}

  [[nodiscard]] const host_tensor& elements() const noexcept { return elements_; }

  /// What a caller knows about the copy on a device.
  enum class claim_result : std::uint8_t {
    exists,   ///< it is there
    claimed,  ///< the caller makes it, and then calls `publish` or `abandon`
    awaited,  ///< another thread makes it
  };
  /// Finds the copy on the device of a runtime, by the serial number of the runtime. Sets `copy` if
  /// it exists.
  [[nodiscard]] claim_result claim(std::uint32_t runtime,
                                   std::shared_ptr<const device_constant>& copy) const;
  /// Ends a claim: other threads find the copy.
  void publish(std::uint32_t runtime,
               const std::shared_ptr<const device_constant>& copy) const noexcept;
  /// Ends a claim: another thread may make the copy.
  void abandon(std::uint32_t runtime) const noexcept { publish(runtime, nullptr); }
  /// Waits until no thread makes the copy on the device of a runtime.
  void await_unclaimed(std::uint32_t runtime) const;

 private:
  struct device_entry {
    std::weak_ptr<const device_constant> copy{};
    bool is_claimed = false;
  };

  const host_tensor elements_;
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  mutable std::map<std::uint32_t, device_entry> devices_;  // by runtime
};

/// The copies of constants on the device of a lane. Those that are not there are made: memory for
/// all of them is reserved at once, and each is uploaded by one thread while others wait for it.
/// Waits for the device. Only the planner calls it.
/// @throws error as an allocation and a transfer; then no claim is left
[[nodiscard]] std::vector<std::shared_ptr<const device_constant>> upload_shared_constants(
    lane_libraries& libraries, std::span<const std::shared_ptr<const shared_constant>> constants);

}  // namespace sluice::operations
