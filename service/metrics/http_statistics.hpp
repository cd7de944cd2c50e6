// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/duration_bounds.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>

namespace sluice::service {

/// What a server of HTTP had done at some time.
struct http_counts {
  std::map<unsigned, std::uint64_t> replies{};  ///< by status; 499: closed without a reply
  std::uint64_t in_flight = 0;                  ///< requests without an answer
  std::uint64_t received_bytes = 0;
  std::uint64_t sent_bytes = 0;
  std::uint64_t connections = 0;
  // Refused because of a foreign Host or an Origin, of too many connections, of too much JSON, or
  // of too much text of replies that clients have not taken.
  std::uint64_t refused_origins = 0;
  std::uint64_t refused_connections = 0;
  std::uint64_t refused_json = 0;
  std::uint64_t refused_tenants = 0;  ///< over gRPC, too
  std::uint64_t refused_replies = 0;
  std::uint64_t json_bytes = 0;  ///< that are being read or parsed
  prometheus::ClientMetric::Histogram request_seconds{};
};

/// Counts what a server of HTTP does. Thread-safe.
class http_statistics {
 public:
  /// The head of a request has been read.
  void begin_request() noexcept { in_flight_.Increment(); }
  /// Such a request has an answer, or its connection is closed.
  void end_request(std::chrono::nanoseconds elapsed) noexcept;
  /// A reply with this status begins; 499 if a connection is closed instead.
  void count_reply(unsigned status) noexcept;
  void count_received(std::size_t bytes) noexcept {
    received_bytes_.Increment(static_cast<double>(bytes));
  }
  void count_sent(std::size_t bytes) noexcept { sent_bytes_.Increment(static_cast<double>(bytes)); }
  void count_refused_origin() noexcept { refused_origins_.Increment(); }
  void count_refused_connection() noexcept { refused_connections_.Increment(); }

  /// What has been counted. What others count is 0.
  [[nodiscard]] http_counts counts() const;

 private:
  static constexpr unsigned first_status = 200;
  static constexpr unsigned last_status = 599;

  std::array<prometheus::Counter, last_status - first_status + 1> replies_{};
  prometheus::Gauge in_flight_{};
  prometheus::Counter received_bytes_{};
  prometheus::Counter sent_bytes_{};
  prometheus::Counter refused_origins_{};
  prometheus::Counter refused_connections_{};
  prometheus::Histogram request_seconds_{duration_bounds()};
};

}  // namespace sluice::service
