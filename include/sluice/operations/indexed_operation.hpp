// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/for_each_index.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation.hpp>

#include <concepts>
#include <cstddef>
#include <string_view>
#include <utility>

namespace sluice {

/// An operation that does the same for each index, written once for both devices. Its functions are
/// static members:
///
///     struct negate {
///       operand x{};
///       operand y{};
///       static constexpr auto members() {
///         return std::make_tuple(input("x", &negate::x), output("y", &negate::y));
///       }
///       static constexpr std::string_view name = "negate";
///       static constexpr bool has_kernel = true;
///       struct call {
///         std::size_t count;
///       };
///       static call infer(const negate& op, inference& to);
///       static negate_body body(const call& c, const launch_of<negate>& at);
///     };
///
/// `infer` works out the call, a trivially copyable type with the number of indices, `count`.
/// `body` returns the function of an index, which `for_each_index` calls on the host and an
/// `index_kernel` on a GPU. `has_kernel` states whether a `.cu` file of the program instantiates
/// the kernel. Without it, GPUs do not have the operation. If it is true and no file instantiates
/// the kernel, the program does not link.
///
/// `body` gets the address of each operand. If it treats them as contiguous, `infer` calls
/// `make_contiguous` first.
///
/// `row_of` needs no overload for such an operation.
template <class Operation>
concept indexed_operation = requires(const Operation& op, inference& to,
                                     const launch_of<Operation>& at) {
  { Operation::name } -> std::convertible_to<std::string_view>;
  { Operation::has_kernel } -> std::convertible_to<bool>;
  { Operation::infer(op, to).count } -> std::convertible_to<std::size_t>;
  Operation::body(Operation::infer(op, to), at);
};

namespace detail {
template <indexed_operation Operation>
[[nodiscard]] auto functions_of_indexed() {
  using call =
      decltype(Operation::infer(std::declval<const Operation&>(), std::declval<inference&>()));
  operation_functions<Operation, call> all{.name = Operation::name,
                                           .infer = Operation::infer,
                                           .host = {.library = "own"},
                                           .cuda = {.library = "own"}};
  all.compute = [](const call& c, const launch_of<Operation>& at) {
    for_each_index(c.count, Operation::body(c, at));
  };
  if constexpr (Operation::has_kernel) {
    using body = decltype(Operation::body(std::declval<const call&>(),
                                          std::declval<const launch_of<Operation>&>()));
    all.cuda.prepare = [](lane_libraries&) {
      index_kernel<body>::load();
    };
    all.can_be_captured = true;
    all.enqueue = [](lane_libraries& lane, const call& c, const launch_of<Operation>& at) {
      index_kernel<body>::launch(c.count, Operation::body(c, at), lane.stream().native());
    };
  }
  return all;
}
}  // namespace detail

/// The functions behind an `indexed_operation`.
template <indexed_operation Operation>
[[nodiscard]] const operation_row& row_of(operation_type<Operation>) {
  static const typed_operation_row row(detail::functions_of_indexed<Operation>());
  return row;
}

}  // namespace sluice
