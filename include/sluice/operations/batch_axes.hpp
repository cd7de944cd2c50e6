// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/tensor_spec.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice {

/// Where the parts of the runs lie in the inputs and outputs of a program whose runs can be
/// computed together.
struct batch_axes {
  /// By input: the axis along which the runs lie one behind the other; nothing if the input must be
  /// the same for all of them.
  std::vector<std::optional<std::size_t>> inputs{};
  std::vector<std::size_t> outputs{};  ///< by output; empty if there is a reason
  /// Why the runs cannot be computed together, with the name of the step: "step 'mean': reduce
  /// mixes axis 0 of x, …". Empty if they can.
  std::string reason{};

  /// Whether the runs can be computed together.
  [[nodiscard]] explicit operator bool() const noexcept { return reason.empty(); }
};

/// Works out whether runs of a program can be computed together, with inputs that lie one behind
/// the other along `axes`, so that each run has the results that it has alone.
///
///     const auto image = tensor_spec::row_major(element_type::f32, {1, 3, 224, 224});
///     const auto proof = find_batch_axes(classifier, {{image}}, {{0}});
///     if (proof) fast = classifier.with_batches(proof, 64);
///
/// It is proved from the steps, and not from shapes alone: each operation of sluice states which
/// axes it mixes, and has a rule for the axis of its results. An operation without a rule, as one
/// of your own, mixes all axes. Views are those of one run each: `reshape({1, 80})` in a program
/// whose runs have 80 numbers each is a view of any number of runs. The program is also worked out
/// for one, two and three runs, and each shape must agree with the rule. Nothing is computed.
///
/// The proof is for runs with inputs of these properties.
/// @throws error `invalid_argument` if the number of `inputs` or `axes` is not that of the program,
/// an input has no such axis, or the program takes scalars
/// @throws error what a step refuses for one run, with its name
[[nodiscard]] SLUICE_EXPORT batch_axes
find_batch_axes(const program& what, std::span<const tensor_spec> inputs,
                std::span<const std::optional<std::size_t>> axes);

}  // namespace sluice
