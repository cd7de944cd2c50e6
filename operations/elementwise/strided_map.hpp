// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/storage.hpp"

#include <sluice/host_device_code.hpp>

#include <cstdint>

// Maps over strided tensors: each element of the output is a function of the elements of the inputs
// at the same index. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

inline constexpr int max_dimensions = 8;

/// A quotient and its remainder.
struct quotient {
  std::int64_t value;
  std::int64_t remainder;
};
/// a / b, in 32 bits where that is enough: a division in 64 bits is slow on GPUs.
[[nodiscard]] SLUICE_HOST_DEVICE inline quotient divide(std::int64_t a, std::int64_t b) noexcept {
  if (((a | b) >> 32) == 0) {
    const auto q = static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
    return {q, a - static_cast<std::int64_t>(q) * b};
  }
  const std::int64_t q = a / b;
  return {q, a - q * b};
}

/// The operands of a map. Operand 0 is the output. Its strides fall from the first dimension to the
/// last, so that neighbouring threads write neighbouring elements. An operand that does not depend
/// on a dimension has stride 0 there. There is at least one dimension.
template <int Operands>
struct map_layout {
  std::int64_t count = 0;  ///< number of indices
  std::int32_t rank = 1;
  storage types[Operands]{};
  std::int64_t shape[max_dimensions]{};
  std::int64_t strides[Operands][max_dimensions]{};  ///< in elements
};

/// The positions of the operands of a map at one index, in elements.
template <int Operands>
struct map_position {
  std::int64_t offsets[Operands];
};

/// The positions at index number `index`, in row-major order of the layout.
template <int Operands>
[[nodiscard]] SLUICE_HOST_DEVICE inline map_position<Operands> position_of(
    const map_layout<Operands>& layout, std::int64_t index) noexcept {
  map_position<Operands> position{};
  // Copies of the loop would make every kernel larger, and hardly faster.
#if defined(__CUDA_ARCH__)
#pragma unroll 1
#endif
  for (int d = layout.rank - 1; d > 0; --d) {
    const auto split = divide(index, layout.shape[d]);
    for (int k = 0; k < Operands; ++k)
      position.offsets[k] += split.remainder * layout.strides[k][d];
    index = split.value;
  }
  for (int k = 0; k < Operands; ++k) position.offsets[k] += index * layout.strides[k][0];
  return position;
}

/// The addresses of a map. An input that is not given is nullptr.
struct map_addresses {
  void* y = nullptr;
  const void* inputs[3]{};
};

/// Computes the elements of a map with `Function`. It names the types `argument` and `result` and
/// states `on_overflow`. If `types_are_fixed`, elements lie in memory as these types. If
/// `inputs_may_miss`, `missing(k)` gives the elements of an input that is not given.
template <class Function, int Operands>
struct map_body {
  using function_type = Function;
  Function function;
  map_addresses addresses;

  SLUICE_HOST_DEVICE void operator()(const map_layout<Operands>& layout,
                                     const map_position<Operands>& position) const noexcept {
    static_assert(Operands >= 2 && Operands <= 4, "a map has one to three inputs");
    if constexpr (Operands == 2) {
      put(layout, position, function(input(layout, position, 0)));
    } else if constexpr (Operands == 3) {
      put(layout, position, function(input(layout, position, 0), input(layout, position, 1)));
    } else {
      put(layout, position,
          function(input(layout, position, 0), input(layout, position, 1),
                   input(layout, position, 2)));
    }
  }

 private:
  using argument = typename Function::argument;
  using result = typename Function::result;

  [[nodiscard]] SLUICE_HOST_DEVICE argument input(const map_layout<Operands>& layout,
                                                  const map_position<Operands>& position,
                                                  int k) const noexcept {
    const void* const source = addresses.inputs[k];
    if constexpr (Function::inputs_may_miss) {
      if (source == nullptr) return function.missing(k);
    }
    if constexpr (Function::types_are_fixed) {
      return element_at<argument>(source, position.offsets[k + 1]);
    } else {
      return load<argument>(layout.types[k + 1], source, position.offsets[k + 1]);
    }
  }
  SLUICE_HOST_DEVICE void put(const map_layout<Operands>& layout,
                              const map_position<Operands>& position,
                              const result& value) const noexcept {
    if constexpr (Function::types_are_fixed) {
      put_element(addresses.y, position.offsets[0], value);
    } else {
      store<Function::on_overflow>(layout.types[0], addresses.y, position.offsets[0], value);
    }
  }
};

}  // namespace sluice::operations
