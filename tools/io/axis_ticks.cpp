// SPDX-License-Identifier: Apache-2.0
#include "tools/io/axis_ticks.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace sluice::io {

namespace {

std::string label_of(double value, int decimals) {
  std::array<char, 64> text{};
  const auto written = std::to_chars(text.data(), text.data() + text.size(), std::abs(value),
                                     std::chars_format::fixed, decimals);
  // A value that is too long in fixed notation uses the shortest one.
  const char* const begin = text.data();
  const char* const end =
      written.ec == std::errc{}
          ? written.ptr
          : std::to_chars(text.data(), text.data() + text.size(), std::abs(value)).ptr;
  const std::string digits(begin, end);
  const bool zero = digits.find_first_not_of("0.") == std::string::npos;
  return value < 0 && !zero ? "\u2212" + digits : digits;
}

/// The smallest of 1, 2 and 5 times a power of ten that is at least `smallest`, and the number of
/// decimals of its multiples.
struct tick_step {
  double size = 1;
  int decimals = 0;
};

tick_step step_from(double smallest) {
  const double exponent = std::floor(std::log10(smallest));
  const double power = std::pow(10.0, exponent);
  double factor = 10;
  for (const double candidate : {1.0, 2.0, 5.0})
    if (candidate * power >= smallest * (1 - 1e-9)) {
      factor = candidate;
      break;
    }
  const double decimals = factor == 10 ? -exponent - 1 : -exponent;
  return {factor * power, static_cast<int>(std::clamp(decimals, 0.0, 12.0))};
}

}  // namespace

std::vector<axis_tick> linear_ticks(double low, double high, int most) {
  if (!(high > low)) return {{low, label_of(low, low == std::floor(low) ? 0 : 3)}};
  const tick_step step = step_from((high - low) / most);
  const double slack = 1e-9 * (high - low);
  std::vector<axis_tick> ticks;
  for (double multiple = std::ceil((low - slack) / step.size);
       multiple * step.size <= high + slack && ticks.size() <= static_cast<std::size_t>(most);
       ++multiple)
    ticks.push_back({multiple * step.size, label_of(multiple * step.size, step.decimals)});
  return ticks;
}

std::vector<axis_tick> frequency_ticks(double low, double high,
                                       const std::function<double(double)>& position,
                                       double distance) {
  constexpr double minor_distance = 5;
  std::vector<double> labelled;
  std::vector<double> minor;
  const auto fits = [&](const std::vector<double>& others, double hertz, double apart) {
    return hertz >= low && hertz <= high &&
           std::all_of(others.begin(), others.end(), [&](double other) {
             return std::abs(position(hertz) - position(other)) >= apart;
           });
  };
  if (low <= 0 && high >= 0) labelled.push_back(0);
  for (const std::array<double, 2>& factors : {std::array{1.0, 1.0}, std::array{2.0, 5.0}})
    for (int exponent = 9; exponent >= 0; --exponent)
      for (const double factor : factors) {
        const double hertz = factor * std::pow(10.0, exponent);
        if (fits(labelled, hertz, distance)) labelled.push_back(hertz);
      }
  if (labelled.size() < 3) {
    const double pixels = std::abs(position(high) - position(low));
    return linear_ticks(low, high, std::max(1, static_cast<int>(pixels / distance)));
  }
  for (int exponent = 9; exponent >= 0; --exponent)
    for (int factor = 9; factor >= 1; --factor) {
      const double hertz = factor * std::pow(10.0, exponent);
      if (fits(labelled, hertz, minor_distance) && fits(minor, hertz, minor_distance))
        minor.push_back(hertz);
    }
  std::vector<axis_tick> ticks;
  ticks.reserve(labelled.size() + minor.size());
  for (const double hertz : labelled) ticks.push_back({hertz, label_of(hertz, 0)});
  for (const double hertz : minor) ticks.push_back({hertz, {}});
  return ticks;
}

}  // namespace sluice::io
