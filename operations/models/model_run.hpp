// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/corner_copy.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/extents.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sluice::detail {

/// A `run` that is answered with some of its results, in this order.
struct model_run {
  program what{};
  std::vector<run_input> inputs{};
  std::vector<std::uint32_t> outputs{};  ///< numbers of outputs; empty: all
  /// The shapes that the results are cut to, by output of the program; empty: they are not cut.
  std::vector<extents> shapes{};
  std::size_t result_bytes = 0;  ///< of the results before they are cut; 0: unknown
  /// The properties of the results before they are cut, by output of the model; empty: unknown.
  /// Valid only during `model_request::pass_on`.
  std::span<const tensor_spec> results{};
};

/// Picks the results of a run that are wanted, without what padded inputs have added to them.
template <class Tensors>
class output_choice {
 public:
  output_choice(std::vector<std::uint32_t>&& outputs, std::vector<extents>&& shapes) noexcept
      : outputs_(std::move(outputs)), shapes_(std::move(shapes)) {}
  [[nodiscard]] Tensors operator()(Tensors&& results) const {
    if (outputs_.empty() && shapes_.empty()) return std::move(results);
    Tensors chosen;
    const auto add = [&](std::size_t output) {
      chosen.push_back(shapes_.empty() ? results[output]
                                       : cut_to(results[output], shapes_[output]));
    };
    for (const auto output : outputs_) add(output);
    for (std::size_t i = 0; outputs_.empty() && i < results.size(); ++i) add(i);
    return chosen;
  }

 private:
  std::vector<std::uint32_t> outputs_;
  std::vector<extents> shapes_;
};

}  // namespace sluice::detail
