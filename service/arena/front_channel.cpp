// SPDX-License-Identifier: Apache-2.0
#include "service/arena/front_channel.hpp"

#include "service/arena/front_arena.hpp"
#include "service/arena/region_allocator.hpp"
#include "service/arena/region_plan.hpp"

#include <array>
#include <stdexcept>
#include <utility>

namespace sluice::service {

front_channel::front_channel(const arena_sizes& sizes)
    : arena_(std::make_shared<front_arena>(arena_layout(sizes))),
      requests_(arena_->layout.request_ring(arena_->memory->bytes())),
      replies_(arena_->layout.reply_ring(arena_->memory->bytes())),
      worker_sleeps_(arena_layout::worker_sleeps(arena_->memory->bytes()),
                     arena_->worker_wake.get()),
      front_sleeps_(arena_layout::front_sleeps(arena_->memory->bytes()), arena_->front_wake.get()) {
}

front_channel::~front_channel() = default;

int front_channel::memory_descriptor() const noexcept {
  return arena_->memory->descriptor();
}

int front_channel::worker_wake_descriptor() const noexcept {
  return arena_->worker_wake.get();
}

int front_channel::front_wake_descriptor() const noexcept {
  return arena_->front_wake.get();
}

std::shared_ptr<shared_memory> front_channel::memory() const {
  return arena_->memory;
}

bool front_channel::can_hold(std::span<const std::uint64_t> sizes) const {
  return plan_region(run_message_words(sizes.size()), sizes, arena_->layout.requests().bytes)
      .has_value();
}

std::optional<request_region> front_channel::allocate(std::span<const std::uint64_t> sizes) {
  const auto words = run_message_words(sizes.size());
  const auto plan = plan_region(words, sizes, arena_->layout.requests().bytes);
  if (!plan) return std::nullopt;
  request_region region;
  region.tensors_.reserve(sizes.size());
  const auto offset = arena_->request_memory.allocate(plan->bytes);
  if (!offset) return std::nullopt;

  const auto bytes = arena_->memory->bytes().subspan(*offset, plan->bytes);
  region.memory_ = std::shared_ptr<void>(bytes.data(), [arena = arena_, begin = *offset](void*) {
    arena->request_memory.deallocate(begin);
  });
  region.head_ = bytes.first(message_bytes(words));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    region.tensors_.push_back(bytes.subspan(plan->tensors[i], sizes[i]));
  }
  return region;
}

std::uint64_t front_channel::request_bytes_in_use() const {
  return arena_->request_memory.bytes_in_use();
}

bool front_channel::send(run_message& message, request_region& region) {
  if (message.inputs.size() != region.size()) {
    throw std::invalid_argument("a request whose inputs are not those of its memory");
  }
  const auto* memory = arena_->memory->bytes().data();
  const auto offset_of = [&](const std::byte* byte) {
    return static_cast<std::uint64_t>(byte - memory);
  };
  for (std::size_t i = 0; i < region.size(); ++i) {
    message.inputs[i].offset = offset_of(region.tensor(i).data());
    message.inputs[i].bytes = region.tensor(i).size();
  }
  write_message(encode(message, arena_->layout.requests()), region.head_);

  {
    const std::lock_guard lock(mutex_);
    // A reply for each request fits into the ring of replies.
    if (in_flight_.size() >= arena_->layout.ring_capacity()) return false;
    const auto [place, is_new] = in_flight_.try_emplace(message.number);
    if (!is_new) throw std::invalid_argument("a request with this number is in flight");
    bool is_sent = false;
    try {
      is_sent = requests_.push(offset_of(region.head_.data()));
    } catch (...) {
      in_flight_.erase(place);
      throw;
    }
    if (!is_sent) {
      in_flight_.erase(place);
      return false;
    }
    place->second = std::move(region);
  }
  worker_sleeps_.notify();
  return true;
}

bool front_channel::cancel(std::uint64_t number) {
  {
    const std::lock_guard lock(mutex_);
    if (!in_flight_.contains(number)) return true;
    if (!requests_.push(arena_layout::cancellation | number)) return false;
  }
  worker_sleeps_.notify();
  return true;
}

std::size_t front_channel::receive(std::vector<received_reply>& replies) {
  if (arena_->is_faulty.load()) throw arena_fault("the worker has broken a rule of its arena");
  try {
    std::array<std::uint64_t, 64> offsets{};
    const auto count = replies_.pop(offsets);
    for (std::size_t i = 0; i < count; ++i) replies.push_back(read_reply(offsets[i]));
    return count;
  } catch (...) {
    // The replies after this one are lost, also where memory was short.
    arena_->is_faulty.store(true);
    throw;
  }
}

received_reply front_channel::read_reply(std::uint64_t offset) {
  const auto part = arena_->layout.replies();
  if (offset % region_allocator::alignment != 0 || offset < part.begin ||
      offset - part.begin >= part.bytes) {
    throw arena_fault("a reply lies outside of its memory");
  }
  const auto memory = arena_->memory->bytes();
  auto message = decode_reply(
      read_message(memory.subspan(offset, part.begin + part.bytes - offset), max_reply_words),
      part);

  received_reply received{.number = message.number, .error = std::move(message.error)};
  {
    const std::lock_guard lock(mutex_);
    auto request = in_flight_.extract(message.number);
    if (request.empty()) throw arena_fault("a reply to a request that is not in flight");
    received.request = std::move(request.mapped());
  }
  if (received.error) {
    arena_->release_reply(offset);
    return received;
  }
  received.memory = std::shared_ptr<const void>(
      memory.data() + offset,
      [arena = arena_, offset](const void*) { arena->release_reply(offset); });
  received.statistics = message.statistics;
  received.outputs.reserve(message.outputs.size());
  for (auto& output : message.outputs) {
    received.outputs.push_back({.number = output.number,
                                .type = output.type,
                                .shape = std::move(output.shape),
                                .bytes = memory.subspan(output.offset, output.bytes)});
  }
  return received;
}

bool front_channel::begin_sleep() noexcept {
  front_sleeps_.arm();
  if (replies_.is_empty() && !arena_->is_faulty.load()) return true;
  front_sleeps_.disarm();
  return false;
}

void front_channel::end_sleep() noexcept {
  front_sleeps_.disarm();
  front_sleeps_.clear();
}

std::vector<pending_request> front_channel::take_pending() {
  std::vector<pending_request> pending;
  const std::lock_guard lock(mutex_);
  pending.reserve(in_flight_.size());
  for (auto& [number, region] : in_flight_) pending.push_back({number, std::move(region)});
  in_flight_.clear();
  return pending;
}

}  // namespace sluice::service
