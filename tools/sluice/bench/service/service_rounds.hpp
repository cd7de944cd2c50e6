// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/report.hpp"
#include "tools/sluice/bench/service/load_counts.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace sluice::cli {

/// A server under load.
struct measured_server {
  std::string name;  ///< of its row: "HTTP"
  std::function<load_counts(std::chrono::steady_clock::duration)> load;
  std::uint64_t bytes = 0;            ///< of a request and its reply
  std::size_t reference = 0;          ///< the number of the server to which its ratio is taken
  std::optional<std::size_t> echo{};  ///< the number of the server that does nothing else
};

/// Servers that are measured in turns: each round loads all of them once, in random order, so that
/// other load on the machine affects all alike. Ratios are those within a round.
class service_rounds {
 public:
  /// Returns the number of the server, from 0.
  std::size_t add(measured_server server) {
    servers_.push_back({std::move(server)});
    return servers_.size() - 1;
  }

  /// Loads each server `rounds` times for `time`, after a shorter load that does not count.
  /// @throws error `library_failure` if a server gives no correct reply in a round
  void measure(std::size_t rounds, std::chrono::steady_clock::duration time,
               std::mt19937_64& source);
  /// Adds the section "service/rates" with this title, and the times over those of echoes.
  void add_to(bench_report& report, const std::string& title) const;
  /// "HTTP: 2 requests failed: 1 x HTTP 503: ..., 1 x ..."; empty if none failed.
  [[nodiscard]] std::string errors_text() const;

 private:
  struct rounds_of_server {
    measured_server server;
    std::vector<double> rates{};
    /// The percentiles of the latencies of each round.
    std::vector<row_latency> latencies{};
    std::map<std::string, std::uint64_t> errors{};
  };

  void measure_round(std::chrono::steady_clock::duration time, std::mt19937_64& source,
                     bool counts);
  [[nodiscard]] comparison compare(const rounds_of_server& row, std::size_t reference) const;

  std::vector<rounds_of_server> servers_{};
};

}  // namespace sluice::cli
