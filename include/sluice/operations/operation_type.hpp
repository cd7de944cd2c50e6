// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sluice {

class operation_descriptor;

/// Names an operation in overloads of `descriptor_of`, each of which returns the functions of an
/// operation. Callers of an operation need only this declaration; `operation.hpp` is for its
/// author.
template <class Operation>
struct operation_type {};

}  // namespace sluice
