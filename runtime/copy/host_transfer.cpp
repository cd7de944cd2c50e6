// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy/host_transfer.hpp"

#include "runtime/core/runtime_core.hpp"
#include "runtime/staging/staging_ring.hpp"

#include <cstring>
#include <string>
#include <utility>

namespace sluice {
namespace detail {
namespace {

static_assert(host_transfer::max_at_once == transfer_staging::piece_bytes);
static_assert(host_transfer::max_commands(host_transfer::max_at_once + 1) ==
              3 * staging_ring::max_chunks + 1);

timeline& required(stream_ref stream) {
  if (!stream)
    throw error(errc::stream_misuse, "stream: no stream was given; there is no default stream");
  return *detail::timeline::of(stream);
}

/// The base of all transfers: checks that a transfer is enqueued once.
class transfer_base : public host_transfer {
 public:
  transfer_base(timeline& stream, std::size_t bytes, copy_direction direction)
      : stream_(stream), bytes_(bytes), direction_(direction) {}

  void enqueue(void* address) final {
    if (std::exchange(enqueued_, true)) {
      throw error(errc::stream_misuse, "host_transfer::enqueue: already called for this transfer");
    }
    if (bytes_ != 0) put(static_cast<std::byte*>(address));
  }

 protected:
  [[nodiscard]] timeline& stream() const noexcept { return stream_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] copy_direction direction() const noexcept { return direction_; }
  /// Copies all bytes between `memory` and `address`.
  void copy(void* memory, void* address) {
    const bool upload = direction_ == copy_direction::host_to_device;
    on_stream(stream_, [&](native_stream* native) {
      stream_.core().device().copy(upload ? address : memory, upload ? memory : address, bytes_,
                                   direction_, native);
    });
  }

 private:
  virtual void put(std::byte* address) = 0;

  timeline& stream_;
  const std::size_t bytes_;
  const copy_direction direction_;
  bool enqueued_ = false;
};

/// A transfer of a host device: the stream's thread copies. Or one from or to pinned memory of a
/// client: the device copies.
class direct_transfer final : public transfer_base {
 public:
  direct_transfer(timeline& stream, std::shared_ptr<void> memory, std::size_t bytes,
                  copy_direction direction)
      : transfer_base(stream, bytes, direction), memory_(std::move(memory)) {}

 private:
  void put(std::byte* address) override { copy(memory_.get(), address); }

  const std::shared_ptr<void> memory_;
};

/// A transfer through a piece of pinned memory of its own.
class small_transfer final : public transfer_base {
 public:
  small_transfer(timeline& stream, pinned_memory piece, std::shared_ptr<void> memory,
                 std::size_t bytes, copy_direction direction)
      : transfer_base(stream, bytes, direction), piece_(std::move(piece)) {
    if (direction == copy_direction::host_to_device) {
      std::memcpy(piece_.get(), memory.get(), bytes);
    } else {
      target_ = std::move(memory);
    }
  }
  void finish() noexcept override {
    if (target_) std::memcpy(target_.get(), piece_.get(), bytes());
  }

 private:
  void put(std::byte* address) override { copy(piece_.get(), address); }

  const pinned_memory piece_;
  std::shared_ptr<void> target_;  // set for a download
};

/// A transfer through the slots of the stream's ring.
class staged_transfer final : public transfer_base {
 public:
  staged_transfer(timeline& stream, std::unique_ptr<staging_job> job)
      : transfer_base(stream, job->bytes, job->direction), ring_(job->ring), job_(std::move(job)) {}
  std::size_t commands() const noexcept override { return ring_->commands_of(bytes()); }

 private:
  void put(std::byte* address) override { ring_->enqueue(std::move(job_), stream(), address); }

  // Keeps the ring's memory until the launch has completed.
  const std::shared_ptr<staging_ring> ring_;
  std::unique_ptr<staging_job> job_;
};

std::shared_ptr<host_transfer> make_staged(
    timeline& stream, std::shared_ptr<void> memory, std::size_t bytes, copy_direction direction,
    std::shared_ptr<const std::atomic<std::uint32_t>> ready) {
  if (bytes == 0) {
    return std::make_shared<direct_transfer>(stream, std::move(memory), bytes, direction);
  }
  auto job = std::make_unique<staging_job>();
  job->ring = stream.core().staging().ring_for(stream, bytes);
  job->memory = std::static_pointer_cast<std::byte>(std::move(memory));
  job->bytes = bytes;
  job->direction = direction;
  job->ready = std::move(ready);
  return std::make_shared<staged_transfer>(stream, std::move(job));
}

std::shared_ptr<host_transfer> make_transfer(stream_ref launch_stream, std::shared_ptr<void> memory,
                                             std::size_t bytes, copy_direction direction) {
  auto& stream = required(launch_stream);
  auto& core = stream.core();
  core.require_open();
  if (memory == nullptr && bytes != 0) {
    const bool up = direction == copy_direction::host_to_device;
    throw error(errc::invalid_argument, std::string(up ? "source" : "target") + " is null");
  }
  if (bytes == 0 || core.id().kind == device_kind::host) {
    return std::make_shared<direct_transfer>(stream, std::move(memory), bytes, direction);
  }
  if (core.staging().clients().contain(memory.get(), bytes)) {
    return std::make_shared<direct_transfer>(stream, std::move(memory), bytes, direction);
  }
  if (bytes <= host_transfer::max_at_once) {
    // If no piece is left, the stream's ring may still have room.
    if (auto piece = core.staging().try_piece()) {
      return std::make_shared<small_transfer>(stream, std::move(piece), std::move(memory), bytes,
                                              direction);
    }
  }
  return make_staged(stream, std::move(memory), bytes, direction, nullptr);
}

}  // namespace

std::shared_ptr<host_transfer> upload_when_ready(
    stream_ref stream, std::shared_ptr<const void> source, std::size_t bytes,
    std::shared_ptr<const std::atomic<std::uint32_t>> ready) {
  return make_staged(required(stream), std::const_pointer_cast<void>(std::move(source)), bytes,
                     copy_direction::host_to_device, std::move(ready));
}

std::shared_ptr<host_transfer> download_through_ring(stream_ref stream,
                                                     std::shared_ptr<void> target,
                                                     std::size_t bytes) {
  return make_staged(required(stream), std::move(target), bytes, copy_direction::device_to_host,
                     nullptr);
}

}  // namespace detail

std::shared_ptr<host_transfer> host_transfer::upload(stream_ref stream,
                                                     std::shared_ptr<const void> source,
                                                     std::size_t bytes) {
  return detail::make_transfer(stream, std::const_pointer_cast<void>(std::move(source)), bytes,
                               copy_direction::host_to_device);
}

std::shared_ptr<host_transfer> host_transfer::download(stream_ref stream,
                                                       std::shared_ptr<void> target,
                                                       std::size_t bytes) {
  return detail::make_transfer(stream, std::move(target), bytes, copy_direction::device_to_host);
}

}  // namespace sluice
