// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::cli {

/// A client takes a reply that has not come after this time for lost.
inline constexpr std::chrono::seconds reply_timeout{60};

/// What clients have counted while they sent requests.
struct load_counts {
  using clock = std::chrono::steady_clock;

  std::vector<double> latencies{};  ///< of the requests with a correct reply, in microseconds
  std::map<std::string, std::uint64_t> errors{};  ///< of the other requests, by their text
  clock::duration time{};                         ///< from the first request to the last reply

  void add_latency(clock::duration latency) {
    latencies.push_back(std::chrono::duration<double, std::micro>(latency).count());
  }
  /// Servers may put anything into their errors, so the number of kinds is bounded.
  void add_error(const std::string& text, std::uint64_t count = 1) {
    constexpr std::size_t most_kinds = 8;
    const bool is_known = errors.size() < most_kinds || errors.count(text) != 0;
    errors[is_known ? text : "other errors"] += count;
  }
  /// Adds those of another thread.
  void add(const load_counts& other) {
    latencies.insert(latencies.end(), other.latencies.begin(), other.latencies.end());
    for (const auto& [text, count] : other.errors) add_error(text, count);
  }
};

}  // namespace sluice::cli
