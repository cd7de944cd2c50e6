// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"

#include <cstdint>

// The maps that both devices compute. A call has no addresses. `visit` calls `run(body, layout)`
// with the body of the loop for the types of a call, and returns its status. The status is 0 where
// a map does not take the types. Kernels include this header, so it compiles as C++17.
namespace sluice::operations {

/// y = x, converted. Operands: y, x.
struct cast_call {
  map_layout<2> layout{};

  /// A type through which the conversion rounds once. Where several do, f32, which is the fastest.
  [[nodiscard]] storage through() const noexcept {
    const auto x = layout.types[1];
    const auto y = layout.types[0];
    const bool is_small =
        x == storage::boolean || x == storage::u8 || x == storage::i8 || x == storage::u16;
    const bool is_complex = x == storage::c64 || x == storage::c128;
    if (y == storage::f32 && !is_complex) return storage::f32;
    return is_small && (y == storage::f16 || y == storage::bf16) ? storage::f32 : x;
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

/// y = x · factor, for floating-point types of 32 bits and more. Operands: y, x, of equal types.
struct scale_call {
  map_layout<2> layout{};
  double factor[2]{};  ///< real and imaginary part; exact in the type
};

/// y = a ∘ b. Operands: y, a, b, of equal types.
struct binary_call {
  map_layout<3> layout{};
  std::int64_t functor = 0;  ///< index in `binary_functors`
};

namespace visiting {

template <template <class> class Function, int Operands, class Run>
int with_compute_type(storage type, const map_layout<Operands>& layout,
                      const map_addresses& addresses, const Run& run) {
  switch (compute_type_of(type)) {
    case compute_type::i64:
      return run(map_body<Function<std::int64_t>, Operands>{{}, addresses}, layout);
    case compute_type::u64:
      return run(map_body<Function<std::uint64_t>, Operands>{{}, addresses}, layout);
    case compute_type::f32:
      return run(map_body<Function<float>, Operands>{{}, addresses}, layout);
    case compute_type::f64:
      return run(map_body<Function<double>, Operands>{{}, addresses}, layout);
    case compute_type::c64:
      return run(map_body<Function<complex_number<float>>, Operands>{{}, addresses}, layout);
    case compute_type::c128:
      return run(map_body<Function<complex_number<double>>, Operands>{{}, addresses}, layout);
  }
  return 0;
}

template <class Functor, class Run>
int binary(const binary_call& call, const map_addresses& addresses, const Run& run) {
  const auto run_with = [&](auto number) {
    using body = map_body<binary_function<Functor, decltype(number)>, 3>;
    return run(body{{}, addresses}, call.layout);
  };
  const auto type = compute_type_of(call.layout.types[0]);
  switch (type) {
    case compute_type::i64:
      return run_with(std::int64_t{});
    case compute_type::u64:
      return run_with(std::uint64_t{});
    case compute_type::f32:
      return run_with(float{});
    case compute_type::f64:
      return run_with(double{});
    case compute_type::c64:
    case compute_type::c128:
      if constexpr (Functor::takes_complex) {
        return type == compute_type::c64 ? run_with(complex_number<float>{})
                                         : run_with(complex_number<double>{});
      }
  }
  return 0;
}

template <class... Functors, class Run>
int one_of(functor_list<Functors...>, const binary_call& call, const map_addresses& addresses,
           const Run& run) {
  int status = 0;
  std::int64_t index = 0;
  (void)((index++ == call.functor && (status = binary<Functors>(call, addresses, run), true)) ||
         ...);
  return status;
}

/// 16 bytes.
struct alignas(16) two_words {
  std::uint64_t low;
  std::uint64_t high;
};

}  // namespace visiting

template <class Run>
int visit(const cast_call& call, const map_addresses& addresses, const Run& run) {
  return visiting::with_compute_type<identity>(call.through(), call.layout, addresses, run);
}

template <class Run>
int visit(const copy_call& call, const map_addresses& addresses, const Run& run) {
  switch (call.layout.types[0]) {
    case storage::boolean:
    case storage::u8:
    case storage::i8:
      return run(map_body<copied_bits<std::uint8_t>, 2>{{}, addresses}, call.layout);
    case storage::u16:
    case storage::f16:
    case storage::bf16:
      return run(map_body<copied_bits<std::uint16_t>, 2>{{}, addresses}, call.layout);
    case storage::i32:
    case storage::u32:
    case storage::f32:
      return run(map_body<copied_bits<std::uint32_t>, 2>{{}, addresses}, call.layout);
    case storage::i64:
    case storage::u64:
    case storage::f64:
    case storage::c64:
      return run(map_body<copied_bits<std::uint64_t>, 2>{{}, addresses}, call.layout);
    case storage::c128:
      return run(map_body<copied_bits<visiting::two_words>, 2>{{}, addresses}, call.layout);
  }
  return 0;
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
  return visiting::one_of(binary_functors{}, call, addresses, run);
}

/// Calls `each` with a call for each instantiation of a map: instantiations depend on the types of
/// the operands and on the functor.
///@{
template <class Call>
void set_functor(Call&, std::int64_t) noexcept {}
inline void set_functor(binary_call& call, std::int64_t functor) noexcept {
  call.functor = functor;
}
template <class... Functors>
[[nodiscard]] constexpr std::int64_t count_of(functor_list<Functors...>) noexcept {
  return sizeof...(Functors);
}
template <class Call, class Each>
void for_each_variant(const Each& each) {
  for (int type = 0; type <= static_cast<int>(storage::c128); ++type) {
    Call call{};
    for (auto& t : call.layout.types) t = static_cast<storage>(type);
    for (std::int64_t functor = 0; functor < count_of(binary_functors{}); ++functor) {
      set_functor(call, functor);
      each(call);
    }
  }
}
///@}

}  // namespace sluice::operations
