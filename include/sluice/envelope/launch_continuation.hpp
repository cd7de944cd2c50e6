// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/lane.hpp>
#include <sluice/envelope/launch_timing.hpp>
#include <sluice/envelope/operands.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/launch_errors.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

struct launch_context;

namespace detail {

/// A reference to a closure of any type, valid during one call.
class closure_ref {
 public:
  template <class Closure>
  // NOLINTNEXTLINE(google-explicit-constructor): an adaptor for one call.
  closure_ref(Closure& closure)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(closure)))),
        call_([](void* object, const launch_context& context) {
          (*static_cast<Closure*>(object))(context);
        }) {}
  void operator()(const launch_context& context) const { call_(object_, context); }

 private:
  void* object_;
  void (*call_)(void*, const launch_context&);
};

/// Enqueues the launches of a batch. A launch is named by its position among all of the batch.
class SLUICE_EXPORT batch_closure {
 public:
  batch_closure() = default;
  batch_closure(const batch_closure&) = delete;
  batch_closure& operator=(const batch_closure&) = delete;
  virtual ~batch_closure() = default;
  /// Enqueues one launch.
  virtual void enqueue_one(const launch_context& context, std::size_t index) = 0;
  /// Enqueues some of the launches, in order, as one call.
  virtual void enqueue_together(const launch_context& context,
                                std::span<const std::uint32_t> indices) = 0;
};

class launch_continuation;

/// The launches of a batch, and the memory that launching them takes. The next batch of its owner
/// uses that memory again.
struct batch_works {
  /// What has become of a launch: a ticket, or an error, or both.
  struct outcome {
    std::uint64_t ticket = 0;
    std::optional<error> failure{};
    bool enqueued = true;
  };
  std::vector<std::unique_ptr<launch_continuation>> launches{};
  std::vector<outcome> outcomes{};  ///< of those that are launched together
};

/// The launch of an envelope: its owners, its trace and its reply.
class SLUICE_EXPORT launch_continuation final : public continuation {
 public:
  /// With `is_batch`, the launch counts as a batch of its lane.
  launch_continuation(operands&& uses, std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                      lane_load& load, std::shared_ptr<reply_state>&& reply, std::size_t commands,
                      reply_on reply_time, bool is_batch)
      : operands_(std::move(uses)),
        trace_(std::move(trace)),
        info_(info),
        load_(load),
        reply_(std::move(reply)),
        commands_(commands),
        reply_time_(reply_time),
        batches_(is_batch ? 1 : 0) {}
  ~launch_continuation() override {
    if (reply_) reply_->drop_output();
  }

  /// Has the launch timed.
  void time(launch_timestamps& timestamps, recycled_memory& memory) noexcept {
    timing_ = timestamps.prepare(memory);
  }
  /// Gives the launch an error word, which fails it alone if its work finds an error.
  void find_errors(launch_errors_owner&& errors) noexcept { errors_ = std::move(errors); }
  /// Steps 4 to 7 of a launch (docs/concepts/envelope_and_completion.md). Answers on every path.
  static void run(std::unique_ptr<launch_continuation> work, lane& lane,
                  const std::string& nvtx_label, closure_ref closure) noexcept;
  /// Launches all of `works`, which count as one batch of the lane. They must not depend on each
  /// other, and have at most `joint_launches::max_uses` operands each. `commands` are the most
  /// device commands of all of them together, on a device that runs them as one call. That call
  /// uses `batch_data`.
  ///
  /// Each has its own ticket, result and reply, as if launched alone. What preflight refuses is
  /// launched alone, and so is all of the batch if the common call enqueues nothing.
  static void run_batch(batch_works& works, lane& lane, const std::string& nvtx_label,
                        std::size_t commands, std::shared_ptr<const void> batch_data,
                        batch_closure& closure) noexcept;

  std::shared_ptr<launch_reply> complete(const error* failure) noexcept override;

  /// The memory of a continuation belongs to its lane.
  ///@{
  static void* operator new(std::size_t bytes, lane_load& load) { return load.take(bytes); }
  static void operator delete(void* memory, lane_load& load) noexcept { load.give_back(memory); }
  static void operator delete(launch_continuation* launch, std::destroying_delete_t) noexcept {
    auto& load = launch->load_;
    launch->~launch_continuation();
    load.give_back(launch);
  }
  ///@}

 private:
  friend class batch_launch;
  /// What the launch takes of its lane.
  [[nodiscard]] lane_load::part part() const noexcept { return {places_, commands_, batches_}; }
  template <class Hook>
  void trace(const Hook& hook) const noexcept {
    call_trace(trace_.get(), hook);
  }
  /// Answers a launch that preflight has refused.
  static void refuse(std::unique_ptr<launch_continuation> work, const error& failure) noexcept;
  /// Ends a launch for which nothing has been enqueued.
  static void cancel(std::unique_ptr<launch_continuation> work, const error& failure) noexcept;
  /// Gives the answer that does not wait for the device, if there is one.
  void answer_early(const error* failure) noexcept;

  operands operands_;
  std::shared_ptr<kernel_trace> trace_;  // keeps the strings of `info_` alive
  kernel_info info_;
  launch_timing timing_;
  lane_load& load_;                     // lives until the memory of the launch has been returned
  std::shared_ptr<reply_state> reply_;  // holds the output; given away with a successful reply
  launch_errors_owner errors_;          // until the launch has a ticket
  std::shared_ptr<const void> batch_data_;  // what a common call uses; kept by one of its launches
  std::size_t commands_;
  reply_on reply_time_;
  std::uint8_t batches_;     // that end with the launch, on its lane
  std::uint8_t places_ = 1;  // of the lane that it takes; a batch takes one
  std::chrono::steady_clock::time_point begin_time_{};
};

[[nodiscard]] SLUICE_EXPORT std::uint64_t next_launch_id() noexcept;

}  // namespace detail

}  // namespace sluice
