// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/front_channel.hpp"
#include "service/arena/worker_channel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <poll.h>
#include <span>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::service::test {

/// The worker's side of a channel in the same process and over the same mapping, so that
/// ThreadSanitizer sees both sides.
[[nodiscard]] inline std::unique_ptr<worker_channel> worker_beside(const front_channel& front) {
  return std::make_unique<worker_channel>(front.memory(),
                                          file_descriptor(::dup(front.worker_wake_descriptor())),
                                          file_descriptor(::dup(front.front_wake_descriptor())));
}

/// Whether a descriptor is readable, or becomes so within the time.
[[nodiscard]] inline bool is_readable(int descriptor, int milliseconds = 0) {
  pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&readable, 1, milliseconds) == 1;
}

/// Ends a wait that would last for ever.
inline constexpr int hang_in_ms = 60'000;

/// A request for the model 0 with a vector of bytes for each tensor of the region.
[[nodiscard]] inline run_message request_for_bytes(std::uint64_t number,
                                                   const request_region& region) {
  run_message message{.number = number};
  for (std::size_t i = 0; i < region.size(); ++i) {
    message.inputs.push_back({.number = static_cast<std::uint32_t>(i),
                              .type = datatype::uint8,
                              .shape = {static_cast<std::int64_t>(region.tensor(i).size())}});
  }
  return message;
}

/// Sends a request with one tensor of these bytes.
[[nodiscard]] inline bool send_bytes(front_channel& front, std::uint64_t number,
                                     std::span<const std::byte> bytes) {
  const std::uint64_t size = bytes.size();
  auto region = front.allocate({&size, 1});
  if (!region) return false;
  std::copy(bytes.begin(), bytes.end(), region->tensor(0).begin());
  auto message = request_for_bytes(number, *region);
  return front.send(message, *region);
}

/// Answers a request with its inputs; false if there is no memory.
[[nodiscard]] inline bool send_echo(worker_channel& worker, const run_message& request) {
  std::vector<std::uint64_t> sizes;
  for (const auto& input : request.inputs) sizes.push_back(input.bytes);
  auto region = worker.allocate(sizes);
  if (!region) return false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto input = worker.bytes(request.inputs[i]);
    std::copy(input.begin(), input.end(), region->tensor(i).begin());
  }
  worker.send(request.number, request.inputs, std::move(*region));
  return true;
}

}  // namespace sluice::service::test
