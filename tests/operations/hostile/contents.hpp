// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/mutation.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/random_values.hpp"

#include <sluice/envelope/operands.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// The elements of all operands of a request, which it must not change.
class contents {
 public:
  /// Fills the memory of the operands with random bytes. Operands that the runtime may not use are
  /// left out.
  contents(const any_request& request, const device_runtime& runtime, stream_ref stream,
           std::mt19937_64& generator)
      : stream_(stream) {
    for (const auto& operand : request.operands()) {
      if (!is_usable(runtime, operand.block())) continue;
      const gpu_ref<std::uint8_t> all(operand.block(), 0, operand.block().bytes());
      const auto bytes = random_values<std::uint8_t>(generator, all.size());
      launch_recorder recorder = begin_write(all, stream_);
      stream_.device().copy(all.data(), bytes.data(), bytes.size(), copy_direction::host_to_device,
                            stream_.native());
      recorder.commit();
      stream_.synchronize();
      memory_.push_back({all, {}});
    }
    // Two operands may share their memory.
    for (auto& [all, bytes] : memory_) bytes = download(all, stream_);
    for (const auto& t : request.host_tensors()) host_.push_back(bytes_of(t));
  }

  /// What has changed; empty if nothing has.
  [[nodiscard]] std::string changes(const any_request& request) const {
    for (const auto& [all, bytes] : memory_) {
      if (download(all, stream_) != bytes) return "an operand has other elements";
    }
    std::vector<std::vector<std::uint8_t>> now;
    for (const auto& t : request.host_tensors()) now.push_back(bytes_of(t));
    return now == host_ ? "" : "a tensor in host memory has other elements";
  }

 private:
  /// Whether `runtime` may use the memory: it has not been freed and belongs to no other runtime.
  static bool is_usable(const device_runtime& runtime, const block_ref& block) {
    try {
      if (!block.stale()) check_operand(runtime, {.block = block, .name = "operand"});
      return !block.stale();
    } catch (const error&) {
      return false;
    }
  }
  static std::vector<std::uint8_t> bytes_of(const host_tensor& t) {
    const auto* const first = static_cast<const std::uint8_t*>(t.data().get());
    return {first, first + t.bytes()};
  }

  stream_ref stream_;
  std::vector<std::pair<gpu_ref<std::uint8_t>, std::vector<std::uint8_t>>> memory_;
  std::vector<std::vector<std::uint8_t>> host_;
};

}  // namespace sluice::test
