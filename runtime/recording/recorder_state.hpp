// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "runtime/recording/launch_leases.hpp"
#include "runtime/recording/recorded_use.hpp"

#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::detail {

/// The state of a launch recorder, which defines the functions that have a counterpart here. Its
/// memory is reused by later recorders of the thread. Not thread-safe.
class recorder_state {
 public:
  recorder_state() noexcept = default;
  recorder_state(const recorder_state&) = delete;
  recorder_state& operator=(const recorder_state&) = delete;
  ~recorder_state() = default;

  /// Begins a new recorder in this state.
  void begin(timeline& stream, recorder_mode mode);
  /// Ends the recorder. Keeps memory for the next one. Returns the core, which may be destroyed
  /// with the result.
  [[nodiscard]] std::shared_ptr<runtime_core> end() noexcept;

  [[nodiscard]] stream_id launch_stream() const noexcept { return stream_->id(); }
  [[nodiscard]] recorder_mode mode() const noexcept { return mode_; }
  [[nodiscard]] std::size_t count() noexcept { return uses_.size(); }

  void note(const block_ref& block, access_kind access, bool whole, const char* verb,
            bool read_only) noexcept;
  /// With `waits`, waits at a conflict of leases. Otherwise returns false there and changes
  /// nothing.
  bool preflight(bool waits);
  [[nodiscard]] std::span<const timeline_point> dependencies() const noexcept {
    return dependencies_.view();
  }
  /// As `launch_dependencies::look_for_unfinished`.
  void look_for_unfinished() noexcept { looks_for_unfinished_ = true; }
  [[nodiscard]] bool follows_unfinished() const noexcept { return follows_unfinished_; }
  void depend_on(std::unique_ptr<cross_runtime_dependency> upstream) noexcept {
    upstream_ = std::move(upstream);
  }
  void find_errors(launch_errors_owner& errors) noexcept { errors_ = &errors; }
  void cancel() noexcept;
  timeline_point commit(const std::optional<error>& failure);

  // The functions of `joint_launches`.
  void expect(std::size_t launches, std::size_t uses);
  void begin_next();
  [[nodiscard]] bool is_refused(std::size_t i) const noexcept;
  void find_errors(std::size_t i, launch_errors_owner& errors) noexcept {
    joint_launches_[i].errors = &errors;
    joint_launches_find_errors_ = true;
  }
  std::uint64_t submit_one(std::size_t i, const std::optional<error>& failure);
  std::uint64_t submit_all(const std::optional<error>& failure);
  void cancel_one(std::size_t i) noexcept;
  void publish_all() noexcept;

 private:
  static constexpr std::size_t max_kept = 4096;  // elements of memory kept in a spare state
  /// One of several launches that are preflighted together.
  struct joint_launch {
    std::uint32_t first_use;         // in `joint_uses_`
    std::uint32_t first_dependency;  // in `joint_dependencies_`
    timeline_point point;            // once it has a ticket
    bool may_fail;
    bool published;
    std::uint32_t long_list;  // in `long_dependencies_`, or `no_list`
    launch_errors_owner* errors;
  };
  static constexpr std::uint32_t no_list = ~std::uint32_t{0};
  /// The use of one block by one of them.
  struct joint_use {
    block_record* record;
    std::uint64_t generation;
    access_kind access;
    bool whole;
    std::uint32_t use_index;  // in `uses_`, after preflight
  };
  enum class phase : std::uint8_t { recording, cancelled, refused, preflighted, committed };
  /// The epoch in which the launch reads outcomes of a stream.
  struct read_outcomes {
    timeline* source;
    unsigned epoch;
  };

  /// Whether registration and preflight are allowed.
  [[nodiscard]] bool open() const noexcept {
    return phase_ == phase::recording || phase_ == phase::cancelled;
  }
  /// Notes why `note` does not take a use.
  [[gnu::cold]] void refuse(const block_ref& block, access_kind access, const char* verb,
                            bool read_only) noexcept;
  void reject(const char* verb, const std::string& reason);
  /// Notes the misuse and returns the error. Called after the launch has returned its leases.
  [[nodiscard]] error stale_error(const recorded_use& u);
  /// Tells the resource of the misuse that was noted, which may call code of the user.
  void report_misuse() noexcept;

  /// Keeps the outcomes of the tickets of `source` until the launch has been published.
  void read_outcomes_of(timeline& source);
  void stop_reading_outcomes() noexcept;
  void forget_dependencies() noexcept;
  /// Checks identities and earlier failures, and queues the waits. Under the leases.
  /// @throws stale_block
  void fence();

  /// The number of launches, each of which takes a ticket.
  [[nodiscard]] std::size_t launches() const noexcept {
    return std::max<std::size_t>(1, joint_launches_.size());
  }
  [[nodiscard]] std::span<joint_use> uses_of(std::size_t i) noexcept;
  /// Finds out what each of the joint launches depends on.
  void relate_joint_launches();
  /// Keeps the dependencies that were added last as those of one launch, each once, with memory for
  /// as many as there are: once the launch has been enqueued, an allocation must not fail.
  /// @throws std::bad_alloc
  void keep_dependencies_of(joint_launch& launch);
  /// The dependencies of one of them. `ticket_function(j)` is the ticket of an earlier one.
  template <class TicketOf>
  [[nodiscard]] dependency_points dependencies_of(std::size_t i,
                                                  const TicketOf& ticket_function) noexcept;

  timeline_point publish(const std::optional<error>& failure);
  /// Publishes without a lease, so it clears no earlier point.
  void publish_unfenced(const std::optional<error>& failure);
  /// The point to publish if no ticket is available: the last ticket of a retired stream, or the
  /// empty point after waiting for the work.
  [[nodiscard]] timeline_point stand_in(const error& cause) noexcept;
  /// Publishes a launch that is destroyed between preflight and commit.
  void abandon() noexcept;

  runtime_core* core_ = nullptr;  // held by the timeline of the stream, or by the next member
  std::shared_ptr<runtime_core> shared_core_;  // set if the runtime had been destroyed
  timeline* stream_ = nullptr;
  recorder_mode mode_ = recorder_mode::strict;
  phase phase_ = phase::recording;
  recorded_uses uses_;
  launch_leases leases_;
  small_vector<hazard_point, 16> waits_;
  dependency_points dependencies_;
  // Of the launch's stream and of the streams it depends on.
  small_vector<read_outcomes, 8> outcomes_;
  std::unique_ptr<cross_runtime_dependency> upstream_;
  bool looks_for_unfinished_ = false;
  bool follows_unfinished_ = false;
  launch_errors_owner* errors_ = nullptr;
  std::uint64_t first_ticket_ = 0;  // the next ticket of the stream when the launch began
  small_vector<joint_launch, 1> joint_launches_;
  bool joint_launches_find_errors_ = false;  // one of them has an error word
  small_vector<joint_use, 1> joint_uses_;
  // A point whose ticket has `earlier_launch` stands for the joint launch with this number.
  small_vector<timeline_point, 1> joint_dependencies_;
  static constexpr auto earlier_launch = std::uint64_t{1} << 63U;
  // Memory for those of a launch that has more of them than a list holds without heap memory.
  std::vector<dependency_points> long_dependencies_;
  // The block because of which preflight was refused.
  const block_record* refused_record_ = nullptr;
  std::uint64_t refused_generation_ = 0;
  std::optional<error> rejection_;
  // The stale block. If the thread holds leases of other launches, the end of the recorder reports
  // it: a thread that holds a lock of the user may be waiting for them.
  std::optional<allocation> misused_;
};

}  // namespace sluice::detail
