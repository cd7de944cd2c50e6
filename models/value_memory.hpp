// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/model_cost.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace sluice::models {

/// The memory of the values of a program, and the steps between which each is needed. Values have
/// the numbers of the program.
class value_memory {
 public:
  void add_constant(const host_tensor& elements);
  /// A result of the newest step, of so many bytes.
  void add_result(std::uint32_t value, std::size_t bytes);
  /// The next step, which reads these values. Views count as what they are views of.
  void add_step(std::span<const std::uint32_t> values);

  /// Sets the bytes of a cost. The outputs of the program are results.
  void count(std::span<const std::uint32_t> outputs, model_cost& cost) const;

 private:
  /// A result of a step.
  struct block {
    std::size_t bytes = 0;
    std::size_t first = 0;  ///< the step
    std::size_t last = 0;   ///< the last step that reads it, or `first`
  };

  std::size_t steps_ = 0;
  std::vector<block> blocks_;
  std::unordered_map<std::uint32_t, std::size_t> blocks_of_values_;
  std::unordered_set<const void*> constants_;
  double constant_bytes_ = 0;  // a number that cannot overflow
};

}  // namespace sluice::models
