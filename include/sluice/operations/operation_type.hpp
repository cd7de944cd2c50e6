// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice {

class operation_descriptor;

/// Names an operation in overloads of `descriptor_of`, each of which returns the functions of an
/// operation. Callers of an operation need only this declaration; `operation.hpp` is for its
/// author.
///
/// A type of operation that stands for a family of functions has another overload, which takes the
/// operation itself and returns the descriptor of its function; see `unary`.
template <class Operation>
struct operation_type {};

namespace detail {
/// The descriptor of `operation`.
template <class Operation>
[[nodiscard]] const operation_descriptor& find_descriptor(const Operation& operation) {
  if constexpr (requires { descriptor_of(operation); }) {
    return descriptor_of(operation);
  } else {
    return descriptor_of(operation_type<Operation>{});
  }
}
}  // namespace detail

}  // namespace sluice
