// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/elementwise/functors.hpp"
#include "operations/elementwise/strided_map.hpp"
#include "operations/fusion/fused_kernel.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

// What generated kernels consist of. They are compiled while a program runs, as C++17, with this
// header, those that it includes, and operations/fusion/device/standard.hpp as standard library.
namespace sluice::operations {

/// How the elements of a type lie in registers.
template <storage Type>
struct stored;
template <>
struct stored<storage::boolean> {
  using type = std::uint8_t;
};
template <>
struct stored<storage::u8> {
  using type = std::uint8_t;
};
template <>
struct stored<storage::i8> {
  using type = std::int8_t;
};
template <>
struct stored<storage::u16> {
  using type = std::uint16_t;
};
template <>
struct stored<storage::i16> {
  using type = std::int16_t;
};
template <>
struct stored<storage::i32> {
  using type = std::int32_t;
};
template <>
struct stored<storage::u32> {
  using type = std::uint32_t;
};
template <>
struct stored<storage::i64> {
  using type = std::int64_t;
};
template <>
struct stored<storage::u64> {
  using type = std::uint64_t;
};
template <>
struct stored<storage::f16> {
  using type = std::uint16_t;
};
template <>
struct stored<storage::bf16> {
  using type = std::uint16_t;
};
template <>
struct stored<storage::f32> {
  using type = float;
};
template <>
struct stored<storage::f64> {
  using type = double;
};
template <>
struct stored<storage::c64> {
  using type = complex_number<float>;
};
template <>
struct stored<storage::c128> {
  using type = complex_number<double>;
};
template <storage Type>
using stored_t = typename stored<Type>::type;

/// Elements that are read or written at once.
template <class Element, int Size>
struct alignas(Size * sizeof(Element)) fused_vector {
  Element elements[Size];
};

/// An element as the compute type `T`; see `load`.
template <class T, storage Type>
[[nodiscard]] __device__ __forceinline__ T read_element(stored_t<Type> element) {
  if constexpr (Type == storage::f16 && std::is_floating_point_v<T>) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(element));
    return static_cast<T>(value);
  } else {
    return load<T>(Type, &element, 0);
  }
}

/// A number of a compute type as an element; see `store`.
template <storage Type, overflow Overflow, class T>
[[nodiscard]] __device__ __forceinline__ stored_t<Type> make_element(T value) {
  stored_t<Type> element;
  if constexpr (Type == storage::f16 && std::is_same_v<T, float>) {
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(element) : "f"(value));
#if __CUDA_ARCH__ >= 900
  } else if constexpr (Type == storage::bf16 && std::is_same_v<T, float>) {
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(element) : "f"(value));
#endif
  } else {
    store<Overflow>(Type, &element, 0, value);
  }
  return element;
}

/// A parameter in a compute type.
template <class T>
[[nodiscard]] __device__ __forceinline__ T parameter(std::uint64_t bits) {
  T value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/// A number that stands for an input.
template <storage Type>
[[nodiscard]] __device__ __forceinline__ stored_t<Type> number_of(const std::uint64_t (&bits)[2]) {
  stored_t<Type> element;
  memcpy(&element, bits, sizeof element);
  return element;
}

/// The functions of maps.
///@{
template <binary_function F, class T, storage Y, storage X>
[[nodiscard]] __device__ __forceinline__ stored_t<Y> binary_of(stored_t<X> a, stored_t<X> b) {
  return make_element<Y, overflow::wraps>(apply(F, read_element<T, X>(a), read_element<T, X>(b)));
}
template <unary_function F, class T, storage Y, storage X>
[[nodiscard]] __device__ __forceinline__ stored_t<Y> unary_of(stored_t<X> x,
                                                              const std::uint64_t (&bits)[2]) {
  if constexpr (is_complex_v<T>) {
    return make_element<Y, overflow::wraps>(apply(F, read_element<T, X>(x), T{}, T{}));
  } else {
    return make_element<Y, overflow::wraps>(
        apply(F, read_element<T, X>(x), parameter<T>(bits[0]), parameter<T>(bits[1])));
  }
}
template <unary_function F, storage Y, storage X>
[[nodiscard]] __device__ __forceinline__ stored_t<Y> part_of(stored_t<X> z) {
  return apply_to_parts(F, z);
}
template <class T, storage Y, storage X>
[[nodiscard]] __device__ __forceinline__ stored_t<Y> cast_of(stored_t<X> x) {
  return make_element<Y, overflow::saturates>(read_element<T, X>(x));
}
template <class T, storage Y, storage X>
[[nodiscard]] __device__ __forceinline__ stored_t<Y> affine_of(stored_t<X> x, T scale, T bias) {
  const T value = read_element<T, X>(x) * scale + bias;
  return make_element<Y, overflow::saturates>(value);
}
///@}

}  // namespace sluice::operations
