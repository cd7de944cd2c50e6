// SPDX-License-Identifier: Apache-2.0
#include "service/front/traced_answer.hpp"

#include "service/base/log.hpp"

#include <chrono>
#include <mutex>
#include <utility>

namespace sluice::service {
namespace {

using clock = std::chrono::steady_clock;

/// Allows so many lines of a second.
class line_limit {
 public:
  [[nodiscard]] bool allows(clock::time_point now) noexcept {
    const std::lock_guard lock(mutex_);
    if (now - begin_ >= std::chrono::seconds(1)) {
      begin_ = now;
      lines_ = 0;
    }
    return ++lines_ <= most_traced_requests;
  }

 private:
  std::mutex mutex_{};
  clock::time_point begin_{};
  unsigned lines_ = 0;
};

[[nodiscard]] std::int64_t microseconds_of(clock::duration time) noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

[[nodiscard]] std::int64_t microseconds_of(std::uint64_t nanoseconds) noexcept {
  return static_cast<std::int64_t>(nanoseconds / 1000);
}

void write_trace(const trace_context& trace, const std::string& model, const run_result& result,
                 clock::duration elapsed) noexcept {
  if (result.error) {
    write_log(log_level::warning, "request failed",
              {{"trace_id", trace.trace},
               {"parent_id", trace.span},
               {"model", model},
               {"request_us", microseconds_of(elapsed)},
               {"problem", result.error->what()}});
    return;
  }
  const auto& times = result.statistics;
  write_log(log_level::info, "request computed",
            {{"trace_id", trace.trace},
             {"parent_id", trace.span},
             {"model", model},
             {"version", result.version},
             {"request_us", microseconds_of(elapsed)},
             {"queue_us", microseconds_of(times.queue_ns)},
             {"launch_us", microseconds_of(times.compute_ns)},
             {"batch", static_cast<std::int64_t>(times.batch)}});
}

}  // namespace

std::function<void(run_result)> traced_answer(std::function<void(run_result)> done,
                                              trace_context trace, std::string model) {
  return [done = std::move(done), trace = std::move(trace), model = std::move(model),
          begin = clock::now()](run_result result) {
    static line_limit limit;
    const auto now = clock::now();
    if (limit.allows(now)) write_trace(trace, model, result, now - begin);
    done(std::move(result));
  };
}

}  // namespace sluice::service
