// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/run_message.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace sluice::service {

/// The kinds of requests that have ended workers. A kind is a version of a model, the types and
/// shapes of the inputs, and a tenant. Not thread-safe.
class request_quarantine {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes duration{5};
  static constexpr std::size_t most_kinds = 1024;  ///< above, those that end first are released

  /// Refuses requests like this one from now on.
  void add(const run_message& request, clock::time_point now);
  /// Whether requests like this one are refused.
  [[nodiscard]] bool holds(const run_message& request, clock::time_point now) const;
  /// Releases the kinds of a version.
  void release(std::uint32_t model);
  [[nodiscard]] std::size_t size() const noexcept { return ends_.size(); }

 private:
  struct kind {
    std::uint32_t model = 0;
    std::uint64_t tenant = 0;
    std::vector<std::int64_t> inputs{};  ///< numbers, types, ranks and extents
    auto operator<=>(const kind&) const = default;
  };

  [[nodiscard]] static kind kind_of(const run_message& request);

  std::map<kind, clock::time_point> ends_{};
};

}  // namespace sluice::service
