// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/envelope/timer.hpp>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace sluice {

/// Which of the waiting requests is launched first.
enum class request_priority : std::uint8_t { high, normal, low };

/// How exactly the result of a request repeats.
enum class result_bits : std::uint8_t {
  any,          ///< within the error bound of the operation; the request may be launched together
                ///< with others, and the last bits may depend on that
  as_if_alone,  ///< as if the request were launched alone; it is
};

/// Options of one request. They travel beside an operation and are no part of it.
///
///     request_options{.deadline = deadline_after(20ms), .id = 7}
struct request_options {
  /// When the reply is sent.
  reply_on reply = reply_on::finished;
  /// If there is no reply by then, the request is answered with `deadline_exceeded`. A request that
  /// waits is then dropped. One that has been launched still writes its outputs.
  std::optional<timer::time_point> deadline{};
  /// The name of the request for `cancel_request`, chosen by the sender; 0: none.
  std::uint64_t id = 0;
  /// Shown by traces. A `chrome_trace` keeps the characters of its first 31 bytes.
  std::string tag{};
  /// Requests with a higher priority pass others, if their bytes have no hazard.
  request_priority priority = request_priority::normal;
  /// The request is dropped if its sender ends before it is launched.
  bool while_alive = false;
  /// Whether the bits of the result may depend on other requests.
  result_bits bits = result_bits::any;
};

/// Asks that the sender's requests with an id be cancelled. A request that waits is dropped. One
/// that has been launched still writes its outputs. Both are answered with `cancelled`. There is no
/// reply to this message, and an unknown id does nothing.
struct cancel_request {
  std::uint64_t id = 0;  ///< `request_options::id`
};

/// The client that a request comes from.
struct request_sender {
  std::uint64_t id = 0;  ///< unique among the clients of an executor; 0: the owner itself, without
                         ///< a share of its own in the queue
  [[nodiscard]] auto operator<=>(const request_sender&) const noexcept = default;
};

/// The plans of an executor.
struct plan_status {
  std::uint64_t made = 0;       ///< number of plans made so far
  std::size_t kept = 0;         ///< results of planning kept for later requests, refusals too
  std::size_t kept_bytes = 0;   ///< their size; see `executor_options::max_plan_bytes`
  std::size_t alive = 0;        ///< plans not yet destroyed: kept, in use, or being destroyed
  std::size_t alive_bytes = 0;  ///< their size in host and device memory
  std::size_t captured = 0;     ///< programs among the kept plans whose runs are one graph
  /// number of those whose runs cannot be one; `prepared::not_captured` says why
  std::size_t not_captured = 0;
  /// number of attempts so far to capture a program after its first runs
  std::uint64_t capture_attempts = 0;

  /// Adds the plans of another executor.
  plan_status& operator+=(const plan_status& other) noexcept {
    made += other.made;
    kept += other.kept;
    kept_bytes += other.kept_bytes;
    alive += other.alive;
    alive_bytes += other.alive_bytes;
    captured += other.captured;
    not_captured += other.not_captured;
    capture_attempts += other.capture_attempts;
    return *this;
  }
};

/// The requests that wait in front of a lane, or of all lanes of an actor.
struct queue_status {
  std::size_t requests = 0;           ///< number of requests
  std::size_t planning = 0;           ///< those that wait for a plan
  std::size_t bytes = 0;              ///< their size in host memory
  std::chrono::nanoseconds oldest{};  ///< how long the oldest one has waited
  plan_status plans{};                ///< the plans made for requests

  /// Adds what waits in front of another lane.
  queue_status& operator+=(const queue_status& other) noexcept {
    requests += other.requests;
    planning += other.planning;
    bytes += other.bytes;
    oldest = std::max(oldest, other.oldest);
    plans += other.plans;
    return *this;
  }
};

}  // namespace sluice
