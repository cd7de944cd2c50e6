// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/element_number.hpp"
#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <sluice/host_device_code.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

// The maps that both devices compute. A call has no addresses. `visit` calls `run(body, layout)`
// with the body of the loop for the types of a call, and returns its status. The status is 0 where
// a map does not take the types. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// y = x, converted. Operands: y, x.
struct cast_call {
  map_layout<2> layout{};
  /// Whether numbers beyond the range of a type of 8 bits become the nearest one in range.
  bool saturates = true;

  /// A type through which the conversion rounds once. Where several do, f32, which is the fastest.
  [[nodiscard]] storage through() const noexcept {
    const auto x = layout.types[1];
    const auto y = layout.types[0];
    const bool is_small = x <= storage::i16;
    const bool is_complex = x == storage::c64 || x == storage::c128;
    if (y == storage::f32 && !is_complex) return storage::f32;
    const bool is_short = y >= storage::e4m3 && y <= storage::bf16;
    return is_small && is_short ? storage::f32 : x;
  }
};

/// y = x, bit by bit. Operands: y, x, of equal types.
struct copy_call {
  map_layout<2> layout{};
};

/// y = x · scale + bias. Operands: y, x, scale, bias.
struct affine_call {
  map_layout<4> layout{};
  double factor = 1;  ///< stands for scale; exact in the type of the computation
  double offset = 0;  ///< stands for bias; exact in the type of the computation

  /// Whether an operand is f64; then the computation is in f64, otherwise in f32.
  [[nodiscard]] bool is_double() const noexcept {
    for (const auto type : layout.types) {
      if (type == storage::f64) return true;
    }
    return false;
  }
};

/// y = x · factor, for floating-point and complex types; 16 bits in f32. Operands: y, x, of equal
/// types.
struct scale_call {
  map_layout<2> layout{};
  double factor[2]{};  ///< real and imaginary part; exact in the type
};

/// y = f(a, b). Operands: y, a, b; a and b are of equal types.
struct binary_call {
  map_layout<3> layout{};
  binary_function function{};
  element_number number{};

  /// The operand that the number stands for; 0: none.
  [[nodiscard]] int operand_of_number() const noexcept { return number.input + 1; }
  /// The addresses for the host, where a number has one.
  [[nodiscard]] map_addresses with_number(map_addresses addresses) const noexcept {
    if (number.input >= 0) addresses.inputs[number.input] = number.bytes;
    return addresses;
  }
};

/// A parameter of a unary function, in the compute type of its operand.
class unary_parameter {
 public:
  unary_parameter() = default;
  template <class T>
  explicit unary_parameter(T value) noexcept {
    static_assert(sizeof value <= sizeof bits_);
    std::memcpy(&bits_, &value, sizeof value);
  }
  template <class T>
  [[nodiscard]] T get() const noexcept {
    T value{};
    std::memcpy(&value, &bits_, sizeof value);
    return value;
  }

 private:
  std::uint64_t bits_ = 0;
};

/// y = f(x). Operands: y, x.
struct unary_call {
  map_layout<2> layout{};
  unary_function function{};
  unary_parameter alpha{};  ///< not of complex numbers
  unary_parameter beta{};

  /// Whether the result is the real number of a complex one.
  [[nodiscard]] bool is_of_parts() const noexcept {
    return function == unary_function::angle ||
           (function == unary_function::abs && layout.types[1] >= storage::c64);
  }
};

/// y = a where the condition is true, else b. Operands: y, condition, a, b; y, a and b are of equal
/// types.
struct where_call {
  map_layout<4> layout{};
  element_number number{};  ///< of a or b

  /// The operand that the number stands for; 0: none.
  [[nodiscard]] int operand_of_number() const noexcept {
    return number.input < 0 ? 0 : number.input + 2;
  }
  /// The addresses for the host, where a number has one.
  [[nodiscard]] map_addresses with_number(map_addresses addresses) const noexcept {
    if (number.input >= 0) addresses.inputs[number.input + 1] = number.bytes;
    return addresses;
  }
};

/// Computes the elements of a `where_call`, which are copied as `Bits`.
template <class Bits>
struct where_body {
  map_addresses addresses;
  Bits number;  ///< a or b, if it has no address
  zeros_behind<Bits, sizeof(Bits)> zeros{};

  SLUICE_HOST_DEVICE void operator()(const map_layout<4>&,
                                     const map_position<4>& position) const noexcept {
    const bool condition = element_at<std::uint8_t>(addresses.inputs[0], position.offsets[1]) != 0;
    const int chosen = condition ? 1 : 2;
    const void* const source = addresses.inputs[chosen];
    put_element(
        addresses.y, position.offsets[0],
        source == nullptr ? number : element_at<Bits>(source, position.offsets[chosen + 1]));
  }
};

