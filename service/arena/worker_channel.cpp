// SPDX-License-Identifier: Apache-2.0
#include "service/arena/worker_channel.hpp"

#include "service/arena/arena_fault.hpp"
#include "service/arena/region_plan.hpp"

#include <array>
#include <exception>
#include <stdexcept>
#include <utility>

namespace sluice::service {

reply_region::reply_region(reply_region&& other) noexcept
    : channel_(std::exchange(other.channel_, nullptr)),
      bytes_(other.bytes_),
      tensors_(std::move(other.tensors_)) {}

reply_region& reply_region::operator=(reply_region&& other) noexcept {
  reply_region taken(std::move(other));
  std::swap(channel_, taken.channel_);
  std::swap(bytes_, taken.bytes_);
  std::swap(tensors_, taken.tensors_);
  return *this;
}

reply_region::~reply_region() {
  if (channel_ != nullptr) channel_->deallocate(bytes_);
}

worker_channel::worker_channel(std::shared_ptr<shared_memory> memory, file_descriptor worker_wake,
                               file_descriptor front_wake)
    : memory_(std::move(memory)),
      worker_wake_(std::move(worker_wake)),
      front_wake_(std::move(front_wake)),
      layout_(memory_->bytes()),
      requests_(layout_.request_ring(memory_->bytes())),
      worker_sleeps_(arena_layout::worker_sleeps(memory_->bytes()), worker_wake_.get()),
      front_sleeps_(arena_layout::front_sleeps(memory_->bytes()), front_wake_.get()),
      replies_(layout_.reply_ring(memory_->bytes())),
      releases_(layout_.release_ring(memory_->bytes())),
      release_wanted_(arena_layout::release_wanted(memory_->bytes()), worker_wake_.get()),
      reply_memory_(layout_.replies().begin, layout_.replies().bytes) {}

std::size_t worker_channel::receive(std::vector<run_message>& requests,
                                    std::vector<std::uint64_t>& cancellations) {
  std::array<std::uint64_t, 64> entries{};
  const auto count = requests_.pop(entries);
  const auto part = layout_.requests();
  for (std::size_t i = 0; i < count; ++i) {
    const auto entry = entries[i];
    if ((entry & arena_layout::cancellation) != 0) {
      cancellations.push_back(entry & ~arena_layout::cancellation);
      continue;
    }
    if (entry < part.begin || entry - part.begin >= part.bytes) {
      throw arena_fault("a request lies outside of its memory");
    }
    const auto message = memory().subspan(entry, part.begin + part.bytes - entry);
    const auto most_words = run_message_words(tensor_descriptor::max_count);
    requests.push_back(decode_run(read_message(message, most_words), part));
  }
  return count;
}

bool worker_channel::can_hold(std::span<const std::uint64_t> sizes) const {
  return plan_region(reply_message_words(sizes.size()), sizes, layout_.replies().bytes).has_value();
}

std::optional<reply_region> worker_channel::allocate(std::span<const std::uint64_t> sizes) {
  const auto words = reply_message_words(sizes.size());
  const auto plan = plan_region(words, sizes, layout_.replies().bytes);
  if (!plan) return std::nullopt;
  auto region = allocate_bytes(plan->bytes);
  if (!region) return std::nullopt;
  region->tensors_.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    region->tensors_.push_back(region->bytes_.subspan(plan->tensors[i], sizes[i]));
  }
  return region;
}

std::optional<reply_region> worker_channel::allocate_bytes(std::uint64_t bytes) {
  const std::lock_guard lock(memory_mutex_);
  collect_releases_locked();
  auto offset = allocate_locked(bytes);
  if (!offset) {
    // As in wake_signal: either this thread finds a release after it has set the flag, or the front
    // finds the flag after its release and wakes the worker.
    // Set before the flag: the release that clears the flag is noted for `take_releases` then.
    is_short_ = true;
    release_wanted_.arm();
    collect_releases_locked();
    offset = allocate_locked(bytes);
  }
  if (!offset) return std::nullopt;
  return reply_region(*this, memory().subspan(*offset, bytes));
}

std::optional<std::uint64_t> worker_channel::allocate_locked(std::uint64_t bytes) {
  // Each region then has a place in the ring of releases.
  if (regions_ >= layout_.ring_capacity()) return std::nullopt;
  const auto offset = reply_memory_.allocate(bytes);
  if (offset) ++regions_;
  return offset;
}

void worker_channel::collect_releases_locked() {
  if (releases_.is_empty()) return;
  std::array<std::uint64_t, 64> offsets{};
  while (const auto count = releases_.pop(offsets)) {
    for (std::size_t i = 0; i < count; ++i) reply_memory_.deallocate(offsets[i]);
    regions_ -= count;
    memory_returned_ = is_short_;
  }
}

void worker_channel::send(std::uint64_t number, std::vector<tensor_descriptor> outputs,
                          reply_region region, const run_statistics& statistics) {
  if (outputs.size() != region.tensors_.size()) {
    throw std::invalid_argument("a reply whose outputs are not those of its memory");
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].offset = static_cast<std::uint64_t>(region.tensor(i).data() - memory().data());
    outputs[i].bytes = region.tensor(i).size();
  }
  send(encode_outputs(number, outputs, layout_.replies(), statistics), region);
}

bool worker_channel::send_error(std::uint64_t number, request_status status,
                                std::string_view text) {
  const auto message = encode_error(number, status, text);
  auto region = allocate_bytes(message_bytes(message.size()));
  if (!region) return false;
  send(message, *region);
  return true;
}

void worker_channel::send(const message_words& message, reply_region& region) {
  write_message(message, region.bytes_);
  {
    const std::lock_guard lock(send_mutex_);
    const auto offset = static_cast<std::uint64_t>(region.bytes_.data() - memory().data());
    if (!replies_.push(offset)) throw arena_fault("more replies than requests");
  }
  region.channel_ = nullptr;
  front_sleeps_.notify();
}

void worker_channel::deallocate(std::span<std::byte> bytes) noexcept {
  const std::lock_guard lock(memory_mutex_);
  try {
    reply_memory_.deallocate(static_cast<std::uint64_t>(bytes.data() - memory().data()));
  } catch (const std::invalid_argument&) {
    std::terminate();  // it is not in use: the memory is not what this class believes
  }
  --regions_;
  if (!is_short_) return;
  memory_returned_ = true;
  worker_sleeps_.force();
}

bool worker_channel::take_releases() {
  const std::lock_guard lock(memory_mutex_);
  collect_releases_locked();
  if (is_short_ && !memory_returned_) {
    // The wake-up may have been for a release that was collected before `allocate` set the flag,
    // and has cleared it: the front reads the flag and clears it in two steps.
    release_wanted_.arm();
    collect_releases_locked();
  }
  if (!memory_returned_) return false;
  is_short_ = false;
  memory_returned_ = false;
  return true;
}

bool worker_channel::begin_sleep() noexcept {
  worker_sleeps_.arm();
  if (requests_.is_empty()) return true;
  worker_sleeps_.disarm();
  return false;
}

void worker_channel::end_sleep() noexcept {
  worker_sleeps_.disarm();
  worker_sleeps_.clear();
}

}  // namespace sluice::service
