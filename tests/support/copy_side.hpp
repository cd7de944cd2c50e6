// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/runtime_core.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/pretended_gpu.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

using words = gpu_ref<std::uint32_t>;
using values = std::vector<std::uint32_t>;

/// Opens a device. "pretended:N" is a pretended GPU.
inline std::shared_ptr<sluice::device> open(const std::string& name) {
  if (name.starts_with("pretended:")) {
    static const auto real = open_host_device();
    return std::make_shared<pretended_gpu>(std::stoi(name.substr(name.find(':') + 1)), real);
  }
  return open_device(name);
}

/// A runtime with two streams.
struct side {
  explicit side(const std::string& name) : side(open(name)) {}
  explicit side(std::shared_ptr<sluice::device> device, runtime_options options = {})
      : runtime(std::make_unique<device_runtime>(std::move(device), std::move(options))),
        stream(runtime->create_stream()),
        other(runtime->create_stream()) {}

  [[nodiscard]] words allocate(std::size_t count) const {
    return runtime->allocate<std::uint32_t>(count, stream, "copied");
  }
  [[nodiscard]] words holding(const values& v) const { return upload(*runtime, stream, v); }
  [[nodiscard]] bool done(timeline_point point) const {
    auto* t = detail::runtime_core::of(*runtime)->find(point.stream);
    return t->advance() >= point.ticket;
  }
  /// The failure of a completed launch.
  [[nodiscard]] std::optional<error> failure_of(timeline_point point) const {
    return detail::runtime_core::of(*runtime)->find(point.stream)->failure_of(point.ticket);
  }

  std::unique_ptr<device_runtime> runtime;
  sluice::stream stream;
  sluice::stream other;
};

}  // namespace sluice::test
