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

/// Enqueues the kernel on `stream`: a host task made of instrumented loops, or a CUDA kernel.
void enqueue_mix(stream_ref stream, const mix_arguments& arguments);

/// A runtime and its streams, used for one DAG after the other.
class hazard_session {
 public:
  enum class memory : std::uint8_t {
    async,
    direct,  ///< tracked
    pool,    ///< the default: budget over pool over async
    pool_of_unfinished,
    pool_over_direct,
    guard,  ///< over the default, as the next two
    logging,
    statistics,
  };

  hazard_session(std::shared_ptr<device> device, memory resource, std::size_t streams);

  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }

  /// The threads take turns: step after step in the order of the DAG.
  void submit_in_order() noexcept { in_order_ = true; }
  /// Leaves the waits of this class of that step out in later runs; nothing: none.
  void leave_out(std::optional<step_wait> wait) noexcept { left_out_ = wait; }

  /// Submits the DAG from its threads and returns what its blocks hold afterwards. The order of
  /// submission is fixed for each block (readers between two writers excepted) and free otherwise.
  /// `gated`: nothing runs before everything has been submitted; else it runs meanwhile.
  /// @throws error what a submitting thread threw first
  [[nodiscard]] block_contents run(const hazard_dag& dag, bool gated);

  /// Submits the DAG behind a gate without its operations. Returns where its blocks come to lie.
  [[nodiscard]] block_places place(const hazard_dag& dag);
  /// Where the blocks of the last DAG lay.
  [[nodiscard]] const block_places& places() const noexcept { return places_; }

  /// What became of memory that was freed, in all runs.
  struct reuse {
    std::size_t allocations = 0;
    std::size_t distinct_addresses = 0;
    std::size_t within_a_dag = 0;          ///< allocations at an address that the DAG had before
    std::size_t unfinished = 0;            ///< grants with earlier uses to wait for
    std::size_t unfinished_elsewhere = 0;  ///< some of them on other streams than the asking one
  };
  [[nodiscard]] const reuse& reused() const noexcept { return reused_; }
  /// What a guard has found, if there is one.
  [[nodiscard]] std::uint64_t findings() const noexcept { return guard_->reported.load(); }

 private:
  class submission;
  /// Holds what the DAG runs on back.
  void close(gate& closed, const hazard_dag& dag);

  // The callback that asks it belongs to the runtime, which goes first.
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

/// The blocks' contents in words, for a failed comparison: the first difference.
[[nodiscard]] std::string difference(const block_contents& computed,
                                     const block_contents& expected);

}  // namespace sluice::test
