// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/releasable.hpp>

#include <cstddef>
#include <memory>

namespace sluice::detail {

class completion_words;
class release_list;
class timeline;

/// What timelines, blocks and transfers need from their runtime. The runtime's core implements it,
/// so that these folders do not depend on the core. Thread-safe.
class runtime_context : public resource_context {
 public:
  [[nodiscard]] virtual const std::shared_ptr<sluice::device>& shared_device() const noexcept = 0;
  /// Whether any launch of the device can fail after it was enqueued. Otherwise only a launch with
  /// a dependency can.
  [[nodiscard]] virtual bool tasks_may_fail() const noexcept = 0;
  /// Checks that the runtime accepts work.
  /// @throws error `shutting_down`
  /// @throws error `device_lost`
  virtual void require_open() const = 0;

  /// The record of a stream of this runtime, retired ones included. nullptr for any other id.
  [[nodiscard]] virtual timeline* find(stream_id id) const noexcept = 0;
  virtual void wait_until_complete(timeline_point point) noexcept = 0;
  /// Takes over a retired timeline, to free its slots once everything on it has completed.
  virtual void note_retired(timeline& t) noexcept = 0;
  /// Makes the reclaim thread forget the oldest failures of `t`.
  virtual void forget_failures_later(timeline& t) noexcept = 0;
  /// The words of the streams; nullptr if only events tell of completed work.
  [[nodiscard]] virtual completion_words* words() noexcept = 0;
  virtual void count_events(std::ptrdiff_t change) noexcept = 0;
  virtual void count_stream_retired() noexcept = 0;

  [[nodiscard]] virtual release_list& releases() noexcept = 0;
  /// Makes the reclaim thread release `item`. Without a reclaim thread, the next drain of the
  /// release list releases it.
  virtual void release_later(releasable* item) noexcept = 0;
  /// Starts the reclaim thread unless it runs.
  /// @throws std::system_error if the thread cannot be started
  virtual void start_reclaiming() = 0;
};

}  // namespace sluice::detail
