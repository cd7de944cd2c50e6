// SPDX-License-Identifier: Apache-2.0
#include "operations/core/algorithm_trial_cuda.hpp"

#include "operations/core/trial_kernels.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

namespace sluice::cuda {
namespace {

constexpr int rounds = 3;
constexpr int max_attempts = 3;  // of one measurement
constexpr float unknown_time = std::numeric_limits<float>::infinity();
constexpr float measured_time = 0.5;      // of one algorithm in one round, in milliseconds
constexpr float max_time_of_call = 5;     // in milliseconds
constexpr unsigned time_to_enqueue = 20;  // one call, in microseconds
constexpr float needed_gain = 0.98F;  // the time of a better algorithm, relative to the first one

/// An event with timing.
class timing_event {
 public:
  explicit timing_event(const device& device) : device_(device) { check(cudaEventCreate(&event_)); }
  timing_event(const timing_event&) = delete;
  timing_event& operator=(const timing_event&) = delete;
  ~timing_event() {
    if (!device_.lost()) (void)cudaEventDestroy(event_);  // after a loss, the driver may block
  }
  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream)); }
  /// Waits until what was recorded has ended, without holding a lock of the driver. False if that
  /// takes more than a second.
  [[nodiscard]] bool wait() const {
    constexpr std::chrono::microseconds pause{20};
    constexpr std::chrono::seconds limit{1};
    const auto begin = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begin < limit) {
      if (device_.lost())
        throw error(errc::device_lost, "a trial of algorithms: the device is lost");
      const auto status = cudaEventQuery(event_);
      if (status == cudaSuccess) return true;
      if (status != cudaErrorNotReady) check(status);
      std::this_thread::sleep_for(pause);
    }
    return false;
  }
  /// The time between two records, in milliseconds.
  [[nodiscard]] static float between(const timing_event& begin, const timing_event& end) {
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.event_, end.event_));
    return milliseconds;
  }

 private:
  const device& device_;
  cudaEvent_t event_ = nullptr;
};

operations::noise_bits bits_of_noise(element_type type) noexcept {
  switch (type) {
    case element_type::e4m3:
      return {0x87878787U, 0x30303030U};
    case element_type::e5m2:
      return {0x83838383U, 0x38383838U};
    case element_type::f16:
      return {0x83ff83ffU, 0x38003800U};
    case element_type::bf16:
      return {0x807f807fU, 0x3f003f00U};
    case element_type::f32:
      return {0x807fffffU, 0x3f000000U};
    default:
      return {0xffffffffU, 0};
  }
}

/// Waits for at most two milliseconds until nothing is in flight: for the request before, often.
bool becomes_idle(const algorithm_selection& algorithms) {
  constexpr int attempts = 20;
  constexpr std::chrono::microseconds pause{100};
  for (int i = 0; !algorithms.is_idle(); ++i) {
    if (i == attempts) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

/// The calls of one trial.
class measured_calls {
 public:
  measured_calls(lane_libraries& libraries, const enqueue_algorithm& enqueue)
      : stream_(reinterpret_cast<cudaStream_t>(libraries.stream().native())),
        enqueue_(enqueue),
        begin_(libraries.runtime().device()),
        end_(libraries.runtime().device()) {}

  /// The time that the GPU takes for `calls` calls, in milliseconds. Infinite if the library does
  /// not take them; nothing if they do not end. The GPU begins after all of them have been
  /// enqueued, since short kernels would otherwise wait for the processor.
  [[nodiscard]] std::optional<float> time_of(std::size_t algorithm, int calls) {
    check(static_cast<cudaError_t>(
        operations::launch_pause(time_to_enqueue * static_cast<unsigned>(calls),
                                 reinterpret_cast<native_stream*>(stream_))));
    begin_.record(stream_);
    bool is_taken = true;
    for (int i = 0; i < calls && is_taken; ++i) is_taken = enqueue_(algorithm);
    end_.record(stream_);
    if (!end_.wait()) return std::nullopt;
    return is_taken ? timing_event::between(begin_, end_) : unknown_time;
  }

 private:
  cudaStream_t stream_;
  const enqueue_algorithm& enqueue_;
  timing_event begin_;
  timing_event end_;
};

/// The number of the fastest algorithm, or nothing.
std::optional<std::size_t> measure(lane_libraries& libraries, std::size_t count,
                                   const enqueue_algorithm& enqueue) {
  const auto& algorithms = libraries.algorithms();
  if (!becomes_idle(algorithms)) return std::nullopt;
  measured_calls calls(libraries, enqueue);
  std::vector<float> least(count, unknown_time);
  for (std::size_t i = 0; i < count; ++i) {
    if (!calls.time_of(i, 1)) return std::nullopt;  // loads its kernels
    const auto time = calls.time_of(i, 1);
    if (!time) return std::nullopt;
    least[i] = *time;
    if (least[0] > max_time_of_call) return std::nullopt;
  }
  constexpr float most_calls = 16;
  const auto repetitions =
      static_cast<int>(std::clamp(measured_time / std::max(least[0], 0.001F), 2.0F, most_calls));
  std::vector<std::size_t> candidates;  // others take many times as long as the first one
  for (std::size_t i = 0; i < count; ++i) {
    if (least[i] <= 2 * least[0]) candidates.push_back(i);
  }
  std::fill(least.begin(), least.end(), unknown_time);
  for (int round = 0; round < rounds; ++round) {
    for (const auto i : candidates) {
      for (int attempt = 0;; ++attempt) {
        if (attempt == max_attempts || !becomes_idle(algorithms)) return std::nullopt;
        const auto time = calls.time_of(i, repetitions);
        if (!time) return std::nullopt;
        if (!algorithms.is_idle()) continue;  // something else may have taken a part of it
        least[i] = std::min(least[i], *time);
        break;
      }
    }
  }
  const auto best = std::min_element(least.begin(), least.end());
  return *best <= needed_gain * least[0] ? static_cast<std::size_t>(best - least.begin()) : 0;
}

}  // namespace

std::optional<std::size_t> fastest_algorithm(lane_libraries& libraries, std::size_t count,
                                             const enqueue_algorithm& enqueue) {
  if (count < 2) return 0;
  try {
    return measure(libraries, count, enqueue);
  } catch (...) {
    libraries.runtime().device().require_usable();  // a loss is the better reason
    throw;
  }
}

void fill_with_noise(void* address, std::size_t bytes, element_type type, stream_ref stream) {
  check(static_cast<cudaError_t>(
      operations::launch_noise(address, bytes, bits_of_noise(type), stream.native())));
}

std::string subject_of_choice(const std::string& library, const device& device, const void* key,
                              std::size_t bytes) {
  constexpr auto policy = "2";  // of this file, of what is proposed and of the workspace
  const auto info = device.info();
  std::string subject = "algorithm of " + library + ", trial " + policy + ", " + info.name +
                        ", sm_" + std::to_string(info.compute_capability) + ", " +
                        std::to_string(info.multiprocessors) + " multiprocessors\n";
  return subject.append(std::string_view(static_cast<const char*>(key), bytes));
}

}  // namespace sluice::cuda
