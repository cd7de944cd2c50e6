// SPDX-License-Identifier: Apache-2.0
#include "service/worker/reply_sender.hpp"

#include "service/worker/element_types.hpp"

#include <cstddef>
#include <cstring>
#include <exception>
#include <numeric>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] std::vector<std::uint64_t> sizes_of(const std::vector<host_tensor>& outputs) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(outputs.size());
  for (const auto& output : outputs) sizes.push_back(output.bytes());
  return sizes;
}

/// Why the outputs of a reply can never be sent.
[[nodiscard]] std::optional<request_error> defect_of(const worker_reply& reply,
                                                     const worker_channel& channel) {
  for (const auto& output : reply.outputs) {
    if (!datatype_of(output.type())) {
      return request_error(request_status::unimplemented,
                           "an output has the type " + std::string(to_string(output.type())) +
                               ", which the protocol does not have");
    }
    if (output.shape().size() > tensor_descriptor::max_rank) {
      return request_error(request_status::unimplemented, "an output has more than 8 dimensions");
    }
  }
  if (channel.can_hold(sizes_of(reply.outputs))) return std::nullopt;
  return request_error(request_status::too_large,
                       "the outputs are larger than the memory for replies");
}

[[nodiscard]] std::vector<tensor_descriptor> descriptors_of(const worker_reply& reply) {
  std::vector<tensor_descriptor> descriptors;
  descriptors.reserve(reply.outputs.size());
  for (std::size_t i = 0; i < reply.outputs.size(); ++i) {
    const auto& output = reply.outputs[i];
    descriptors.push_back({.number = reply.numbers[i],
                           .type = *datatype_of(output.type()),
                           .shape = {output.shape().begin(), output.shape().end()}});
  }
  return descriptors;
}

}  // namespace

std::shared_ptr<reply_region> reply_sender::reserve(std::span<const std::uint64_t> sizes) {
  const auto bytes = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  const std::lock_guard lock(mutex_);
  // What waits for memory comes first.
  if (!waiting_.empty()) return nullptr;
  if (reserved_bytes_.load(std::memory_order_relaxed) + bytes > channel_.reply_bytes() / 2) {
    return nullptr;
  }
  auto region = channel_.allocate(sizes);
  if (!region) return nullptr;
  auto owned = std::make_unique<reply_region>(std::move(*region));
  reserved_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return {owned.release(), [this, bytes](const reply_region* memory) {
            delete memory;
            reserved_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
          }};
}

void reply_sender::send(worker_reply reply) noexcept {
  const std::lock_guard lock(mutex_);
  // Before an attempt, as `worker_channel::allocate` asks.
  waiting_.push_back(std::move(reply));
  if (try_send(waiting_.back())) waiting_.pop_back();
}

void reply_sender::send_waiting() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [this](worker_reply& reply) { return try_send(reply); });
}

bool reply_sender::try_send(worker_reply& reply) {
  if (!reply.error) {
    reply.error = defect_of(reply, channel_);
    if (reply.error) {
      reply.outputs.clear();
      reply.memory.reset();
    }
  }
  if (reply.error) {
    return channel_.send_error(reply.request, reply.error->status(), reply.error->what());
  }
  if (const auto memory = std::move(reply.memory)) {
    channel_.send(reply.request, descriptors_of(reply), std::move(*memory), reply.statistics);
    return true;
  }
  auto region = channel_.allocate(sizes_of(reply.outputs));
  if (!region) return false;
  for (std::size_t i = 0; i < reply.outputs.size(); ++i) {
    const auto& output = reply.outputs[i];
    const auto target = region->tensor(i);
    if (!target.empty()) std::memcpy(target.data(), output.data().get(), target.size());
  }
  channel_.send(reply.request, descriptors_of(reply), std::move(*region), reply.statistics);
  return true;
}

}  // namespace sluice::service
