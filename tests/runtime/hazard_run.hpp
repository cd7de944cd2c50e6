#pragma once

#include "tests/runtime/hazard_dag.hpp"
#include "tests/runtime/hazard_kernels.hpp"

#include <sluice/runtime/device_runtime.hpp>

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
  enum class memory : std::uint8_t { async, direct, pool, pool_of_unfinished };

  hazard_session(std::shared_ptr<device> device, memory resource, std::size_t streams);

  [[nodiscard]] device_runtime& runtime() noexcept { return runtime_; }

  /// Leaves the waits of this class of that step out in later runs; nothing: none.
  void leave_out(std::optional<step_wait> wait) noexcept { left_out_ = wait; }

  /// Submits the DAG from its threads and returns what its blocks hold afterwards. The order of
  /// submission is fixed for each block (readers between two writers excepted) and free otherwise.
  /// `gated`: nothing runs before everything has been submitted; else it runs meanwhile.
  /// @throws error what a submitting thread threw first
  [[nodiscard]] block_contents run(const hazard_dag& dag, bool gated);

  /// How many allocations there were, and how many of them got an address for the first time.
  [[nodiscard]] std::size_t allocations() const noexcept { return allocations_; }
  [[nodiscard]] std::size_t distinct_addresses() const noexcept { return addresses_.size(); }

 private:
  class submission;

  // The callback that asks it belongs to the runtime, which goes first.
  std::optional<step_wait> left_out_;
  device_runtime runtime_;
  std::vector<stream> streams_;
  std::size_t allocations_ = 0;
  std::unordered_set<const void*> addresses_;
};

/// The blocks' contents in words, for a failed comparison: the first difference.
[[nodiscard]] std::string difference(const block_contents& computed,
                                     const block_contents& expected);

}  // namespace sluice::test
