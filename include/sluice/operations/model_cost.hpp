// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace sluice {

/// What one run of the program of a model computes and keeps in memory, beside its inputs and
/// outputs. Counted from the steps as they are, before steps are fused or constants are folded.
struct model_cost {
  /// Arithmetic operations, of integers, too. A product that is added to a sum counts as two, also
  /// where it is a product of padding. A step without such sums counts as one for each element of
  /// its largest operand, and steps that only move, select or convert elements as none.
  double arithmetic = 0;
  /// Bytes of the constants of the program. Constants with the same memory count once.
  std::size_t constant_bytes = 0;
  /// Bytes of the results of all steps that are no outputs.
  std::size_t intermediate_bytes = 0;
  /// The most of these that exist at one time, if a result exists from its step to the last step
  /// that reads it.
  std::size_t live_bytes = 0;
};

}  // namespace sluice
