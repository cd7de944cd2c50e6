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
  batch_launch(batch_works& works, lane& on, const std::string& nvtx_label, std::size_t commands,
               std::shared_ptr<const void> own, batch_closure& closure) noexcept
      : all_(works.all),
        outcomes_(works.outcomes),
        on_(on),
        label_(nvtx_label),
        commands_(commands),
        own_(std::move(own)),
        closure_(closure) {}

  void run() noexcept {
    try {
      left_.reserve(all_.size());
      outcomes_.reserve(all_.size());
    } catch (...) {
      for (std::uint32_t i = 0; i < all_.size(); ++i) launch_alone(i);
      return;
    }
    for (std::uint32_t i = 0; i < all_.size(); ++i) left_.push_back(i);
    while (left_.size() > 1) {
      for (std::size_t n = 0; n < (runs_together() ? 1 : left_.size()); ++n) {
        work(n).timing_.reserve();
      }
      if (preflight()) return launch();
    }
    for (const auto i : left_) launch_alone(i);
  }

 private:
  [[nodiscard]] launch_continuation& work(std::size_t n) const noexcept { return *all_[left_[n]]; }
  [[nodiscard]] device& device_of_lane() const noexcept { return on_.runtime().device(); }

  /// Whether the device runs the launches as one call.
  [[nodiscard]] bool runs_together() const noexcept {
    return !device_of_lane().reports_task_failures();
  }

  void launch_alone(std::uint32_t i) noexcept {
    const auto enqueue = [&](const launch_context& context) {
      closure_.enqueue_one(context, i);
    };
    launch_continuation::run(std::move(all_[i]), on_, label_, closure_ref(enqueue));
  }

  /// Preflights the launches that are left. If that is refused, launches alone those that use the
  /// block because of which it was refused, or all, and returns false.
  [[nodiscard]] bool preflight() noexcept {
    try {
      runtime_core::of(on_.runtime())->require_open();
      recorder_ = launch_recorder::strict(on_.stream());
      joint_launches::expect(*recorder_, left_.size(), left_.size() * work(0).used_.size());
      for (std::size_t n = 0; n < left_.size(); ++n) {
        joint_launches::begin_next(*recorder_);
        const auto& used = work(n).used_;
        for (std::size_t u = 0; u < used.size(); ++u) {
          recorder_->use(used[u].block, used[u].access, used[u].whole);
        }
      }
      recorder_->preflight();
      return true;
    } catch (...) {
      // Those that are launched alone are answered with the reason.
      if (recorder_) recorder_->cancel();
    }
    small_vector<std::uint32_t, most_inline> refused;
    std::size_t kept = 0;
    try {
      refused.reserve(left_.size());
      for (std::size_t n = 0; n < left_.size(); ++n) {
        if (recorder_ && joint_launches::is_refused(*recorder_, n)) {
          refused.push_back(left_[n]);
        } else {
          left_[kept++] = left_[n];
        }
      }
    } catch (...) {
      kept = left_.size();
    }
    recorder_.reset();
    if (refused.empty()) {
      for (const auto i : left_) launch_alone(i);
      left_.clear();
      return false;
    }
    left_.truncate(kept);
    for (const auto i : refused) launch_alone(i);
    return false;
  }

  // Nothing throws from here on.
  void launch() noexcept {
    const bool together = runs_together();
    outcomes_.resize(left_.size());
    std::optional<library_call> call(device_of_lane().id());
    enter_into_load(together);
    for (std::size_t n = 0; n < left_.size(); ++n) {
      auto& one = work(n);
      one.timing_.describe(one.info_);
      one.trace([&](kernel_trace& to) { to.before_enqueue(one.info_); });
      completion_engine::expect(on_.stream(), one);
    }
    {
      const nvtx_range range(label_.c_str());
      const current_device_scope current(device_of_lane());
      if (!together || !enqueue_together()) {
        for (std::size_t n = 0; n < left_.size(); ++n) enqueue_one(n);
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
    const auto ending = together ? 0 : left_.size() - 1;
    lane_load::part all{.places = 1, .commands = 0, .batches = 1};
    for (std::size_t n = 0; n < left_.size(); ++n) {
      auto& one = work(n);
      one.info_.batch = left_.size();
      one.places_ = n == ending ? 1 : 0;
      one.batches_ = one.places_;
      if (n == ending) one.of_batch_ = std::move(own_);
      if (together) {
        commands_alone_ = one.commands_;
        one.commands_ = n == ending ? commands_ : 0;
        if (n == ending && one.info_.timed) one.commands_ += 2;  // the timestamps of the batch
      }
      one.begun_ = now;
      all.commands += one.commands_;
    }
    work(ending).load_.add(left_.size(), all);
  }

  /// Returns false if nothing has been enqueued.
  [[nodiscard]] bool enqueue_together() noexcept {
    std::optional<error> failure;
    bool enqueued = true;
    auto& timing = work(0).timing_;
    timing.begin(on_.stream());
    for (std::size_t n = 1; n < left_.size(); ++n) work(n).timing_.begin_with(timing);
    try {
      device_of_lane().require_usable();
      closure_.enqueue_together({on_.stream()}, left_.view());
    } catch (const nothing_enqueued&) {
      enqueued = false;
    } catch (...) {
      failure = current_error();
    }
    timing.end(on_.stream());
    for (std::size_t n = 1; n < left_.size(); ++n) work(n).timing_.end_with(timing);
    if (!enqueued) {
      for (std::size_t n = 1; n < left_.size(); ++n) work(n).timing_.forget();
      for (std::size_t n = 0; n < left_.size(); ++n) {
        work(n).commands_ += commands_alone_;
        work(n).load_.commands.fetch_add(commands_alone_, std::memory_order_relaxed);
      }
      return false;
    }
    const auto* const thrown = failure ? &*failure : nullptr;
    for (std::size_t n = 0; n < left_.size(); ++n) {
      auto& one = work(n);
      one.trace([&](kernel_trace& to) { to.after_enqueue(one.info_, thrown); });
    }
    std::uint64_t first = 0;
    try {
      first = joint_launches::submit_all(*recorder_, failure);
    } catch (...) {
      if (!failure) failure = current_error();
    }
    for (std::size_t n = 0; n < left_.size(); ++n) {
      outcomes_[n] = {first != 0 ? first + n : 0, failure};
    }
    return true;
  }

  void enqueue_one(std::size_t n) noexcept {
    auto& one = work(n);
    auto& result = outcomes_[n];
    one.timing_.begin(on_.stream());
    try {
      device_of_lane().require_usable();
      closure_.enqueue_one({on_.stream()}, left_[n]);
    } catch (const nothing_enqueued& e) {
      result.failure = e;
      result.enqueued = false;
    } catch (...) {
      result.failure = current_error();
    }
    one.timing_.end(on_.stream());
    const auto* const thrown = result.failure ? &*result.failure : nullptr;
    one.trace([&](kernel_trace& to) { to.after_enqueue(one.info_, thrown); });
    if (!result.enqueued) return joint_launches::cancel(*recorder_, n);
    try {
      result.ticket = joint_launches::submit(*recorder_, n, result.failure);
    } catch (...) {
      if (!result.failure) result.failure = current_error();
    }
  }

  /// The batch ends with the last launch that completes.
  void end_with_the_last() noexcept {
    std::size_t last = left_.size() - 1;
    while (last != 0 && !outcomes_[last].enqueued) --last;
    for (std::size_t n = 0; n < left_.size(); ++n) {
      work(n).places_ = work(n).batches_ = n == last ? 1 : 0;
    }
  }

  void hand_over() noexcept {
    // After a loss the engine ignores tickets.
    const auto behind_all =
        timeline::of(on_.stream())->newest().ticket + (device_of_lane().lost() ? 1 : 0);
    continuation_list in_flight;
    for (std::size_t n = 0; n < left_.size(); ++n) {
      auto& of = outcomes_[n];
      auto& one = work(n);
      if (!of.enqueued) {
        launch_continuation::cancel(std::move(all_[left_[n]]), *of.failure);
        continue;
      }
      one.trace([&](kernel_trace& to) { to.before_complete(one.info_); });
      one.answer_early(of.failure ? &*of.failure : nullptr);
      in_flight.add(of.ticket != 0 ? of.ticket : behind_all, std::move(all_[left_[n]]));
    }
    on_.engine().submit(on_.stream(), in_flight);
  }

  static constexpr std::size_t most_inline = 128;

  const std::span<std::unique_ptr<launch_continuation>> all_;
  std::vector<batch_works::outcome>& outcomes_;  // by position in `left_`
  lane& on_;
  const std::string& label_;
  const std::size_t commands_;
  std::size_t commands_alone_ = 0;  // of each launch if they are made one by one
  std::shared_ptr<const void> own_;
  batch_closure& closure_;
  small_vector<std::uint32_t, most_inline> left_;  // the launches that are not made yet
  std::optional<launch_recorder> recorder_;
};

void launch_continuation::run_batch(batch_works& works, lane& on, const std::string& nvtx_label,
                                    std::size_t commands, std::shared_ptr<const void> own,
                                    batch_closure& closure) noexcept {
  works.outcomes.clear();
  batch_launch(works, on, nvtx_label, commands, std::move(own), closure).run();
  works.all.clear();
  works.outcomes.clear();
}

}  // namespace sluice::detail
