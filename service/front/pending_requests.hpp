// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/front_channel.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/model_catalog.hpp"
#include "service/front/worker_link.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::service {

/// A request that a worker has, or is about to get.
struct worker_run {
  std::shared_ptr<const loaded_version> content{};
  run_message message{};
  std::vector<std::uint32_t> outputs{};    ///< numbers, in the order of the request
  std::function<void(run_result)> done{};  ///< empty once it is answered
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::shared_ptr<worker_link> worker{};
  unsigned attempts = 0;
  std::shared_ptr<const void> charge{};  ///< as in `run_request`
};

/// The requests that workers have, by number. Thread-safe.
class pending_requests {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  void add(std::uint64_t number, worker_run run);
  /// Removes a request, if it is there.
  [[nodiscard]] std::optional<worker_run> take(std::uint64_t number);
  /// A copy of a request, if it is there.
  [[nodiscard]] std::optional<worker_run> find(std::uint64_t number) const;
  /// Notes the worker of another attempt of a request, which counts once it has been sent.
  void assign(std::uint64_t number, std::shared_ptr<worker_link> worker);
  void count_attempt(std::uint64_t number);
  /// Takes the functions of the requests of a worker, which stay here without them.
  [[nodiscard]] std::vector<std::function<void(run_result)>> take_answers_of(
      const worker_link& worker);
  /// Takes the function of a request, which stays here without it: its worker still reads the
  /// inputs. Empty if the request is not there or is answered.
  [[nodiscard]] std::function<void(run_result)> take_answer(std::uint64_t number);
  /// The worker of a request, if it is there.
  [[nodiscard]] std::shared_ptr<worker_link> worker_of(std::uint64_t number) const;
  /// Takes the functions of the requests whose deadline has passed, which stay here without them:
  /// their workers still read the inputs. Returns their numbers, too.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, std::function<void(run_result)>>> take_expired(
      time_point now);
  /// The first deadline of those that have no answer.
  [[nodiscard]] std::optional<time_point> first_deadline() const;
  /// Removes all requests.
  [[nodiscard]] std::vector<worker_run> take_all();

 private:
  void forget_deadline(std::uint64_t number, const worker_run& run);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, worker_run> runs_;
  std::multimap<time_point, std::uint64_t> deadlines_;
};

}  // namespace sluice::service
