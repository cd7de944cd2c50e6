// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"

#include <sluice/operations/operation.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/device.hpp>

#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

namespace sluice {
namespace {

struct fill_call {
  std::int64_t count = 0;  ///< number of elements
  element_type type = element_type::f32;
  std::array<std::byte, 16> element{};  ///< the bytes of one element

  template <class T>
  void store(const T& value) noexcept {
    static_assert(sizeof value <= sizeof element);
    std::memcpy(element.data(), &value, sizeof value);
  }
  [[nodiscard]] launch_facts facts() const noexcept { return {.sizes = {count}}; }
};

[[noreturn]] void refuse_range(const scalar& value, element_type type) {
  throw invalid_argument("value",
                         value.text() + " is out of the range of " + std::string(to_string(type)));
}

template <class T>
void store_integer(const scalar& value, fill_call& call) {
  const auto number = value.to<std::int64_t>("value");
  if (number < std::numeric_limits<T>::min() || number > std::numeric_limits<T>::max()) {
    refuse_range(value, call.type);
  }
  call.store(static_cast<T>(number));
}

void store(const scalar& value, fill_call& call) {
  switch (call.type) {
    case element_type::boolean: {
      const auto number = value.to<std::int64_t>("value");
      if (number != 0 && number != 1) refuse_range(value, call.type);
      return call.store(static_cast<std::uint8_t>(number));
    }
    case element_type::u8:
      return store_integer<std::uint8_t>(value, call);
    case element_type::i8:
      return store_integer<std::int8_t>(value, call);
    case element_type::u16:
      return store_integer<std::uint16_t>(value, call);
    case element_type::i16:
      return store_integer<std::int16_t>(value, call);
    case element_type::i32:
      return store_integer<std::int32_t>(value, call);
    case element_type::u32:
      return store_integer<std::uint32_t>(value, call);
    case element_type::i64:
      return call.store(value.to<std::int64_t>("value"));
    case element_type::u64:
      return call.store(value.to<std::uint64_t>("value"));
    case element_type::f16:
      return call.store(value.to<f16>("value"));
    case element_type::bf16:
      return call.store(value.to<bf16>("value"));
    case element_type::f32:
      return call.store(value.to<float>("value"));
    case element_type::f64:
      return call.store(value.to<double>("value"));
    case element_type::c64:
      return call.store(value.to<std::complex<float>>("value"));
    case element_type::c128:
      return call.store(value.to<std::complex<double>>("value"));
  }
}

fill_call infer(const fill& op, inference& inference) {
  const auto* const output_spec = inference.given(op.y);
  operations::require_type("type", op.type);
  const auto type = op.type                  ? *op.type
                    : output_spec != nullptr ? output_spec->type
                                             : element_type::f32;
  const auto& y =
      inference.result(op.y, type, operations::stated_shape(op.shape, output_spec, type));
  inference.make_contiguous(op.y);
  fill_call call{.count = static_cast<std::int64_t>(y.size()), .type = type};
  store(op.value, call);
  return call;
}

void compute(const fill_call& call, const launch_of<fill>& launch) {
  auto* target = launch.get<std::byte>(&fill::y);
  const auto bytes = size_of(call.type);
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
