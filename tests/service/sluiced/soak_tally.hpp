// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace sluice::service::test {

/// What clients of a soak have sent and received.
struct soak_tally {
  using counts = std::map<std::string, std::uint64_t>;  ///< by model

  std::map<unsigned, std::uint64_t> replies{};  ///< of HTTP, by status
  std::uint64_t calls = 0;                      ///< of gRPC that have ended
  /// Requests of HTTP whose head was sent completely, and whose client did not wait.
  std::uint64_t hang_ups = 0;
  counts results{};    ///< right results
  counts refusals{};   ///< complete requests without a result while a worker was replaced
  counts abandoned{};  ///< requests that may have been computed without the knowledge of the client
  std::uint64_t wrong = 0;       ///< results that are not those of the request
  std::uint64_t lost = 0;        ///< complete requests without a reply
  std::uint64_t surplus = 0;     ///< connections with bytes after the last reply
  std::uint64_t unexpected = 0;  ///< statuses that the request must not have
  std::string first_problem{};   ///< a description of the first of these four

  void note(std::uint64_t& counter, const std::string& problem) {
    ++counter;
    if (first_problem.empty()) first_problem = problem;
  }
  void add(const soak_tally& other) {
    const auto add_each = [](auto& sums, const auto& more) {
      for (const auto& [key, count] : more) sums[key] += count;
    };
    add_each(replies, other.replies);
    add_each(results, other.results);
    add_each(refusals, other.refusals);
    add_each(abandoned, other.abandoned);
    calls += other.calls;
    hang_ups += other.hang_ups;
    wrong += other.wrong;
    lost += other.lost;
    surplus += other.surplus;
    unexpected += other.unexpected;
    if (first_problem.empty()) first_problem = other.first_problem;
  }
};

/// What the clients of a soak and the thread that disturbs the service tell each other.
struct soak_state {
  std::atomic<bool> is_over{false};
  std::atomic<std::uint64_t> finished{0};  ///< requests that have a reply
  /// Odd while a worker is being replaced.
  std::atomic<std::uint64_t> replacements{0};
  /// The versions of the model `changing`, by their factors: the newest in the folder, and the
  /// newest whose result a client has seen. A later request never has the result of an older one.
  std::atomic<int> newest_factor{2};
  std::atomic<int> seen_factor{2};

  void note_seen(int factor) noexcept {
    int seen = seen_factor;
    while (seen < factor && !seen_factor.compare_exchange_weak(seen, factor)) {
    }
  }
};

/// The time during which a request is in flight.
class soak_interval {
 public:
  explicit soak_interval(const soak_state& state)
      : state_(state), replacements_(state.replacements), seen_factor_(state.seen_factor) {}
  /// Whether a worker was being replaced at some time of it.
  [[nodiscard]] bool has_replacement() const noexcept {
    return replacements_ % 2 == 1 || state_.replacements != replacements_;
  }
  /// The oldest version whose result the request may have.
  [[nodiscard]] int oldest_factor() const noexcept { return seen_factor_; }

 private:
  const soak_state& state_;
  std::uint64_t replacements_;
  int seen_factor_;
};

}  // namespace sluice::service::test
