// SPDX-License-Identifier: Apache-2.0
#include "operations/core/element_value.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/device.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace sluice {
namespace {

struct fill_call {
  std::int64_t count = 0;  ///< number of elements
  element_type type = element_type::f32;
  operations::element_bytes element{};

  [[nodiscard]] launch_facts facts() const noexcept { return {.sizes = {count}}; }
};

fill_call infer(const fill& op, inference& inference) {
  const auto* const output_spec = inference.given(op.y);
  operations::require_type("type", op.type);
  const auto type = op.type                  ? *op.type
                    : output_spec != nullptr ? output_spec->type
                                             : element_type::f32;
  const auto& y =
      inference.result(op.y, type, operations::stated_shape(op.shape, output_spec, type));
  inference.make_contiguous(op.y);
  return {.count = static_cast<std::int64_t>(y.size()),
          .type = type,
          .element = operations::element_value(op.value, type, "value")};
}

void compute(const fill_call& call, const launch_of<fill>& launch) {
  auto* target = launch.get<std::byte>(&fill::y);
  const auto bytes = size_of(call.type);
  if (call.count == 0) return;
  if (bytes == 1) {
    std::memset(target, std::to_integer<int>(call.element[0]),
                static_cast<std::size_t>(call.count));
    return;
  }
  for (std::int64_t i = 0; i < call.count; ++i, target += bytes) {
    std::memcpy(target, call.element.data(), bytes);
  }
}

void enqueue(lane_libraries& libraries, const fill_call& call, const launch_of<fill>& launch) {
  libraries.runtime().device().fill(launch.get<void>(&fill::y), call.element.data(),
                                    size_of(call.type), static_cast<std::size_t>(call.count),
                                    libraries.stream().native());
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<fill>) {
  static const typed_operation_descriptor<fill, fill_call> descriptor(
      {.name = "fill",
       .infer = [](const fill& op, inference& inference) { return infer(op, inference); },
       .host = {.library = "host"},
       .compute = compute,
       .cuda = {.library = "CUDA"},
       .enqueue = enqueue,
       .can_be_captured = true});
  return descriptor;
}

}  // namespace sluice
