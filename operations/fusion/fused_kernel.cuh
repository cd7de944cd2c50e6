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
struct stored<storage::e4m3> {
  using type = std::uint8_t;
};
template <>
struct stored<storage::e5m2> {
  using type = std::uint8_t;
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

/// Whether two elements of a type lie in one register, so that instructions take both at once.
template <storage Type>
inline constexpr bool is_paired = Type == storage::f16 || Type == storage::bf16;

/// Elements that are read, computed and written at once. Two of 16 bits are one number of 32 bits,
/// the first one in the lower half.
template <storage Type, int Size>
struct alignas(Size * sizeof(stored_t<Type>)) fused_elements {
  static constexpr int per_part = is_paired<Type> && Size > 1 ? 2 : 1;
  using part = std::conditional_t<per_part == 2, std::uint32_t, stored_t<Type>>;
  static constexpr int part_count = Size / per_part;
  part parts[part_count];
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

/// The element `j`.
template <storage Type, int Size>
[[nodiscard]] __device__ __forceinline__ stored_t<Type> element_of(
    const fused_elements<Type, Size>& x, int j) {
  if constexpr (fused_elements<Type, Size>::per_part == 2) {
    return static_cast<stored_t<Type>>(x.parts[j / 2] >> (j % 2 * 16));
  } else {
    return x.parts[j];
  }
}
/// Reads or writes elements without gaps.
///@{
template <storage Type, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Type, Size> elements_at(
    const stored_t<Type>* source) {
  return *reinterpret_cast<const fused_elements<Type, Size>*>(source);
}
template <storage Type, int Size>
__device__ __forceinline__ void put_elements(stored_t<Type>* target,
                                             const fused_elements<Type, Size>& elements) {
  *reinterpret_cast<fused_elements<Type, Size>*>(target) = elements;
}
///@}
/// The same element `Size` times.
template <storage Type, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Type, Size> repeated(
    stored_t<Type> element) {
  fused_elements<Type, Size> y;
#pragma unroll
  for (auto& part : y.parts) {
    if constexpr (fused_elements<Type, Size>::per_part == 2) {
      part = element * 0x10001U;
    } else {
      part = element;
    }
  }
  return y;
}
/// Two numbers as elements of 16 bits.
template <storage Type, overflow Overflow, class T>
[[nodiscard]] __device__ __forceinline__ std::uint32_t make_pair(T first, T second) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    std::uint32_t pair;
    if constexpr (Type == storage::f16) {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    } else {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    }
    return pair;
  }
#endif
  return make_element<Type, Overflow>(first) |
         static_cast<std::uint32_t>(make_element<Type, Overflow>(second)) << 16U;
}
/// The elements `function(j)`, numbers of a compute type.
template <storage Type, int Size, overflow Overflow, class Function>
[[nodiscard]] __device__ __forceinline__ fused_elements<Type, Size> make_elements(
    const Function& function) {
  using elements = fused_elements<Type, Size>;
  elements y;
#pragma unroll
  for (int i = 0; i < elements::part_count; ++i) {
    if constexpr (elements::per_part == 2) {
      y.parts[i] = make_pair<Type, Overflow>(function(2 * i), function(2 * i + 1));
    } else {
      y.parts[i] = make_element<Type, Overflow>(function(i));
    }
  }
  return y;
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

/// Functions of two f16 at once. A result of f16 is the nearest one, also if it is rounded to f32
/// first, as that has more than twice the digits.
///@{
[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool takes_pairs(binary_function f) {
  using function = binary_function;
#if __CUDA_ARCH__ >= 800
  if (f == function::maximum || f == function::minimum) return true;
#endif
  return f == function::add || f == function::subtract || f == function::multiply;
}
[[nodiscard]] SLUICE_HOST_DEVICE constexpr bool takes_pairs(unary_function f) {
  using function = unary_function;
#if __CUDA_ARCH__ >= 800
  if (f == function::relu) return true;
#endif
  return f == function::negate || f == function::abs;
}
template <binary_function F>
[[nodiscard]] __device__ __forceinline__ std::uint32_t apply_to_pair(std::uint32_t a,
                                                                     std::uint32_t b) {
  std::uint32_t y = 0;
  if constexpr (F == binary_function::add) {
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  } else if constexpr (F == binary_function::subtract) {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  } else if constexpr (F == binary_function::multiply) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  } else if constexpr (F == binary_function::maximum) {
    asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  } else {
    asm("min.NaN.f16x2 %0, %1, %2;" : "=r"(y) : "r"(a), "r"(b));
  }
  return y;
}
template <unary_function F>
[[nodiscard]] __device__ __forceinline__ std::uint32_t apply_to_pair(std::uint32_t x) {
  if constexpr (F == unary_function::negate) {
    return x ^ 0x80008000U;
  } else if constexpr (F == unary_function::abs) {
    return x & 0x7fff7fffU;
  } else {
    return apply_to_pair<binary_function::maximum>(x, 0);
  }
}
///@}

/// The root of an f16, without a branch for numbers that only f32 has: an approximation and a step
/// of Newton's method.
[[nodiscard]] __device__ __forceinline__ float root_of_half(float x) {
  float reciprocal;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  const float root = x * reciprocal;
  const float nearest = fmaf(fmaf(-root, root, x), 0.5F * reciprocal, root);
  return x * x == x ? x : nearest;  // 0, 1 and infinity
}

/// The functions of maps.
///@{
template <binary_function F, class T, storage Y, storage X, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> binary_of(
    const fused_elements<X, Size>& a, const fused_elements<X, Size>& b) {
  if constexpr (X == storage::f16 && Y == X && Size > 1 && takes_pairs(F)) {
    fused_elements<Y, Size> y;
#pragma unroll
    for (int i = 0; i < y.part_count; ++i) y.parts[i] = apply_to_pair<F>(a.parts[i], b.parts[i]);
    return y;
  } else {
    return make_elements<Y, Size, overflow::wraps>([&](int j) {
      return apply(F, read_element<T, X>(element_of(a, j)), read_element<T, X>(element_of(b, j)));
    });
  }
}
template <unary_function F, class T, storage Y, storage X, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> unary_of(
    const fused_elements<X, Size>& x, const std::uint64_t (&bits)[2]) {
  if constexpr (X == storage::f16 && Y == X && Size > 1 && takes_pairs(F)) {
    fused_elements<Y, Size> y;
#pragma unroll
    for (int i = 0; i < y.part_count; ++i) y.parts[i] = apply_to_pair<F>(x.parts[i]);
    return y;
  } else {
    return make_elements<Y, Size, overflow::wraps>([&](int j) {
      const auto value = read_element<T, X>(element_of(x, j));
      if constexpr (X == storage::f16 && F == unary_function::sqrt) {
        return root_of_half(value);
      } else if constexpr (is_complex_v<T>) {
        return apply(F, value, T{}, T{});
      } else {
        return apply(F, value, parameter<T>(bits[0]), parameter<T>(bits[1]));
      }
    });
  }
}
template <unary_function F, storage Y, storage X, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> part_of(
    const fused_elements<X, Size>& z) {
  fused_elements<Y, Size> y;
#pragma unroll
  for (int j = 0; j < Size; ++j) y.parts[j] = apply_to_parts(F, z.parts[j]);
  return y;
}
template <class T, overflow Overflow, storage Y, storage X, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> cast_of(
    const fused_elements<X, Size>& x) {
  return make_elements<Y, Size, Overflow>(
      [&](int j) { return read_element<T, X>(element_of(x, j)); });
}
/// `scale(j)` and `bias(j)` are the parameters of the element `j`.
template <class T, storage Y, storage X, int Size, class Scale, class Bias>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> affine_of(
    const fused_elements<X, Size>& x, const Scale& scale, const Bias& bias) {
  return make_elements<Y, Size, overflow::saturates>(
      [&](int j) { return read_element<T, X>(element_of(x, j)) * scale(j) + bias(j); });
}
template <storage Y, storage Condition, int Size>
[[nodiscard]] __device__ __forceinline__ fused_elements<Y, Size> where_of(
    const fused_elements<Condition, Size>& condition, const fused_elements<Y, Size>& a,
    const fused_elements<Y, Size>& b) {
  using elements = fused_elements<Y, Size>;
  elements y;
  const auto chosen = [&](int j) {
    return element_of(condition, j) != 0 ? element_of(a, j) : element_of(b, j);
  };
#pragma unroll
  for (int i = 0; i < elements::part_count; ++i) {
    if constexpr (elements::per_part == 2) {
      y.parts[i] = chosen(2 * i) | static_cast<std::uint32_t>(chosen(2 * i + 1)) << 16U;
    } else {
      y.parts[i] = chosen(i);
    }
  }
  return y;
}
///@}

}  // namespace sluice::operations
