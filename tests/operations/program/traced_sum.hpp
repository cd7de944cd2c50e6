// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/error.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

namespace sluice::test {

/// What `traced_sum` does, and has done.
struct trace_of_sums {
  std::atomic<int> computed{0};
  std::atomic<int> enqueued{0};  ///< on a pretended GPU
  std::atomic<int> prepared{0};  ///< likewise: library objects
  std::atomic<int> failures{0};  ///< of the next sums on a stream thread
  /// Called by each `compute`, by each `enqueue` and when library objects are made. It may throw
  /// there.
  ///@{
  std::function<void()> on_compute{};
  std::function<void()> on_enqueue{};
  std::function<void(device_runtime&)> on_prepare{};
  ///@}
  void reset() {
    computed = enqueued = prepared = failures = 0;
    on_compute = {};
    on_enqueue = {};
    on_prepare = {};
  }
};
inline trace_of_sums sum_trace;

/// What a `traced_sum` is on a GPU.
enum class sum_kind : std::uint8_t {
  kernel,         ///< it can be captured, and its library objects are kernels
  uncaptured,     ///< it cannot be captured
  with_handle,    ///< it has a handle of a library
  with_errors,    ///< it may find an error
  without_object  ///< it can be captured and has no library objects
};

/// y = a + b. A device that presents itself as a GPU computes it, too.
template <sum_kind Kind = sum_kind::kernel>
struct traced_sum {
  operand a{};
  operand b{};
  operand y{};

  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("a", &traced_sum::a), input("b", &traced_sum::b),
                           output("y", &traced_sum::y));
  }
};

template <sum_kind Kind>
struct traced_sum_call {
  std::int64_t count;
  [[nodiscard]] launch_facts facts() const noexcept {
    return {.errors = Kind == sum_kind::with_errors ? error_detection::everywhere
                                                    : error_detection::none};
  }
};

inline void compute_traced_sum(std::int64_t count, const float* a, const float* b, float* y) {
  ++sum_trace.computed;
  if (sum_trace.on_compute) sum_trace.on_compute();
  if (sum_trace.failures.load() > 0) {
    --sum_trace.failures;
    throw error(errc::library_failure, "no sum");
  }
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

struct object_of_sums {
  object_of_sums(device_runtime& runtime, stream_ref) {
    if (sum_trace.on_prepare) sum_trace.on_prepare(runtime);
    ++sum_trace.prepared;
  }
};

template <sum_kind Kind>
const operation_descriptor& descriptor_of(operation_type<traced_sum<Kind>>) {
  using operation = traced_sum<Kind>;
  using call = traced_sum_call<Kind>;
  static const typed_operation_descriptor<operation, call> descriptor([] {
    operation_functions<operation, call> functions{.name = "traced_sum"};
    functions.infer = [](const operation& op, inference& inference) {
      const auto& a = inference.require(op.a);
      (void)inference.require(op.b);
      (void)inference.result(op.y, a.type, a.shape);
      return call{static_cast<std::int64_t>(a.size())};
    };
    functions.compute = [](const call& c, const launch_of<operation>& launch) {
      compute_traced_sum(c.count, launch.template get<const float>(&operation::a),
                         launch.template get<const float>(&operation::b),
                         launch.template get<float>(&operation::y));
    };
    functions.cuda.library = Kind == sum_kind::with_handle ? "cuBLAS" : "own";
    if (Kind != sum_kind::without_object) {
      functions.cuda.prepare = [](lane_libraries& libraries) {
        (void)libraries.get<object_of_sums>();
      };
    }
    functions.enqueue = [](lane_libraries& libraries, const call& c,
                           const launch_of<operation>& launch) {
      if (sum_trace.on_enqueue) sum_trace.on_enqueue();
      ++sum_trace.enqueued;
      libraries.runtime().device().notify(
          libraries.stream().native(),
          [count = c.count, a = launch.template get<const float>(&operation::a),
           b = launch.template get<const float>(&operation::b),
           y = launch.template get<float>(&operation::y)] { compute_traced_sum(count, a, b, y); });
    };
    functions.can_be_captured = Kind != sum_kind::uncaptured;
    return functions;
  }());
  return descriptor;
}

}  // namespace sluice::test
