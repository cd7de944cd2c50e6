// SPDX-License-Identifier: Apache-2.0
#include "service/front/counted_answer.hpp"

#include <chrono>
#include <utility>

namespace sluice::service {

std::function<void(run_result)> counted_answer(std::function<void(run_result)> done,
                                               std::shared_ptr<model_statistics> statistics,
                                               std::uint64_t members) {
  using clock = std::chrono::steady_clock;
  auto& counters = *statistics;
  std::function<void(run_result)> answer = [done = std::move(done),
                                            statistics = std::move(statistics), members,
                                            begin = clock::now()](run_result result) {
    // Before the client can see the answer.
    const auto elapsed = clock::now() - begin;
    if (result.error) {
      statistics->fail(elapsed);
    } else {
      statistics->succeed(elapsed, result.statistics, members);
    }
    done(std::move(result));
  };
  counters.begin();
  return answer;
}

}  // namespace sluice::service
