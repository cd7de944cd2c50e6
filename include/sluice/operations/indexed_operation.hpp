// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/for_each_index.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation.hpp>

#include <concepts>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

namespace sluice {

/// An operation that does the same for each index, written once for both devices. Its functions are
/// static members:
///
///     struct square {
///       operand x{};
///       operand y{};
///       static constexpr auto members() {
///         return std::make_tuple(input("x", &square::x), output("y", &square::y));
///       }
///       static constexpr std::string_view name = "square";
///       static constexpr bool has_kernel = true;
///       struct call {
///         std::size_t count;
///       };
///       static call infer(const square& op, inference& inference);
///       static square_body body(const call& c, const launch_of<square>& launch);
///     };
///
/// `infer` works out the call, a trivially copyable type with the number of indices, `count`.
/// `body` returns the function of an index, which `for_each_index` calls on the host and an
/// `index_kernel` on a GPU. `has_kernel` states whether a `.cu` file of the program instantiates
/// the kernel. Without it, GPUs do not have the operation. If it is true and no file instantiates
/// the kernel, the program does not link.
///
/// `body` gets the address of each operand. All operands are contiguous: the launch uses packed
/// copies of those that are not, and `infer` sees inputs with the strides of their copies. An
/// operation whose body takes strides states so, and gets its operands as they are:
///
///       static constexpr bool takes_strides = true;
///
/// `descriptor_of` needs no overload for such an operation. A mistake in one of these members is a
/// compile error that says what is missing.
template <class Operation>
concept indexed_operation = requires {
  Operation::has_kernel;
}
|| requires {
  &Operation::infer;
}
|| requires {
  &Operation::body;
};

namespace detail {
template <class Operation>
using call_of_indexed =
    decltype(Operation::infer(std::declval<const Operation&>(), std::declval<inference&>()));

template <class Operation>
[[nodiscard]] constexpr bool takes_strides() {
  if constexpr (requires { Operation::takes_strides; }) {
    return Operation::takes_strides;
  } else {
    return false;
  }
}

/// Whether an operation has the members that `check_indexed` needs. If not, the compiler has said
/// why.
template <class Operation>
[[nodiscard]] constexpr bool check_declared() {
  constexpr bool has_name = requires {
    std::string_view(Operation::name);
  };
  static_assert(has_name, "an indexed operation: needs static constexpr std::string_view name");
  constexpr bool states_kernel = requires {
    bool(Operation::has_kernel);
  };
  static_assert(states_kernel,
                "an indexed operation: needs static constexpr bool has_kernel, which is true if a "
                ".cu file of the program instantiates its index_kernel");
  constexpr bool has_members = requires {
    Operation::members();
  };
  static_assert(has_members,
                "an indexed operation: needs static constexpr auto members(), which returns a "
                "std::make_tuple of input, output and parameter");
  constexpr bool infers = requires(const Operation& operation, inference& result) {
    Operation::infer(operation, result);
  };
  static_assert(infers,
                "an indexed operation: needs static call infer(const Operation&, inference&)");
  return has_name && states_kernel && has_members && infers;
}

/// Whether the members of a declared operation fit. If not, the compiler has said why.
template <class Operation>
[[nodiscard]] constexpr bool check_indexed() {
  using call = call_of_indexed<Operation>;
  constexpr bool counts = requires(const call& c) {
    { c.count } -> std::convertible_to<std::size_t>;
  };
  static_assert(counts,
                "an indexed operation: the call that infer returns needs a member "
                "std::size_t count, the number of indices");
  constexpr bool is_plain = std::is_trivially_copyable_v<call>;
  static_assert(is_plain,
                "an indexed operation: the call that infer returns must be trivially "
                "copyable: "
                "numbers and structs of numbers, and no string, vector or tensor");
  constexpr bool has_body =
      requires(const call& c, const launch_of<Operation>& launch, std::size_t index) {
    Operation::body(c, launch)(index);
  };
  static_assert(has_body,
                "an indexed operation: static body(const call&, "
                "const launch_of<Operation>&) must "
                "return a function of an index, std::size_t");
  return counts && is_plain && has_body;
}

/// Works out the call. Operands that are not contiguous are packed, unless the body takes strides.
template <class Operation>
[[nodiscard]] call_of_indexed<Operation> infer_indexed(const Operation& op, inference& inference) {
  const auto pack = [&](member_role role) {
    for (const auto& use : inference.uses()) {
      if (use.operand.role != role || use.ignored || !use.spec || use.spec->is_contiguous())
        continue;
      (void)inference.pack(*use.operand.value);
    }
  };
  constexpr bool packs = !takes_strides<Operation>();
  // `result` has to see outputs as they are.
  if constexpr (packs) pack(member_role::input);
  const auto call = Operation::infer(op, inference);
  if constexpr (packs) pack(member_role::output);
  return call;
}

template <class Operation>
[[nodiscard]] auto functions_of_indexed() {
  using call = call_of_indexed<Operation>;
  operation_functions<Operation, call> functions{.name = Operation::name,
                                                 .infer = infer_indexed<Operation>,
                                                 .host = {.library = "own"},
                                                 .cuda = {.library = "own"}};
  functions.compute = [](const call& c, const launch_of<Operation>& launch) {
    for_each_index(c.count, Operation::body(c, launch));
  };
  if constexpr (Operation::has_kernel) {
    using body = decltype(Operation::body(std::declval<const call&>(),
                                          std::declval<const launch_of<Operation>&>()));
    functions.cuda.prepare = [](lane_libraries&) {
      index_kernel<body>::load();
    };
    functions.can_be_captured = true;
    functions.enqueue = [](lane_libraries& lane, const call& c,
                           const launch_of<Operation>& launch) {
      index_kernel<body>::launch(c.count, Operation::body(c, launch), lane.stream().native());
    };
  }
  return functions;
}
}  // namespace detail

/// The functions behind an `indexed_operation`.
template <indexed_operation Operation>
[[nodiscard]] const operation_descriptor& descriptor_of(operation_type<Operation>) {
  if constexpr (detail::check_declared<Operation>()) {
    if constexpr (detail::check_indexed<Operation>()) {
      static const typed_operation_descriptor descriptor(detail::functions_of_indexed<Operation>());
      return descriptor;
    }
  }
  std::terminate();  // not compiled
}

}  // namespace sluice
