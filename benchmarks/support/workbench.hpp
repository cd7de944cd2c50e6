// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_runtime.hpp>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::bench {

/// The heap allocations of one call of the device itself: the host device creates a task for every
/// record and every wait.
struct device_allocations {
  std::uint64_t record = 0;
  std::uint64_t wait = 0;
};

/// A runtime on one device and the streams that its benchmarks share. The first benchmark that runs
/// creates them. Google Benchmark starts a benchmark several times, and a runtime keeps the records
/// of all of its streams, so new streams each time would add up. Thread-safe.
class workbench {
 public:
  using make_resource = std::unique_ptr<memory_resource> (*)();

  workbench(std::string device, make_resource make) : name_(std::move(device)), make_(make) {}

  [[nodiscard]] device_runtime& runtime();
  /// `index` below `max_streams`.
  [[nodiscard]] stream_ref stream(int index);
  [[nodiscard]] const device_allocations& allocations();

  static constexpr int max_streams = 10;

 private:
  void make_once();

  const std::string name_;
  const make_resource make_;
  std::once_flag made_;
  std::unique_ptr<device_runtime> runtime_;
  std::vector<sluice::stream> streams_;
  device_allocations allocations_;
};

}  // namespace sluice::bench
