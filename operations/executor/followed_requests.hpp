// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/envelope/timer.hpp>
#include <sluice/operations/request_options.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace sluice::operations {

/// The requests with a deadline or an id, from their arrival until they are answered. Not
/// thread-safe.
class followed_requests {
 public:
  /// Follows a request until its token is answered.
  /// @throws std::bad_alloc if there is no memory
  void add(const request_options& options, request_sender sender, const failure_token& token) {
    if (options.deadline) {
      forget_answered(by_deadline_, deadline_limit_);
      by_deadline_.emplace(*options.deadline, token);
    }
    if (options.id != 0) {
      forget_answered(by_id_, id_limit_);
      by_id_.emplace(std::pair(sender, options.id), token);
    }
  }
  /// The first deadline of a request without an answer.
  [[nodiscard]] std::optional<timer::time_point> first_deadline() noexcept {
    while (!by_deadline_.empty() && by_deadline_.begin()->second.answered()) {
      by_deadline_.erase(by_deadline_.begin());
    }
    if (by_deadline_.empty()) return std::nullopt;
    return by_deadline_.begin()->first;
  }
  /// Answers the requests whose deadline has come with `why`.
  void expire(timer::time_point now, const error& why) noexcept {
    while (!by_deadline_.empty() && by_deadline_.begin()->first <= now) {
      (void)by_deadline_.extract(by_deadline_.begin()).mapped().fail(why);
    }
  }
  /// Whether a request of `sender` has this id and may be without an answer.
  [[nodiscard]] bool has(request_sender sender, std::uint64_t id) const noexcept {
    return by_id_.contains({sender, id});
  }
  /// Answers the requests of `sender` with this id with `why`.
  void cancel(request_sender sender, std::uint64_t id, const error& why) noexcept {
    // Taken out before the first answer, because its receiver may use the id again.
    decltype(by_id_) cancelled;
    for (auto found = by_id_.find({sender, id}); found != by_id_.end();
         found = by_id_.find({sender, id})) {
      cancelled.insert(by_id_.extract(found));
    }
    for (const auto& [key, token] : cancelled) (void)token.fail(why);
  }

 private:
  /// Removes answered requests whenever the number of entries has doubled.
  template <class Map>
  static void forget_answered(Map& requests, std::size_t& limit) noexcept {
    if (requests.size() < limit) return;
    std::erase_if(requests, [](const auto& entry) { return entry.second.answered(); });
    limit = 2 * requests.size() + min_limit;
  }

  static constexpr std::size_t min_limit = 64;
  std::multimap<timer::time_point, failure_token> by_deadline_;
  std::multimap<std::pair<request_sender, std::uint64_t>, failure_token> by_id_;
  std::size_t deadline_limit_ = min_limit;
  std::size_t id_limit_ = min_limit;
};

}  // namespace sluice::operations
