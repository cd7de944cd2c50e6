// SPDX-License-Identifier: Apache-2.0
#include "models/host_numbers.hpp"

#include <sluice/runtime/error.hpp>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

namespace sluice::models {

namespace {

/// Calls `work` with a value of the C++ type of an element type.
template <class Work>
auto with_type(element_type type, const Work& work) {
  switch (type) {
    case element_type::boolean:
      return work(bool{});
    case element_type::u8:
      return work(std::uint8_t{});
    case element_type::i8:
      return work(std::int8_t{});
    case element_type::u16:
      return work(std::uint16_t{});
    case element_type::i16:
      return work(std::int16_t{});
    case element_type::i32:
      return work(std::int32_t{});
    case element_type::u32:
      return work(std::uint32_t{});
    case element_type::i64:
      return work(std::int64_t{});
    case element_type::u64:
      return work(std::uint64_t{});
    case element_type::e4m3:
      return work(e4m3{});
    case element_type::e5m2:
      return work(e5m2{});
    case element_type::f16:
      return work(f16{});
    case element_type::bf16:
      return work(bf16{});
    case element_type::f32:
      return work(float{});
    case element_type::f64:
      return work(double{});
    case element_type::c64:
      return work(std::complex<float>{});
    case element_type::c128:
      return work(std::complex<double>{});
  }
  throw error(errc::invalid_argument, "no element type");
}

template <class T>
constexpr bool is_short_real = std::is_same_v<T, e4m3> || std::is_same_v<T, e5m2> ||
                               std::is_same_v<T, f16> || std::is_same_v<T, bf16>;

}  // namespace

std::vector<std::int64_t> integers_in(const host_tensor& x) {
  return with_type(x.type(), [&](auto type) -> std::vector<std::int64_t> {
    using T = decltype(type);
    if constexpr (std::is_integral_v<T>) {
      std::vector<std::int64_t> numbers;
      numbers.reserve(x.size());
      for (const auto number : x.values<T>()) {
        if constexpr (std::is_same_v<T, std::uint64_t>) {
          if (number >> 63U != 0) {
            throw error(errc::invalid_argument, "a number out of the range of i64");
          }
        }
        numbers.push_back(static_cast<std::int64_t>(number));
      }
      return numbers;
    } else {
      throw error(errc::invalid_argument,
                  "numbers of type " + std::string(to_string(x.type())) + " instead of integers");
    }
  });
}

std::vector<double> reals_in(const host_tensor& x) {
  return reals_in(x, 0, x.size());
}

std::vector<double> reals_in(const host_tensor& x, std::size_t first, std::size_t count) {
  if (x.type() == element_type::c64 || x.type() == element_type::c128)
    throw error(errc::invalid_argument, "complex numbers instead of real ones");
  const auto size = size_of(x.type());
  host_tensor part(x.type(), {static_cast<std::int64_t>(count)});
  std::memcpy(part.data().get(), static_cast<const std::byte*>(x.data().get()) + first * size,
              count * size);
  const auto numbers = part.to(element_type::f64);
  const auto values = numbers.values<double>();
  return {values.begin(), values.end()};
}

host_tensor number_of_type(element_type type, double number) {
  host_tensor result(type, {});
  with_type(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_arithmetic_v<T>) {
      result.values<T>()[0] = static_cast<T>(number);
    } else if constexpr (is_short_real<T>) {
      result.values<T>()[0] = T(static_cast<float>(number));
    } else {
      throw error(errc::unsupported, "a complex number");
    }
  });
  return result;
}

}  // namespace sluice::models
