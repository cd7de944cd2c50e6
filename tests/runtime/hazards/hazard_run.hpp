// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/runtime/hazards/hazard_dag.hpp"
#include "tests/runtime/hazards/hazard_kernels.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace sluice::test {

/// Enqueues the kernel on `stream`: a host task of instrumented loops, or a CUDA kernel.
void enqueue_mix(stream_ref stream, const mix_arguments& arguments);

/// A runtime with its streams, used for a series of DAGs.
class hazard_session {
 public:
  enum class memory : std::uint8_t {
    async,
    direct,  ///< with use tracking
    pool,    ///< the default: budget over pool over async
    pool_of_unfinished,
    pool_over_direct,
    guard,  ///< over the default stack, like the next two
    logging,
    statistics,
  };

  hazard_session(std::shared_ptr<device> device, memory resource, std::size_t streams);

  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }

  /// Makes the threads take turns in the order of the DAG's steps.
  void submit_in_order() noexcept { in_order_ = true; }
  /// Leaves out the waits of this class and step in the next run. Nothing: leaves out none.
  void leave_out(std::optional<step_wait> wait) noexcept { left_out_ = wait; }

  /// Submits the DAG from its threads and returns the contents of its blocks.
  ///
  /// The order of submission is fixed for each block, except among readers between two writers. If
  /// `gated` is true, no step runs before all have been submitted. Otherwise steps run during the
  /// submission.
  /// @throws error the first error of a submitting thread
  [[nodiscard]] block_contents run(const hazard_dag& dag, bool gated);

  /// Submits the DAG behind a gate without its operations. Returns the addresses of its blocks.
  [[nodiscard]] block_places place(const hazard_dag& dag);
  /// The addresses of the last DAG's blocks.
  [[nodiscard]] const block_places& places() const noexcept { return places_; }

  /// The reuse of freed memory in all runs.
  struct reuse {
    std::size_t allocations = 0;
    std::size_t distinct_addresses = 0;
    std::size_t within_a_dag = 0;  ///< allocations at an address that the DAG had used before
    std::size_t unfinished = 0;    ///< grants with unfinished earlier uses
    std::size_t unfinished_elsewhere =
        0;  ///< those with earlier uses on other streams than the allocating one
  };
  [[nodiscard]] const reuse& reused() const noexcept { return reused_; }
  /// The number of findings of the guard, if there is one.
  [[nodiscard]] std::uint64_t findings() const noexcept { return guard_->reported.load(); }

 private:
  class submission;
  /// Blocks the streams of the DAG with `closed`.
  void close(gate& closed, const hazard_dag& dag);

  // The runtime's callback reads it, so it must outlive the runtime.
  std::optional<step_wait> left_out_;
  std::shared_ptr<guard_counters> guard_ = std::make_shared<guard_counters>();
  device_runtime runtime_;
  std::vector<stream> streams_;
  bool in_order_ = false;
  block_places places_;
  reuse reused_;
  std::unordered_set<const void*> addresses_;
};

[[nodiscard]] std::string_view name_of(hazard_session::memory resource) noexcept;

/// Describes the first difference between the contents, or returns an empty text.
[[nodiscard]] std::string difference(const block_contents& computed,
                                     const block_contents& expected);

}  // namespace sluice::test
