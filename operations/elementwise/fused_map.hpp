// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/reduce_call.hpp"

#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>
#include <vector>

// Several maps that are computed as one: the values between them need no memory.
namespace sluice::operations {

/// The call of a step that can be computed together with others.
using fused_call =
    std::variant<cast_call, copy_call, affine_call, unary_call, binary_call, where_call>;

/// The most operands of a fused map: the result and the inputs.
inline constexpr int max_fused_operands = 9;

/// The reduction of the last value of a fused map.
struct fused_reduction {
  reduce_call call{};  ///< of `results`, only Y is known
  /// Of the elements of each result: the last value as it would lie alone, and the inputs.
  map_layout<max_fused_operands> elements{};
  bool along_rows = true;  ///< whether the closest elements are of one result
};

/// Maps over one set of indices, and perhaps a reduction of the last one. Values are numbered: the
/// inputs, then the result of each function. Each result is rounded to its type, as if it were
/// stored.
struct fused_map {
  static constexpr std::size_t max_inputs = max_fused_operands - 1;
  static constexpr std::size_t max_functions = 32;
  static constexpr std::size_t max_arguments = 3;
  static constexpr int operands = max_fused_operands;
  /// The largest number of bytes that the values of one index may need.
  static constexpr std::size_t max_bytes = 128;
  /// Stands for an argument that is not given.
  static constexpr std::uint8_t none = 255;

  struct function {
    fused_call call;  ///< of elements without gaps
    std::array<std::uint8_t, max_arguments> arguments{none, none, none};  ///< values

    /// The type of the result.
    [[nodiscard]] storage type() const;
  };
  using layout_type = map_layout<operands>;

  /// Of the result and of the inputs. With a reduction, its indices are those of the results.
  layout_type layout{};
  std::size_t inputs = 0;
  std::vector<function> functions{};
  /// Of the first element of the result and of each input, in bytes; powers of two.
  std::array<std::uint16_t, operands> alignments{};
  std::optional<fused_reduction> reduced{};
  // Set by `place`.
  std::vector<std::uint16_t> places{};  ///< by value: its memory, in bytes for each index
  std::size_t bytes = 0;                ///< of all values at once, for each index

  [[nodiscard]] storage type_of(std::size_t value) const {
    return value < inputs ? layout.types[value + 1] : functions[value - inputs].type();
  }
  /// The type of the result of the last function.
  [[nodiscard]] storage last_type() const { return functions.back().type(); }
  /// Gives each value memory that no other value has while both are needed.
  void place();
  /// The scratch memory and the kernels of a launch on a GPU.
  ///@{
  [[nodiscard]] std::size_t workspace_bytes() const noexcept {
    return reduced ? static_cast<std::size_t>(reduced->call.key.workspace_bytes) : 0;
  }
  [[nodiscard]] std::size_t commands() const noexcept {
    return reduced && reduced->call.parts > 1 ? 2 : 1;
  }
  ///@}
  /// Its size in host memory, in bytes.
  [[nodiscard]] std::size_t host_bytes() const noexcept;
};

/// The call of a step, if that can be computed together with others.
[[nodiscard]] std::optional<fused_call> fused_call_of(const operation_descriptor& descriptor,
                                                      const call_storage& call);
/// The number of inputs of a call, some of which may be missing.
[[nodiscard]] std::size_t inputs_of(const fused_call& call);
/// The stride of each input of a call along the dimensions of its result `y`. Nothing if it is not
/// known how the call reads them. A missing input has no properties.
[[nodiscard]] std::optional<std::array<extents, fused_map::max_arguments>> input_strides(
    const fused_call& call, const tensor_spec& y,
    std::span<const std::optional<tensor_spec>> inputs);
/// The same function of elements without gaps.
[[nodiscard]] fused_call flattened(const fused_call& call);

}  // namespace sluice::operations

namespace sluice::host {

/// Computes a fused map with at least one index. The addresses are those of the result and of the
/// inputs. Each element has the bits that the functions would give one after the other.
void compute_fused(const operations::fused_map& map, std::span<void* const> addresses);
/// Likewise, a fused map with a reduction. Its results do not depend on the number of threads.
void compute_fused_reduction(const operations::fused_map& map, std::span<void* const> addresses);
/// Whether a host device computes the map and its reduction faster together than one by one.
[[nodiscard]] bool reduces_in_blocks(const operations::fused_map& map);

}  // namespace sluice::host
