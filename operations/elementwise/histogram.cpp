// SPDX-License-Identifier: Apache-2.0
#include "operations/cuda_build.hpp"
#include "operations/elementwise/histogram_functions.hpp"
#include "operations/elementwise/layouts.hpp"

#include <sluice/operations/histogram.hpp>

#include <cmath>
#include <cstdint>
#include <string>

namespace sluice {
namespace {

/// The call, as traces see it.
struct histogram_launch : operations::histogram_call {
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.sizes = {layout.count, bins}, .commands = 2};
  }
};

histogram_launch infer_histogram(const histogram& op, inference& inference) {
  const auto& x = inference.require(op.x);
  operations::require_arithmetic(inference, op.x, x.type);
  if (operations::is_complex(x.type) || x.type == element_type::boolean) {
    throw inference.refusal(op.x, "is of type ", x.type,
                            ", but must be an integer or a floating-point type");
  }
  if (op.bins < 1) throw invalid_argument("bins", std::to_string(op.bins) + " is less than 1");
  if (!op.low) throw invalid_argument("low", "is not given");
  if (!op.high) throw invalid_argument("high", "is not given");
  inference.couple_from(op.x, 0);
  histogram_launch call;
  call.bins = op.bins;
  call.low = op.low->to<double>("low");
  call.high = op.high->to<double>("high");
  if (!(call.low < call.high) || !std::isfinite(call.high - call.low)) {
    throw invalid_argument("high", "is " + op.high->text() + ", but low is " + op.low->text());
  }
  (void)inference.result(op.y, element_type::i64, {op.bins});
  inference.make_contiguous(op.y);
  call.layout = operations::make_layout<1>(x.shape, {x.strides}, {x.type});
  if (call.layout.count == 0) inference.ignore(op.x);
  return call;
}

void compute_counts(const histogram_launch& call, const launch_of<histogram>& launch) {
  host::compute_histogram(call, launch.get<const void>(&histogram::x),
                          launch.get<std::int64_t>(&histogram::y));
}
void enqueue_counts(lane_libraries& libraries, const histogram_launch& call,
                    const launch_of<histogram>& launch) {
  cuda::enqueue_histogram(libraries, call, launch.get<const void>(&histogram::x),
                          launch.get<std::int64_t>(&histogram::y));
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<histogram>) {
  static const typed_operation_descriptor<histogram, histogram_launch> instance(
      {.name = "histogram",
       .infer = infer_histogram,
       .host = {.library = "sluice"},
       .compute = compute_counts,
       .cuda = {.library = "sluice", .prepare = operations::with_cuda<cuda::prepare_histogram>()},
       .enqueue = operations::with_cuda<enqueue_counts>(),
       .can_be_captured = true});
  return instance;
}

}  // namespace sluice
