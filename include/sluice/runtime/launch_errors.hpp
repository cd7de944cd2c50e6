// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/error_word.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace sluice::detail {

struct launch_errors;

/// The names of what an `error_word` refers to by number.
class SLUICE_EXPORT error_names {
 public:
  error_names() = default;
  error_names(const error_names&) = delete;
  error_names& operator=(const error_names&) = delete;
  virtual ~error_names() = default;
  /// The operand, and before it the step if there are several: "step 'rows': indices".
  [[nodiscard]] virtual std::string name(std::uint32_t step, std::uint32_t operand) const = 0;
};

/// The error word of one launch, until the launch has a ticket. From then on it belongs to the
/// timeline of the stream, which reads it when the ticket completes, and gives it back.
///
/// A launch that never gets a ticket gives it back, too: then nothing has been enqueued, or the
/// stream has passed what has been. After the loss of the device it stays with the runtime.
class SLUICE_EXPORT launch_errors_owner {
 public:
  launch_errors_owner() noexcept = default;
  /// Takes a word of the runtime. Allocates pinned memory only if all words are in use.
  /// @throws error `out_of_memory` if there is none; `device_lost`
  launch_errors_owner(device_runtime& runtime, std::shared_ptr<const error_names> names);
  launch_errors_owner(launch_errors_owner&& other) noexcept
      : errors_(std::exchange(other.errors_, nullptr)) {}
  launch_errors_owner& operator=(launch_errors_owner&& other) noexcept {
    std::swap(errors_, other.errors_);
    return *this;
  }
  ~launch_errors_owner() {
    if (errors_ != nullptr) give_back();
  }

  /// nullptr: the launch has no word.
  [[nodiscard]] launch_errors* get() const noexcept { return errors_; }
  [[nodiscard]] error_word* word() const noexcept;
  /// The timeline has taken over the word.
  void release() noexcept { errors_ = nullptr; }

 private:
  void give_back() noexcept;

  launch_errors* errors_ = nullptr;
};

}  // namespace sluice::detail
