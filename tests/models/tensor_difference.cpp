// SPDX-License-Identifier: Apache-2.0
#include "tests/models/tensor_difference.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <vector>

namespace sluice::test {

namespace {

template <class T>
std::vector<double> as_reals(const host_tensor& x) {
  std::vector<double> numbers;
  for (const auto& number : x.values<T>()) {
    if constexpr (requires { number.bits; }) {
      numbers.push_back(static_cast<float>(number));
    } else if constexpr (std::is_arithmetic_v<T>) {
      numbers.push_back(static_cast<double>(number));
    } else {
      numbers.push_back(number.real());
      numbers.push_back(number.imag());
    }
  }
  return numbers;
}
/// Parts of complex numbers count as numbers. Empty for integers.
std::vector<double> reals_of(const host_tensor& x) {
  switch (x.type()) {
    case element_type::e4m3:
      return as_reals<e4m3>(x);
    case element_type::e5m2:
      return as_reals<e5m2>(x);
    case element_type::f16:
      return as_reals<f16>(x);
    case element_type::bf16:
      return as_reals<bf16>(x);
    case element_type::f32:
      return as_reals<float>(x);
    case element_type::f64:
      return as_reals<double>(x);
    case element_type::c64:
      return as_reals<std::complex<float>>(x);
    case element_type::c128:
      return as_reals<std::complex<double>>(x);
    default:
      return {};
  }
}

}  // namespace

std::string difference(const host_tensor& found, const host_tensor& expected,
                       const tolerance& allowed) {
  const auto text = [](const host_tensor& x) {
    return std::string(to_string(x.type())) + to_string(x.shape());
  };
  if (found.type() != expected.type() || found.shape() != expected.shape()) {
    return text(found) + " instead of " + text(expected);
  }
  if (expected.size() == 0) return {};
  const auto numbers = reals_of(expected);
  if (numbers.empty()) {
    if (std::memcmp(found.data().get(), expected.data().get(), expected.bytes()) == 0) return {};
    return "other elements";
  }
  const auto others = reals_of(found);
  auto relative = allowed.relative;
  if (expected.type() == element_type::bf16) relative = std::max(relative, 0x1p-6);
  if (expected.type() == element_type::f16) relative = std::max(relative, 0x1p-9);
  std::size_t count = 0;
  std::string first;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool equal =
        others[i] == numbers[i] || (std::isnan(others[i]) && std::isnan(numbers[i])) ||
        std::abs(others[i] - numbers[i]) <= allowed.absolute + relative * std::abs(numbers[i]);
    // An infinite bound allows nothing else.
    if (equal && std::isfinite(others[i]) == std::isfinite(numbers[i])) continue;
    if (count++ == 0) {
      first = "element " + std::to_string(i) + " is " + std::to_string(others[i]) + " instead of " +
              std::to_string(numbers[i]);
    }
  }
  if (count == 0) return {};
  return first + " (" + std::to_string(count) + " of " + std::to_string(numbers.size()) + ")";
}

}  // namespace sluice::test
