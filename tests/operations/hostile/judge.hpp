// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/executing.hpp"
#include "tests/operations/hostile/mutation.hpp"

#include <sluice/runtime/memory_adaptors.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace sluice::test {

/// The answers to one request.
class counted_answers {
 public:
  explicit counted_answers(std::shared_ptr<alarm> rung) : state_(std::make_shared<state>()) {
    state_->rung = std::move(rung);
  }

  [[nodiscard]] reply_token<tensor> token() const {
    return reply_token<tensor>::from([state = state_](const tensor&) { state->answer(); },
                                     [state = state_](const error& why) {
                                       state->failure = why;
                                       state->answer();
                                     });
  }
  [[nodiscard]] int count() const noexcept { return state_->count.load(); }
  /// The error of the last answer. Call it once the request has been answered.
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return state_->failure; }
  /// Serves `executor` until it has answered.
  void await(executor& executor) const {
    for (executor.work(); count() == 0; executor.work()) state_->rung->await();
  }

 private:
  struct state {
    void answer() noexcept {
      ++count;
      rung->ring();
    }
    std::shared_ptr<alarm> rung;
    std::optional<error> failure;
    std::atomic<int> count{0};
  };
  std::shared_ptr<state> state_;
};

/// Everything about an executor and its device that a refused request must leave as it is.
struct observed {
  runtime_statistics runtime;
  memory_counters driver;  ///< memory taken from the driver
  int wakes = 0;           ///< how often the planner or a lane has woken the executor's owner

  /// What differs from `after`; empty if nothing does.
  [[nodiscard]] std::string change(const observed& after) const {
    std::string all;
    const auto compare = [&](const char* name, auto before, auto now) {
      if (before != now) {
        all += std::string(name) + ": " + std::to_string(before) + " became " +
               std::to_string(now) + "; ";
      }
    };
    compare("launches", runtime.launches, after.runtime.launches);
    compare("waits", runtime.waits, after.runtime.waits);
    compare("blocks", runtime.blocks, after.runtime.blocks);
    compare("bytes outstanding", runtime.bytes_outstanding, after.runtime.bytes_outstanding);
    compare("peak bytes", runtime.peak_bytes, after.runtime.peak_bytes);
    compare("references", runtime.references, after.runtime.references);
    compare("leases", runtime.leases, after.runtime.leases);
    compare("streams", runtime.streams, after.runtime.streams);
    compare("pinned bytes", runtime.pinned_bytes, after.runtime.pinned_bytes);
    compare("allocations from the driver", driver.allocations.total,
            after.driver.allocations.total);
    compare("wakes", wakes, after.wakes);
    return all;
  }
};

/// What is wrong with the answer to a request that should have been refused; empty if nothing is.
[[nodiscard]] inline std::string wrong_answer(const counted_answers& answers,
                                              const mutation& expected) {
  if (answers.count() != 1) return "has " + std::to_string(answers.count()) + " answers";
  if (!answers.failure()) return "was not refused";
  const std::string text = answers.failure()->what();
  if (answers.failure()->code() != expected.code) {
    return "was refused with " + std::string(to_string(answers.failure()->code())) + ": " + text;
  }
  return text.rfind(expected.argument + ": ", 0) == 0 ? "" : "was refused with the text " + text;
}

}  // namespace sluice::test
