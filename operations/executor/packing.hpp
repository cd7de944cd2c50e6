// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/tensor.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace sluice::operations {

/// The copies between the operands of one launch and their packed copies. It holds no references:
/// the launch owns the memory of both.
class packing {
 public:
  /// Adds an operand that the launch uses with `access`. `packed` has no gaps, and `value` can be
  /// broadcast to its shape.
  /// @throws std::bad_alloc if there is no memory
  void add(const tensor& value, const tensor& packed, access_kind access);
  /// The most device commands that `enqueue` adds to those of the operation.
  [[nodiscard]] std::size_t commands() const noexcept { return commands_; }
  /// Enqueues the copies of what the launch reads, then the operation, then the copies of what it
  /// writes.
  template <class Operation>
  void enqueue(lane_libraries& libraries, const Operation& operation) const {
    bool has_begun = false;
    const auto step = [&](const auto& enqueue_step) {
      try {
        enqueue_step();
      } catch (const nothing_enqueued& e) {
        if (!has_begun) throw;
        throw error(e);  // earlier steps of the launch are on the stream
      }
      has_begun = true;
    };
    for (const auto& input : inputs_) step([&] { input.enqueue(libraries); });
    step(operation);
    for (const auto& output : outputs_) step([&] { output.enqueue(libraries); });
  }

 private:
  /// A `strided_copy` as a part of another launch.
  class copy {
   public:
    copy(const tensor& source, const tensor& target);
    void enqueue(lane_libraries& libraries) const;
    [[nodiscard]] std::size_t commands() const noexcept;

   private:
    call_storage call_;
    std::array<void*, 2> addresses_;
  };

  std::vector<copy> inputs_;
  std::vector<copy> outputs_;
  std::size_t commands_ = 0;
};

}  // namespace sluice::operations
