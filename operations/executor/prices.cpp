// SPDX-License-Identifier: Apache-2.0
#include "operations/executor/prices.hpp"

#include "operations/core/work.hpp"

#include <sluice/runtime/error.hpp>

#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

namespace sluice::operations {
namespace {

/// A count without an exponent where it is exact.
std::string text(double amount) {
  constexpr double exact = 1e15;
  if (amount < exact) return std::to_string(static_cast<std::uint64_t>(amount));
  std::ostringstream out;
  out << amount;
  return out.str();
}

price_limit first_stated(double executor, double service, double otherwise,
                         std::string_view option) noexcept {
  if (executor != 0) return {executor, "executor_options", option};
  return {service != 0 ? service : otherwise, "device_service_options::limits", option};
}

}  // namespace

void price_limit::require(std::string_view subject, std::string_view verb, double amount,
                          std::string_view unit) const {
  if (amount <= most) return;
  throw error(errc::unsupported, std::string(subject).append(verb) + text(amount).append(unit) +
                                     ", but " + std::string(owner) + "::" + std::string(option) +
                                     " is " + text(most));
}

price_limits price_limits::from(const executor_options& options, const request_limits& service,
                                device_kind kind) noexcept {
  constexpr auto power_of_two = [](int exponent) {
    return static_cast<double>(std::uint64_t{1} << exponent);
  };
  const auto bytes = [](std::size_t count) {
    return static_cast<double>(count);
  };
  return {.work = first_stated(options.max_work, service.max_work,
                               power_of_two(kind == device_kind::host ? 40 : 50), "max_work"),
          .planning_work = first_stated(options.max_planning_work, service.max_planning_work,
                                        power_of_two(36), "max_planning_work"),
          .host_bytes = first_stated(bytes(options.max_host_bytes_of_plan),
                                     bytes(service.max_host_bytes_of_plan), 192 * power_of_two(20),
                                     "max_host_bytes_of_plan")};
}

std::size_t price_limits::max_host_bytes() const noexcept {
  constexpr auto largest = std::numeric_limits<std::size_t>::max();
  return host_bytes.most < static_cast<double>(largest) ? static_cast<std::size_t>(host_bytes.most)
                                                        : largest;
}

double price_limits::require(const launch_descriptor& descriptor, const launch_facts& facts,
                             std::span<const inference::use> uses) const {
  const auto units = work_of(facts, uses);
  if (units > work.most) work.require(descriptor.name(), ": takes ", units, " units of work");
  return units;
}

void price_limits::require(const launch_descriptor& descriptor, const plan_price& price) const {
  host_bytes.require(descriptor.name(), ": the plan needs ", static_cast<double>(price.host_bytes),
                     " bytes of host memory");
  planning_work.require(descriptor.name(), ": the plan takes ", price.work, " units of work");
}

}  // namespace sluice::operations
