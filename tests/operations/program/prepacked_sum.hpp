// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::test {

/// What `prepacked_sum` has done on host devices.
struct counts_of_prepacking {
  std::atomic<int> copies{0};
  std::atomic<int> runs_with_copy{0};
  std::atomic<int> runs_without_copy{0};
  void reset() noexcept { copies = runs_with_copy = runs_without_copy = 0; }
};
inline counts_of_prepacking prepacking_counts;

/// The order of a prepacked copy of W.
enum class prepacked_form : std::uint8_t { none, reversed, negated };

/// y = factor · (x + w). W is repeated along the dimensions of X before the last.
struct prepacked_sum {
  operand x{};
  operand w{};
  operand y{};
  prepacked_form form = prepacked_form::reversed;
  scalar factor = 1;

  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &prepacked_sum::x), input("w", &prepacked_sum::w),
                           output("y", &prepacked_sum::y), parameter("form", &prepacked_sum::form),
                           parameter("factor", &prepacked_sum::factor));
  }
};
struct prepacked_sum_call {
  std::int64_t count;
  std::int64_t row;
  double factor;
  prepacked_form form;
};

inline const operation_descriptor& descriptor_of(operation_type<prepacked_sum>) {
  static const typed_operation_descriptor<prepacked_sum, prepacked_sum_call> descriptor({
      .name = "prepacked_sum",
      .infer =
          [](const prepacked_sum& op, inference& inference) {
            const auto& x = inference.require(op.x);
            const auto& w = inference.require(op.w);
            (void)inference.result(op.y, x.type, x.shape);
            inference.make_contiguous(op.w);
            return prepacked_sum_call{static_cast<std::int64_t>(x.size()), w.shape[0],
                                      op.factor.to<double>("factor"), op.form};
          },
      .host = {.prepacked = [](const prepacked_sum_call& call, const operation_plan*,
                               operand prepacked_sum::*input) -> prepacked_layout {
                 if (input != &prepacked_sum::w || call.form == prepacked_form::none) return {};
                 return {static_cast<std::size_t>(call.row) * sizeof(float),
                         "form " + std::to_string(static_cast<int>(call.form)) + " of " +
                             std::to_string(call.row)};
               },
               .prepack =
                   [](lane_libraries&, const prepacked_sum_call& call,
                      const prepacking_of<prepacked_sum>& packing) {
                     const auto* const w = static_cast<const float*>(packing.source);
                     auto* const copy = static_cast<float*>(packing.copy);
                     for (std::int64_t i = 0; i < call.row; ++i) {
                       copy[i] = call.form == prepacked_form::negated ? -w[i] : w[call.row - 1 - i];
                     }
                     ++prepacking_counts.copies;
                   }},
      .compute =
          [](const prepacked_sum_call& call, const launch_of<prepacked_sum>& launch) {
            const auto* const x = launch.get<const float>(&prepacked_sum::x);
            const auto* const w = launch.get<const float>(&prepacked_sum::w);
            auto* const y = launch.get<float>(&prepacked_sum::y);
            const bool is_prepacked = launch.is_prepacked(&prepacked_sum::w);
            ++(is_prepacked ? prepacking_counts.runs_with_copy
                            : prepacking_counts.runs_without_copy);
            for (std::int64_t i = 0; i < call.count; ++i) {
              const auto k = i % call.row;
              const float added = !is_prepacked                          ? w[k]
                                  : call.form == prepacked_form::negated ? -w[k]
                                                                         : w[call.row - 1 - k];
              y[i] = static_cast<float>(call.factor) * (x[i] + added);
            }
          },
  });
  return descriptor;
}

}  // namespace sluice::test
