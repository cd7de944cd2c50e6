// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compiles as C++17, because kernels of users take scalars.

#include <sluice/export.hpp>
#include <sluice/runtime/float16.hpp>
#include <sluice/runtime/float8.hpp>

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace sluice {

/// A number among the parameters of an operation: an integer, a real or a complex number.
///
///     gemm{.a = a, .b = b, .alpha = 0.5, .beta = 1}
///
/// An operation converts it once, to the type in which it computes. Until then no digit is lost.
/// Scalars are values; different copies may be used on different threads.
class SLUICE_EXPORT scalar {
 public:
  /// The kind of number that a scalar was made from. A scalar `of_program` is a number that each
  /// run of a program gives.
  enum class kind : std::uint8_t { signed_integer, unsigned_integer, real, complex, of_program };

  constexpr scalar() noexcept : scalar(0) {}
  /// The integer `value`; 1 for true, 0 for false.
  template <class T, std::enable_if_t<std::is_integral_v<T>, int> = 0>
  // NOLINTNEXTLINE(google-explicit-constructor): numbers are written as they are.
  constexpr scalar(T value) noexcept
      : integer_(static_cast<std::uint64_t>(value)),
        kind_(std::is_signed_v<T> ? kind::signed_integer : kind::unsigned_integer) {}
  /// The real number `value`.
  // NOLINTNEXTLINE(google-explicit-constructor): numbers are written as they are.
  constexpr scalar(double value) noexcept : real_(value), kind_(kind::real) {}
  /// The complex number `value`.
  ///@{
  // NOLINTNEXTLINE(google-explicit-constructor): numbers are written as they are.
  constexpr scalar(const std::complex<double>& value) noexcept
      : real_(value.real()), imaginary_(value.imag()), kind_(kind::complex) {}
  // NOLINTNEXTLINE(google-explicit-constructor): numbers are written as they are.
  constexpr scalar(const std::complex<float>& value) noexcept
      : real_(value.real()), imaginary_(value.imag()), kind_(kind::complex) {}
  ///@}

  /// @cond for programs
  /// The scalar `number` of the program `program`; see `program_builder::scalar`.
  [[nodiscard]] static constexpr scalar of_program(std::uint64_t program,
                                                   std::uint32_t number) noexcept {
    scalar result(program);
    result.number_ = number;
    result.kind_ = kind::of_program;
    return result;
  }
  [[nodiscard]] constexpr bool is_of_program() const noexcept { return kind_ == kind::of_program; }
  [[nodiscard]] constexpr std::uint64_t program() const noexcept { return integer_; }
  [[nodiscard]] constexpr std::uint32_t number() const noexcept { return number_; }
  /// @endcond

  /// The number as a `T`, which is float, double, a complex number of these, `f16`, `bf16`,
  /// `e4m3`, `e5m2`, `std::int64_t` or `std::uint64_t`. A real number is rounded to the nearest
  /// `T`. `argument` is the name in errors.
  /// @throws error `invalid_argument` if the number is not finite, or out of the range of `T`
  /// @throws error `invalid_argument` if the number has an imaginary part and `T` is real
  /// @throws error `invalid_argument` if `T` is an integer and the number is not
  /// @throws error `invalid_argument` if the scalar is one of a program
  template <class T>
  [[nodiscard]] T to(std::string_view argument) const;

  /// The real number, if it is infinite or NaN. `to` refuses it.
  [[nodiscard]] std::optional<double> non_finite() const noexcept;
  /// Whether the number is 0.
  [[nodiscard]] bool is_zero() const noexcept;
  /// The number in decimal digits: "0.5", "1-2i". The digits of a real number identify it.
  [[nodiscard]] std::string text() const;
  /// Whether both are the same number of the same kind. A NaN equals no number.
  [[nodiscard]] friend bool operator==(const scalar& a, const scalar& b) noexcept {
    return a.kind_ == b.kind_ && a.integer_ == b.integer_ && a.real_ == b.real_ &&
           a.imaginary_ == b.imaginary_ && a.number_ == b.number_;
  }
  /// The opposite of `==`.
  [[nodiscard]] friend bool operator!=(const scalar& a, const scalar& b) noexcept {
    return !(a == b);
  }

 private:
  /// The number in more bits than those of `T`, such that it is rounded once.
  template <class T>
  [[nodiscard]] T to_short(std::string_view argument, const char* range) const;

  std::uint64_t integer_ = 0;  // 0 for real and complex numbers; the program
  double real_ = 0;            // 0 for integers
  double imaginary_ = 0;
  std::uint32_t number_ = 0;  // among the scalars of the program
  kind kind_ = kind::signed_integer;
};

/// @cond the conversions that there are
template <>
SLUICE_EXPORT float scalar::to<float>(std::string_view argument) const;
template <>
SLUICE_EXPORT f16 scalar::to<f16>(std::string_view argument) const;
template <>
SLUICE_EXPORT bf16 scalar::to<bf16>(std::string_view argument) const;
template <>
SLUICE_EXPORT e4m3 scalar::to<e4m3>(std::string_view argument) const;
template <>
SLUICE_EXPORT e5m2 scalar::to<e5m2>(std::string_view argument) const;
template <>
SLUICE_EXPORT double scalar::to<double>(std::string_view argument) const;
template <>
SLUICE_EXPORT std::complex<float> scalar::to<std::complex<float>>(std::string_view argument) const;
template <>
SLUICE_EXPORT std::complex<double> scalar::to<std::complex<double>>(
    std::string_view argument) const;
template <>
SLUICE_EXPORT std::int64_t scalar::to<std::int64_t>(std::string_view argument) const;
template <>
SLUICE_EXPORT std::uint64_t scalar::to<std::uint64_t>(std::string_view argument) const;
/// @endcond

}  // namespace sluice
