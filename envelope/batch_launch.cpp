// SPDX-License-Identifier: Apache-2.0
#include "envelope/nvtx_range.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <chrono>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::detail {

/// A batch on its way from preflight to the completion engine.
class batch_launch {
 public:
  batch_launch(batch_works& works, lane& lane, const std::string& nvtx_label, std::size_t commands,
               std::shared_ptr<const void> batch_data, batch_closure& closure) noexcept
      : launches_(works.launches),
        outcomes_(works.outcomes),
        lane_(lane),
        label_(nvtx_label),
        commands_(commands),
        batch_data_(std::move(batch_data)),
        closure_(closure) {}

  void run() noexcept {
    try {
      pending_.reserve(launches_.size());
      outcomes_.reserve(launches_.size());
    } catch (...) {
      for (std::uint32_t i = 0; i < launches_.size(); ++i) launch_alone(i);
      return;
    }
    for (std::uint32_t i = 0; i < launches_.size(); ++i) pending_.push_back(i);
    while (pending_.size() > 1) {
      for (std::size_t n = 0; n < (runs_together() ? 1 : pending_.size()); ++n) {
        work(n).timing_.reserve();
      }
      if (preflight()) return launch();
    }
    for (const auto i : pending_) launch_alone(i);
  }

 private:
  [[nodiscard]] launch_continuation& work(std::size_t n) const noexcept {
    return *launches_[pending_[n]];
  }
  [[nodiscard]] device& device_of_lane() const noexcept { return lane_.runtime().device(); }

  /// Whether the device runs the launches as one call.
  [[nodiscard]] bool runs_together() const noexcept {
    return !device_of_lane().reports_task_failures();
  }

  void launch_alone(std::uint32_t i) noexcept {
    const auto enqueue = [&](const launch_context& context) {
      closure_.enqueue_one(context, i);
    };
    launch_continuation::run(std::move(launches_[i]), lane_, label_, closure_ref(enqueue));
  }

  /// Preflights the launches that are left. If that is refused, launches alone those that use the
  /// block because of which it was refused, or all, and returns false.
  [[nodiscard]] bool preflight() noexcept {
    try {
      runtime_core::of(lane_.runtime())->require_open();
      recorder_ = launch_recorder::strict(lane_.stream());
      joint_launches::expect(*recorder_, pending_.size(),
                             pending_.size() * work(0).operands_.size());
      for (std::size_t n = 0; n < pending_.size(); ++n) {
        joint_launches::begin_next(*recorder_);
        const auto& operands = work(n).operands_;
        for (std::size_t u = 0; u < operands.size(); ++u) {
          recorder_->use(operands[u].block, operands[u].access, operands[u].whole);
        }
      }
      recorder_->preflight();
      return true;
    } catch (...) {
      // Those that are launched alone are answered with the reason.
      if (recorder_) recorder_->cancel();
    }
    small_vector<std::uint32_t, most_inline> refused_launches;
    std::size_t count = 0;
    try {
      refused_launches.reserve(pending_.size());
      for (std::size_t n = 0; n < pending_.size(); ++n) {
        if (recorder_ && joint_launches::is_refused(*recorder_, n)) {
          refused_launches.push_back(pending_[n]);
        } else {
          pending_[count++] = pending_[n];
        }
      }
    } catch (...) {
      count = pending_.size();
    }
    recorder_.reset();
    if (refused_launches.empty()) {
      for (const auto i : pending_) launch_alone(i);
      pending_.clear();
      return false;
    }
    pending_.truncate(count);
    for (const auto i : refused_launches) launch_alone(i);
    return false;
  }

