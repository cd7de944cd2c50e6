// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/operations/operation_table.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

// The implementations of maps, and descriptors of operations that are maps.

namespace sluice::host {
/// Computes a map with at least one index. Instantiated for all calls.
template <class Call>
void compute_map(const Call& call, const operations::map_addresses& addresses);
}  // namespace sluice::host

namespace sluice::cuda {
/// Loads the kernels of a map. Instantiated for all calls.
template <class Call>
void prepare_map(lane_libraries& libraries);
/// Enqueues a map with at least one index. Instantiated for all calls.
template <class Call>
void enqueue_map(lane_libraries& libraries, const Call& call,
                 const operations::map_addresses& addresses);
}  // namespace sluice::cuda

namespace sluice::operations {

/// The call of a map, as traces see it. A map of more than a few steps for each index states its
/// `work()`.
template <class Map>
struct map_call : Map {
  map_call() = default;
  explicit map_call(const Map& map) noexcept : Map(map) {}
  [[nodiscard]] launch_facts facts() const noexcept {
    launch_facts facts{.sizes = {this->layout.count}};
    if constexpr (requires { this->work(); }) facts.work = this->work();
    if constexpr (requires { this->out_of_range; }) {
      if (this->layout.count != 0) facts.errors = detection_of(this->out_of_range);
    }
    return facts;
  }
};

/// Infers a map. Without any index, the launch touches no operand.
template <class Operation, class Map, auto Infer>
[[nodiscard]] map_call<Map> infer_map(const Operation& op, inference& inference) {
  map_call<Map> call(Infer(op, inference));
  if (call.layout.count == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
  }
  return call;
}

template <class Operation, auto... Inputs>
[[nodiscard]] map_addresses addresses_of(const launch_of<Operation>& launch) noexcept {
  return {launch.template get<void>(&Operation::y), {launch.template get<const void>(Inputs)...}};
}
/// The call of one launch, which reports indices that are out of range if that is an error.
template <class Operation, class Map>
[[nodiscard]] decltype(auto) call_of_launch(const map_call<Map>& call,
                                            const launch_of<Operation>& launch, device_kind kind) {
  if constexpr (requires { call.out_of_range; }) {
    Map result = call;
    if (detects_errors(detection_of(call.out_of_range), kind)) {
      result.errors = launch.index_errors(&Operation::indices);
    }
    return result;
  } else {
    return static_cast<const Map&>(call);
  }
}
template <class Operation, class Map, auto... Inputs>
void compute_map(const map_call<Map>& call, const launch_of<Operation>& launch) {
  if (call.layout.count != 0) {
    auto addresses = addresses_of<Operation, Inputs...>(launch);
    if constexpr (requires { call.with_number(addresses); }) {
      addresses = call.with_number(addresses);
    }
    host::compute_map<Map>(call_of_launch(call, launch, device_kind::host), addresses);
  }
}
template <class Operation, class Map, auto... Inputs>
void enqueue_map(lane_libraries& libraries, const map_call<Map>& call,
                 const launch_of<Operation>& launch) {
  if (call.layout.count != 0) {
    cuda::enqueue_map<Map>(libraries, call_of_launch(call, launch, device_kind::cuda),
                           addresses_of<Operation, Inputs...>(launch));
  }
}

template <class Operation, class Map>
using map_descriptor = typed_operation_descriptor<Operation, map_call<Map>>;

/// The functions of an operation that is the map `Map` of the members `Inputs` to the member `y`.
template <class Operation, class Map, auto Infer, auto... Inputs>
[[nodiscard]] operation_functions<Operation, map_call<Map>> map_functions(std::string_view name) {
  return {.name = name,
          .infer = infer_map<Operation, Map, Infer>,
          .host = {.library = "sluice"},
          .compute = compute_map<Operation, Map, Inputs...>,
          .cuda = {.library = "sluice", .prepare = with_cuda<cuda::prepare_map<Map>>()},
          .enqueue = with_cuda<enqueue_map<Operation, Map, Inputs...>>(),
          .can_be_captured = true};
}

/// The descriptor of such an operation.
template <class Operation, class Map, auto Infer, auto... Inputs>
[[nodiscard]] const operation_descriptor& descriptor_of_map(std::string_view name) {
  static const map_descriptor<Operation, Map> descriptor(
      map_functions<Operation, Map, Infer, Inputs...>(name));
  return descriptor;
}

/// A descriptor for each function of an operation, whose names `properties` list.
template <class Operation, class Map, class Properties, std::size_t... I>
[[nodiscard]] std::array<map_descriptor<Operation, Map>, sizeof...(I)> map_descriptors(
    operation_functions<Operation, map_call<Map>> (*functions)(std::string_view),
    const Properties& properties, std::index_sequence<I...>) {
  return {map_descriptor<Operation, Map>(functions(properties[I].name))...};
}
/// The descriptor of a function; `otherwise` if there is no such function.
template <class Descriptors, class Function>
[[nodiscard]] const operation_descriptor& descriptor_at(const Descriptors& descriptors,
                                                        const std::optional<Function>& function,
                                                        const operation_descriptor& otherwise) {
  if (!function || static_cast<std::size_t>(*function) >= descriptors.size()) return otherwise;
  return descriptors[static_cast<std::size_t>(*function)];
}

/// The member `function` of an operation, whose functions end with `last`.
/// @throws error `invalid_argument` if it is not given or no function
template <class Function>
[[nodiscard]] Function require_function(const std::optional<Function>& function, Function last) {
  if (!function) throw invalid_argument("function", "is not given");
  require_enumerator("function", *function, last);
  return *function;
}

/// The functions of `binary` and `unary`, as documentation lists them.
///@{
[[nodiscard]] std::vector<operation_description> describe_binary();
[[nodiscard]] std::vector<operation_description> describe_unary();
///@}

}  // namespace sluice::operations
