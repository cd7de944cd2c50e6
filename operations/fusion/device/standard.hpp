// SPDX-License-Identifier: Apache-2.0
#ifndef SLUICE_OPERATIONS_FUSION_DEVICE_STANDARD_HPP
#define SLUICE_OPERATIONS_FUSION_DEVICE_STANDARD_HPP

// What the headers of kernels need of the standard library, for a compiler that has no headers. It
// stands for each of <cmath>, <cstddef>, <cstdint>, <cstring>, <limits> and <type_traits>.

#define NAN __int_as_float(0x7fffffff)
#define INFINITY __int_as_float(0x7f800000)

namespace std {

using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;
using size_t = decltype(sizeof(0));

template <class T, T Value>
struct integral_constant {
  using value_type = T;
  static constexpr T value = Value;
  constexpr operator T() const noexcept { return Value; }
};
template <bool Value>
using bool_constant = integral_constant<bool, Value>;

template <bool Condition, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool Condition, class T, class F>
using conditional_t = typename conditional<Condition, T, F>::type;

template <class T, class U>
inline constexpr bool is_same_v = false;
template <class T>
inline constexpr bool is_same_v<T, T> = true;
template <class T>
inline constexpr bool is_class_v = __is_class(T);
template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = false;
template <>
inline constexpr bool is_integral_v<bool> = true;
template <>
inline constexpr bool is_integral_v<char> = true;
template <>
inline constexpr bool is_integral_v<signed char> = true;
template <>
inline constexpr bool is_integral_v<unsigned char> = true;
template <>
inline constexpr bool is_integral_v<short> = true;
template <>
inline constexpr bool is_integral_v<unsigned short> = true;
template <>
inline constexpr bool is_integral_v<int> = true;
template <>
inline constexpr bool is_integral_v<unsigned int> = true;
template <>
inline constexpr bool is_integral_v<long> = true;
template <>
inline constexpr bool is_integral_v<unsigned long> = true;
template <>
inline constexpr bool is_integral_v<long long> = true;
template <>
inline constexpr bool is_integral_v<unsigned long long> = true;
template <class T>
inline constexpr bool is_unsigned_v = is_integral_v<T>&& T(-1) > T(0);
template <class T>
inline constexpr bool is_signed_v = is_floating_point_v<T> ||
                                    (is_integral_v<T> && !is_unsigned_v<T>);

template <class T>
struct numeric_limits {
  static constexpr T max() noexcept {
    return is_unsigned_v<T> ? T(-1)
                            : T((T(1) << (8 * sizeof(T) - 2)) - 1 + (T(1) << (8 * sizeof(T) - 2)));
  }
  static constexpr T lowest() noexcept { return is_unsigned_v<T> ? T(0) : T(-max() - 1); }
};
template <>
struct numeric_limits<float> {
  static constexpr float max() noexcept { return 3.40282346638528859812e+38F; }
  static constexpr float lowest() noexcept { return -max(); }
};
template <>
struct numeric_limits<double> {
  static constexpr double max() noexcept { return 1.79769313486231570815e+308; }
  static constexpr double lowest() noexcept { return -max(); }
};

using ::memcpy;

using ::abs;
using ::acos;
using ::acosh;
using ::asin;
using ::asinh;
using ::atan;
using ::atan2;
using ::atanh;
using ::ceil;
using ::copysign;
using ::cos;
using ::cosh;
using ::erf;
using ::exp;
using ::exp2;
using ::expm1;
using ::floor;
using ::fmod;
using ::hypot;
using ::log;
using ::log10;
using ::log1p;
using ::log2;
using ::pow;
using ::rint;
using ::sin;
using ::sinh;
using ::sqrt;
using ::tan;
using ::tanh;
using ::trunc;

}  // namespace std

#endif
