// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/sequence_state.hpp"

#include <atomic>
#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::service {

/// Limits of the sequences of a service.
struct sequence_limits {
  std::size_t sequences = 10'000;
  std::uint64_t bytes = std::uint64_t{1} << 30U;  ///< of the states and the names of all sequences
  std::size_t waiting = 16;                       ///< requests of one sequence
};

/// What sequences use now.
struct sequence_statistics {
  std::size_t sequences = 0;
  std::uint64_t bytes = 0;  ///< as in `sequence_limits`
};

/// What a client means by a sequence.
struct sequence_key {
  std::string tenant{};
  std::string model{};
  std::string id{};

  friend auto operator<=>(const sequence_key&, const sequence_key&) = default;
};

struct live_sequence;

/// A request of a sequence, until it is answered.
struct sequence_request {
  model_backend::number number = 0;
  bool starts = false;
  bool ends = false;
  run_request run{};
  std::vector<std::string> outputs{};  ///< names that the client has given
  std::unique_ptr<input_memory> inputs{};
  std::function<void(run_result)> done{};
  std::shared_ptr<live_sequence> sequence{};

  // Guarded by the lock of the table.
  bool is_waiting = false;
  bool is_cancelled = false;
  std::optional<model_backend::number> backend_number{};  ///< once the backend has it

  /// The request that runs after this one. The thread that submits this request and the thread of
  /// its result both set `is_half_done`. The second one dispatches `next`.
  ///@{
  std::shared_ptr<sequence_request> next{};
  std::atomic<bool> is_half_done{false};
  ///@}
};

/// The sequences that no request uses, by the time at which they expire.
using idle_sequences = std::set<std::pair<std::chrono::steady_clock::time_point, live_sequence*>>;

/// A sequence that has begun. Only the request that runs uses the state.
struct live_sequence {
  sequence_key key{};
  sequence_state state;
  std::uint64_t bytes = 0;                                 ///< that count
  std::list<std::shared_ptr<sequence_request>> waiting{};  ///< in order
  std::chrono::steady_clock::time_point expiry{};
  /// Its entry of `idle_sequences` while it is busy, so that the end of a request needs no memory.
  idle_sequences::node_type entry{};

  [[nodiscard]] bool is_busy() const noexcept { return !entry.empty(); }
};

/// The sequences that have begun and their requests. Not thread-safe.
///
/// A sequence is busy while one of its requests runs; the others wait. A sequence that is not busy
/// expires.
class sequence_table {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  using requests = std::list<std::shared_ptr<sequence_request>>;

  /// What follows from the end of a request.
  struct succession {
    std::shared_ptr<sequence_request> next{};  ///< runs now; perhaps none
    requests lost{};                           ///< are answered: their sequence has ended
  };

  explicit sequence_table(sequence_limits limits) noexcept : limits_(limits) {}

  /// Begins a sequence with its first request, which runs. It replaces one with the same key.
  /// @throws request_error `aborted` if that is busy, `resource_exhausted` if a limit is reached
  void begin(const std::shared_ptr<sequence_request>& first, sequence_state state);
  /// Adds a request to its sequence.
  /// @returns whether it runs, otherwise it waits; nothing if there is no such sequence
  /// @throws request_error `invalid_argument` if it is for another version or sends a state,
  /// `resource_exhausted` if too many requests wait
  [[nodiscard]] std::optional<bool> add(const std::shared_ptr<sequence_request>& request);
  /// A request that ran is over. If `keeps` is false, its sequence ends.
  [[nodiscard]] succession finish(const sequence_request& request, bool keeps, time_point now);
  /// A request that is not answered; null if there is none.
  [[nodiscard]] std::shared_ptr<sequence_request> find(model_backend::number number) const;
  /// Removes a request that waits.
  void remove_waiting(const sequence_request& request) noexcept;
  /// Removes the requests that wait. With a time, only those whose deadline has passed.
  [[nodiscard]] requests take_waiting(std::optional<time_point> now);
  /// Ends the sequences that were not busy for too long.
  void expire(time_point now) noexcept;
  [[nodiscard]] sequence_statistics statistics() const noexcept {
    return {.sequences = sequences_.size(), .bytes = bytes_};
  }

 private:
  void erase(live_sequence& sequence) noexcept;

  const sequence_limits limits_;
  std::uint64_t bytes_ = 0;
  std::map<sequence_key, std::shared_ptr<live_sequence>> sequences_{};
  idle_sequences idle_{};
  std::unordered_map<model_backend::number, std::shared_ptr<sequence_request>> requests_{};
};

}  // namespace sluice::service