namespace visiting {

/// Calls `run` with a number of a compute type.
template <class Run>
int with_compute_type(storage type, const Run& run) {
  switch (compute_type_of(type)) {
    case compute_type::i64:
      return run(std::int64_t{});
    case compute_type::u64:
      return run(std::uint64_t{});
    case compute_type::f32:
      return run(float{});
    case compute_type::f64:
      return run(double{});
    case compute_type::c64:
      return run(complex_number<float>{});
    case compute_type::c128:
      return run(complex_number<double>{});
  }
  return 0;
}

/// 16 bytes.
struct alignas(16) two_words {
  std::uint64_t low;
  std::uint64_t high;
};

/// Calls `run` with bits of a size in bytes: 1, 2, 4, 8 or 16.
template <class Run>
int with_bits(int size, const Run& run) {
  switch (size) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    case 8:
      return run(std::uint64_t{});
    default:
      return run(two_words{});
  }
}
/// Calls `run` with bits of the size of the elements of a type.
template <class Run>
int with_bits(storage type, const Run& run) {
  return with_bits(bytes_of(type), run);
}

}  // namespace visiting

template <class Run>
int visit(const cast_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_compute_type(call.through(), [&](auto number) {
    using type = decltype(number);
    if constexpr (!is_complex_v<type>) {
      using function = identity<type, overflow::becomes_infinite>;
      if (!call.saturates) return run(map_body<function, 2>{{}, addresses}, call.layout);
    }
    return run(map_body<identity<type>, 2>{{}, addresses}, call.layout);
  });
}

template <class Run>
int visit(const copy_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    return run(map_body<copied_bits<decltype(bits)>, 2>{{}, addresses}, call.layout);
  });
}

template <class Run>
int visit(const where_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_bits(call.layout.types[0], [&](auto bits) {
    return run(where_body<decltype(bits)>{addresses, call.number.bits<decltype(bits)>()},
               call.layout);
  });
}

template <class Run>
int visit(const affine_call& call, const map_addresses& addresses, const Run& run) {
  if (call.is_double()) {
    return run(map_body<scaled_and_shifted<double>, 4>{{call.factor, call.offset}, addresses},
               call.layout);
  }
  return run(
      map_body<scaled_and_shifted<float>, 4>{
          {static_cast<float>(call.factor), static_cast<float>(call.offset)}, addresses},
      call.layout);
}

template <class Run>
int visit(const scale_call& call, const map_addresses& addresses, const Run& run) {
  const double real = call.factor[0];
  const double imaginary = call.factor[1];
  const auto run_with = [&](auto factor) {
    using number = decltype(factor);
    return run(map_body<scaled<number>, 2>{scaled<number>(factor), addresses}, call.layout);
  };
  switch (call.layout.types[0]) {
    case storage::f16:
    case storage::bf16: {
      using function = scaled<float, false>;
      return run(map_body<function, 2>{function(static_cast<float>(real)), addresses}, call.layout);
    }
    case storage::f32:
      return run_with(static_cast<float>(real));
    case storage::f64:
      return run_with(real);
    case storage::c64:
      return run_with(
          complex_number<float>{static_cast<float>(real), static_cast<float>(imaginary)});
    case storage::c128:
      return run_with(complex_number<double>{real, imaginary});
    default:
      return 0;
  }
}

template <class Run>
int visit(const binary_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_compute_type(call.layout.types[1], [&](auto number) {
    using type = decltype(number);
    using function = binary_map<type>;
    number = load<type>(call.layout.types[1], call.number.bytes, 0);
    return run(map_body<function, 3>{function(call.function, number), addresses}, call.layout);
  });
}

template <class Run>
int visit(const unary_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_compute_type(call.layout.types[1], [&](auto number) {
    using type = decltype(number);
    if constexpr (is_complex_v<type>) {
      using parts = parts_map<typename type::value_type>;
      if (call.is_of_parts()) {
        return run(map_body<parts, 2>{parts(call.function), addresses}, call.layout);
      }
      const unary_map<type> function(call.function, {}, {});
      return run(map_body<unary_map<type>, 2>{function, addresses}, call.layout);
    } else {
      const unary_map<type> function(call.function, call.alpha.template get<type>(),
                                     call.beta.template get<type>());
      return run(map_body<unary_map<type>, 2>{function, addresses}, call.layout);
    }
  });
}

/// Calls `each` with a call for each instantiation of a map: instantiations depend on the types of
/// the operands, on whether a unary function takes the parts of a complex number, and on whether a
/// conversion saturates.
template <class Call, class Each>
void for_each_variant(const Each& each) {
  for (int type = 0; type <= static_cast<int>(storage::c128); ++type) {
    Call call{};
    for (auto& t : call.layout.types) t = static_cast<storage>(type);
    each(call);
    if constexpr (std::is_same_v<Call, unary_call>) {
      call.function = unary_function::abs;
      each(call);
    }
    if constexpr (std::is_same_v<Call, cast_call>) {
      call.saturates = false;
      each(call);
    }
  }
}

}  // namespace sluice::operations
