// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/request_limits.hpp>
#include <sluice/operations/executor.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <cstddef>
#include <span>
#include <string_view>

namespace sluice::operations {

/// A limit of the cost of one request, and the option that states it.
struct price_limit {
  double most = 0;
  std::string_view owner{};   ///< "executor_options" or "device_service_options::limits"
  std::string_view option{};  ///< "max_work"

  /// Refuses an `amount` above the limit. The text is `subject`, `verb`, the amount, `unit` and the
  /// option.
  ///
  ///     work.require("reduce", ": takes ", work, " units of work");
  /// @throws error `unsupported` if `amount` is above the limit
  void require(std::string_view subject, std::string_view verb, double amount,
               std::string_view unit) const;
};

/// The limits of one request to an executor.
struct price_limits {
  price_limit work{};
  price_limit planning_work{};
  price_limit host_bytes{};

  /// Those of the options of an executor; where these state none, those of its service, and the
  /// defaults on devices of this kind.
  [[nodiscard]] static price_limits from(const executor_options& options,
                                         const request_limits& service, device_kind kind) noexcept;

  /// The largest size of a plan in host memory, in bytes.
  [[nodiscard]] std::size_t max_host_bytes() const noexcept;
  /// Returns the work of a launch.
  /// @throws error `unsupported` if it is more
  double require(const launch_descriptor& descriptor, const launch_facts& facts,
                 std::span<const inference::use> uses) const;
  /// @throws error `unsupported` if a plan costs more
  void require(const launch_descriptor& descriptor, const plan_price& price) const;
};

}  // namespace sluice::operations
