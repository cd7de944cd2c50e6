// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/runtime/gpu_ref.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::operations {

/// A prepacked copy of a constant; see `prepacked_layout`. Nobody writes it, so launches that own
/// this object need not record it.
class prepacked_constant {
 public:
  explicit prepacked_constant(block_ref block) noexcept : block_(std::move(block)) {}

  [[nodiscard]] void* address() const noexcept { return block_.address(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return block_.bytes(); }

 private:
  block_ref block_;
};

/// An operand of a step that is a constant, and its layout.
struct prepacking_request {
  const operation_descriptor& descriptor;
  const call_storage& call;
  std::shared_ptr<const operation_plan> plan{};  ///< nullptr if the operation makes none
  std::size_t number = 0;                        ///< of the operand
  prepacked_layout layout{};
  std::size_t spare_bytes = 0;  ///< that the memory budget must have beside the copy
};

/// The prepacked copies of the constants of one program on one device that executables use.
/// Thread-safe.
class prepacked_constants {
 public:
  /// The copy of the constant that begins `offset` bytes behind the first of `constants`; made if
  /// there is none.
  /// @throws error as `written_block`
  [[nodiscard]] std::shared_ptr<const prepacked_constant> copy(lane_libraries& libraries,
                                                               const prepacking_request& request,
                                                               const block_ref& constants,
                                                               std::size_t offset);

 private:
  using key = std::pair<std::size_t, std::string>;  // the offset and the identity

  [[nodiscard]] std::shared_ptr<const prepacked_constant> find(const key& name);

  std::mutex mutex_;
  std::map<key, std::weak_ptr<const prepacked_constant>> copies_;
};

}  // namespace sluice::operations
