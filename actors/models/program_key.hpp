// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <vector>

namespace sluice::detail {

/// The inputs that a program of a model is made for: the type and the shape of each, and the
/// elements of those that are bound by value.
class program_key {
 public:
  struct input {
    element_type type{};
    extents shape{};
    host_tensor value{};  ///< no tensor: the input is not bound
  };

  /// The key of inputs that are not bound, in the order of the model.
  /// @throws std::bad_alloc if there is no memory
  explicit program_key(const std::vector<run_input>& inputs);

  [[nodiscard]] const std::vector<input>& inputs() const noexcept { return inputs_; }
  /// The size of all values, in bytes.
  [[nodiscard]] std::size_t bound_bytes() const noexcept;
  /// Binds an input to the elements of `value`, which the key shares.
  void bind(std::size_t number, const host_tensor& value);
  /// The same key with values of its own.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] program_key copy() const;
  [[nodiscard]] std::size_t hash() const noexcept { return hash_; }
  /// Whether both are for the same types, shapes and values.
  [[nodiscard]] bool operator==(const program_key& other) const noexcept;

 private:
  void update_hash() noexcept;

  std::vector<input> inputs_;
  std::size_t hash_ = 0;
};

}  // namespace sluice::detail
