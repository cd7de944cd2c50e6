// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <vector>

namespace sluice::detail {

/// The inputs that a program of a model is made for: the type and the shape of each, the elements
/// of those that are bound by value, and the shape that each is padded to.
class program_key {
 public:
  /// Many keys of padded inputs are kept.
  static constexpr std::size_t most_bound_of_padded = 4096;

  struct input {
    element_type type{};
    extents shape{};
    host_tensor value{};  ///< no tensor: the input is not bound
    extents padded{};     ///< the shape that it is padded to
  };

  /// The key of inputs that are not bound, in the order of the model. `padded` has a shape for each
  /// input, or none: then the program is for the shapes of the inputs, as if they were padded to
  /// themselves.
  /// @throws std::bad_alloc if there is no memory
  explicit program_key(const std::vector<run_input>& inputs,
                       const std::vector<extents>& padded = {});

  [[nodiscard]] const std::vector<input>& inputs() const noexcept { return inputs_; }
  /// Whether an input is padded to another shape than its own.
  [[nodiscard]] bool is_rounded() const noexcept { return is_rounded_; }
  /// The key of the program for the shapes that the inputs are padded to.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] program_key rounded() const;
  /// The key of the program for the shapes of the inputs.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] program_key unrounded() const;
  /// The size of all values, in bytes.
  [[nodiscard]] std::size_t bound_bytes() const noexcept;
  /// Binds an input to the elements of `value`, which the key shares. If the input is padded, or
  /// all values have more than `most_bound_of_padded` bytes, no input is padded from now on.
  void bind(std::size_t number, const host_tensor& value);
  /// The same key with values of its own.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] program_key copy() const;
  [[nodiscard]] std::size_t hash() const noexcept { return hash_; }
  /// Whether both are for the same types, shapes, values and padded shapes.
  [[nodiscard]] bool operator==(const program_key& other) const noexcept;

 private:
  /// Updates what depends on the inputs.
  void update() noexcept;

  std::vector<input> inputs_;
  bool is_rounded_ = false;
  std::size_t hash_ = 0;
};

}  // namespace sluice::detail