  // Nothing throws from here on.
  void launch() noexcept {
    const bool together = runs_together();
    outcomes_.resize(pending_.size());
    std::optional<library_call> call(device_of_lane().id());
    enter_into_load(together);
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      auto& launch = work(n);
      launch.timing_.describe(launch.info_);
      launch.trace([&](kernel_trace& trace) { trace.before_enqueue(launch.info_); });
      completion_engine::expect(lane_.stream(), launch);
      if (launch.errors_.get() != nullptr) {
        joint_launches::find_errors(*recorder_, n, launch.errors_);
      }
    }
    {
      const nvtx_range range(label_.c_str());
      const current_device_scope current(device_of_lane());
      if (!together || !enqueue_together()) {
        for (std::size_t n = 0; n < pending_.size(); ++n) enqueue_one(n);
        end_with_the_last();
      }
    }
    joint_launches::publish(*recorder_);
    recorder_.reset();
    call.reset();
    hand_over();
  }

  /// All of the batch is in flight until the launch that completes first on a GPU, and last where
  /// each one completes by itself.
  void enter_into_load(bool together) noexcept {
    const auto now = std::chrono::steady_clock::now();
    const auto owner_index = together ? 0 : pending_.size() - 1;
    lane_load::part total{.places = 1, .commands = 0, .batches = 1};
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      auto& launch = work(n);
      launch.info_.batch = pending_.size();
      launch.places_ = n == owner_index ? 1 : 0;
      launch.batches_ = launch.places_;
      if (n == owner_index) launch.batch_data_ = std::move(batch_data_);
      if (together) {
        commands_alone_ = launch.commands_;
        launch.commands_ = n == owner_index ? commands_ : 0;
        if (n == owner_index && launch.info_.timed)
          launch.commands_ += 2;  // the timestamps of the batch
      }
      launch.begin_time_ = now;
      total.commands += launch.commands_;
    }
    work(owner_index).load_.add(pending_.size(), total);
  }

  /// Returns false if nothing has been enqueued.
  [[nodiscard]] bool enqueue_together() noexcept {
    std::optional<error> failure;
    bool enqueued = true;
    auto& timing = work(0).timing_;
    timing.begin(lane_.stream());
    for (std::size_t n = 1; n < pending_.size(); ++n) work(n).timing_.begin_with(timing);
    try {
      device_of_lane().require_usable();
      closure_.enqueue_together({lane_.stream()}, pending_.view());
    } catch (const nothing_enqueued&) {
      enqueued = false;
    } catch (...) {
      failure = current_error();
    }
    timing.end(lane_.stream());
    for (std::size_t n = 1; n < pending_.size(); ++n) work(n).timing_.end_with(timing);
    if (!enqueued) {
      for (std::size_t n = 1; n < pending_.size(); ++n) work(n).timing_.forget();
      for (std::size_t n = 0; n < pending_.size(); ++n) {
        work(n).commands_ += commands_alone_;
        work(n).load_.commands.fetch_add(commands_alone_, std::memory_order_relaxed);
      }
      return false;
    }
    const auto* const thrown = failure ? &*failure : nullptr;
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      auto& launch = work(n);
      launch.trace([&](kernel_trace& trace) { trace.after_enqueue(launch.info_, thrown); });
    }
    std::uint64_t first = 0;
    try {
      first = joint_launches::submit_all(*recorder_, failure);
    } catch (...) {
      if (!failure) failure = current_error();
    }
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      outcomes_[n] = {first != 0 ? first + n : 0, failure};
    }
    return true;
  }

  void enqueue_one(std::size_t n) noexcept {
    auto& launch = work(n);
    auto& result = outcomes_[n];
    launch.timing_.begin(lane_.stream());
    try {
      device_of_lane().require_usable();
      closure_.enqueue_one({lane_.stream()}, pending_[n]);
    } catch (const nothing_enqueued& e) {
      result.failure = e;
      result.enqueued = false;
    } catch (...) {
      result.failure = current_error();
    }
    launch.timing_.end(lane_.stream());
    const auto* const thrown = result.failure ? &*result.failure : nullptr;
    launch.trace([&](kernel_trace& trace) { trace.after_enqueue(launch.info_, thrown); });
    if (!result.enqueued) return joint_launches::cancel(*recorder_, n);
    try {
      result.ticket = joint_launches::submit(*recorder_, n, result.failure);
    } catch (...) {
      if (!result.failure) result.failure = current_error();
    }
  }

  /// The batch ends with the last launch that completes.
  void end_with_the_last() noexcept {
    std::size_t last = pending_.size() - 1;
    while (last != 0 && !outcomes_[last].enqueued) --last;
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      work(n).places_ = work(n).batches_ = n == last ? 1 : 0;
    }
  }

  void hand_over() noexcept {
    // After a loss the engine ignores tickets.
    const auto last_ticket =
        timeline::of(lane_.stream())->newest().ticket + (device_of_lane().lost() ? 1 : 0);
    continuation_list submissions;
    for (std::size_t n = 0; n < pending_.size(); ++n) {
      auto& outcome = outcomes_[n];
      auto& launch = work(n);
      if (!outcome.enqueued) {
        launch_continuation::cancel(std::move(launches_[pending_[n]]), *outcome.failure);
        continue;
      }
      launch.trace([&](kernel_trace& trace) { trace.before_complete(launch.info_); });
      launch.answer_early(outcome.failure ? &*outcome.failure : nullptr);
      submissions.add(outcome.ticket != 0 ? outcome.ticket : last_ticket,
                      std::move(launches_[pending_[n]]));
    }
    lane_.engine().submit(lane_.stream(), submissions);
  }

  static constexpr std::size_t most_inline = 128;

  const std::span<std::unique_ptr<launch_continuation>> launches_;
  std::vector<batch_works::outcome>& outcomes_;  // by position in `pending_`
  lane& lane_;
  const std::string& label_;
  const std::size_t commands_;
  std::size_t commands_alone_ = 0;  // of each launch if they are made one by one
  std::shared_ptr<const void> batch_data_;
  batch_closure& closure_;
  small_vector<std::uint32_t, most_inline> pending_;  // the launches that are not made yet
  std::optional<launch_recorder> recorder_;
};

void launch_continuation::run_batch(batch_works& works, lane& lane, const std::string& nvtx_label,
                                    std::size_t commands, std::shared_ptr<const void> batch_data,
                                    batch_closure& closure) noexcept {
  works.outcomes.clear();
  batch_launch(works, lane, nvtx_label, commands, std::move(batch_data), closure).run();
  works.launches.clear();
  works.outcomes.clear();
}

}  // namespace sluice::detail
