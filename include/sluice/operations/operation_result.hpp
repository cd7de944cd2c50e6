// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/members.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/runtime/tensor.hpp>

#include <type_traits>

namespace sluice {

namespace detail {
template <class Operation>
[[nodiscard]] constexpr bool has_several_results() {
  if constexpr (requires { Operation::members(); }) {
    return output_count<Operation>() > 1;
  } else {
    return false;
  }
}
}  // namespace detail

/// What the executor answers an operation with: a `tensor`, or `tensors` if the operation has
/// several outputs. These have the order of its members; a tensor is empty if the launch neither
/// makes this output nor has been given it.
template <class Operation>
using operation_result =
    std::conditional_t<detail::has_several_results<Operation>(), tensors, tensor>;

}  // namespace sluice
