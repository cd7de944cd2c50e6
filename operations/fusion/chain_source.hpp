// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/fused_map.hpp"

#include <cstddef>
#include <string>

// The parts of generated kernels that are those of the functions of a map.
namespace sluice::operations {

/// A thread computes so many elements at once at most, and reads so many bytes of an operand.
///@{
inline constexpr int max_vector_width = 8;
inline constexpr int max_vector_bytes = 16;
///@}
/// Types in the text of a kernel: an element type, its elements in memory, and the type in which
/// their numbers are computed.
///@{
[[nodiscard]] std::string type_name(storage type);
[[nodiscard]] std::string element_name(storage type);
[[nodiscard]] std::string compute_name(storage type);
///@}
/// The type of the argument of a kernel.
[[nodiscard]] std::string arguments_text(const fused_map& map);
/// The function `compute<Size>(a, inputs...)`: the last value of `Size` elements at once.
[[nodiscard]] std::string compute_text(const fused_map& map);
/// The address of an element of an operand; 0 is the result.
[[nodiscard]] std::string address_text(const fused_map& map, std::size_t operand,
                                       const std::string& offset);
/// `size` elements of an input: the element at `offset` that is repeated, or those from there on.
[[nodiscard]] std::string read_text(const fused_map& map, std::size_t operand, bool is_repeated,
                                    const std::string& size, const std::string& offset);

}  // namespace sluice::operations
