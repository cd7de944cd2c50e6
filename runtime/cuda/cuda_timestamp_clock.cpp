// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_timestamp_clock.hpp"

#include "runtime/cuda/native.hpp"

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace sluice::cuda {
namespace {

/// Relates a timed event on a stream of its own to the host's clock. The time of another timestamp
/// is its distance from that event.
class cuda_timestamp_clock final : public timestamp_clock {
 public:
  using clock = std::chrono::steady_clock;

  explicit cuda_timestamp_clock(device& device) : device_(device) {
    // High priority: its few records should not queue after kernels.
    stream_ = device.create_stream(stream_priority::high);
    try {
      for (auto& a : anchors_) a.stamp = device.create_timestamp();
    } catch (...) {
      release();
      throw;
    }
  }
  ~cuda_timestamp_clock() override { release(); }

  bool anchor() noexcept override {
    // The GPU may be asleep at the first record, so the measurement with the tightest bounds
    // counts.
    bool any = false;
    for (int attempt = 0; attempt < 3; ++attempt) {
      auto& next = anchors_[1 - anchor_index_];
      if (!measure(next)) break;
      if (!any || next.uncertainty < anchors_[anchor_index_].uncertainty)
        anchor_index_ = 1 - anchor_index_;
      any = true;
      if (anchors_[anchor_index_].uncertainty < std::chrono::microseconds(5)) break;
    }
    known_ = known_ || any;
    return any;
  }

  std::optional<clock::time_point> time_of(native_timestamp* stamp) noexcept override {
    if (!known_ || device_.lost()) return std::nullopt;
    const current_device_scope scope(device_);
    const auto& anchor = anchors_[anchor_index_];
    float milliseconds = 0;
    if (cudaEventElapsedTime(&milliseconds, as_event(anchor.stamp), as_event(stamp)) !=
        cudaSuccess) {
      (void)cudaGetLastError();
      return std::nullopt;
    }
    return anchor.time + std::chrono::round<clock::duration>(
                             std::chrono::duration<double, std::milli>(milliseconds));
  }

 private:
  /// A timestamp and its time on the host's clock.
  struct anchored {
    native_timestamp* stamp = nullptr;
    clock::time_point time{};
    clock::duration uncertainty{};
  };

  /// Records `a`, and bounds the time at which the GPU reached it.
  bool measure(anchored& a) noexcept {
    if (device_.lost()) return false;
    const current_device_scope scope(device_);
    auto pending = clock::now();
    const auto limit = pending + std::chrono::milliseconds(50);
    if (!device_.record_timestamp(a.stamp, stream_)) return false;
    for (;;) {
      const auto query_time = clock::now();
      const auto status = cudaEventQuery(as_event(a.stamp));
      const auto answered = clock::now();
      if (status == cudaSuccess) {
        a.uncertainty = (answered - pending) / 2;
        a.time = pending + a.uncertainty;
        return true;
      }
      (void)cudaGetLastError();
      if (status != cudaErrorNotReady || answered > limit || device_.lost()) return false;
      pending = query_time;
    }
  }

  void release() noexcept {
    for (const auto& a : anchors_) {
      if (a.stamp != nullptr) device_.destroy_timestamp(a.stamp);
    }
    device_.destroy_stream(stream_);
  }

  device& device_;
  native_stream* stream_ = nullptr;
  std::array<anchored, 2> anchors_;
  std::size_t anchor_index_ = 0;
  bool known_ = false;
};

}  // namespace

std::unique_ptr<timestamp_clock> make_clock(device& device) {
  return std::make_unique<cuda_timestamp_clock>(device);
}

}  // namespace sluice::cuda
