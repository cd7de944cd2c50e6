// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/arena_layout.hpp"
#include "service/arena/message_ring.hpp"
#include "service/arena/region_allocator.hpp"
#include "service/arena/reply_message.hpp"
#include "service/arena/run_message.hpp"
#include "service/arena/shared_memory.hpp"
#include "service/arena/wake_signal.hpp"
#include "service/base/file_descriptor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::service {

class worker_channel;

/// Memory of one reply. Its destruction returns the memory, unless it was sent. Must not outlive
/// the channel.
class reply_region {
 public:
  reply_region(reply_region&& other) noexcept;
  reply_region& operator=(reply_region&& other) noexcept;
  ~reply_region();

  /// The bytes of a tensor, of the size that was asked for.
  [[nodiscard]] std::span<std::byte> tensor(std::size_t index) const noexcept {
    return tensors_[index];
  }

 private:
  friend class worker_channel;
  reply_region(worker_channel& channel, std::span<std::byte> bytes) noexcept
      : channel_(&channel), bytes_(bytes) {}

  worker_channel* channel_;  ///< null once the region was sent
  std::span<std::byte> bytes_;
  std::vector<std::span<std::byte>> tensors_{};
};

/// What a worker process shares with the front: memory for requests and replies, and messages.
///
/// All functions are thread-safe, except that one thread calls `receive` and those about sleeping.
/// The worker trusts the front: `arena_fault` means that the two do not belong together.
class worker_channel {
 public:
  /// Opens the channel that the front has made.
  /// @throws std::invalid_argument if the front has another version
  worker_channel(std::shared_ptr<shared_memory> memory, file_descriptor worker_wake,
                 file_descriptor front_wake);
  worker_channel(const worker_channel&) = delete;
  worker_channel& operator=(const worker_channel&) = delete;
  ~worker_channel() = default;

  /// All of the memory, to register its pages with a device.
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_->bytes(); }

  /// Appends requests and the numbers of requests to cancel, up to some tens, and returns how many
  /// they are. A request comes with or before its cancellation, which may also come after its
  /// reply.
  std::size_t receive(std::vector<run_message>& requests,
                      std::vector<std::uint64_t>& cancellations);
  /// Whether `receive` would find something. For the thread that calls it.
  [[nodiscard]] bool has_messages() const noexcept { return !requests_.is_empty(); }
  /// The elements of an input. Valid until the reply is sent.
  [[nodiscard]] std::span<const std::byte> bytes(const tensor_descriptor& input) const noexcept {
    return memory().subspan(input.offset, input.bytes);
  }

  /// Memory for outputs of these sizes in bytes; nothing if there is none now.
  ///
  /// A thread that gets nothing waits for `take_releases`. It must note that it waits before it
  /// calls this function, so that the thread that takes the releases finds the note.
  [[nodiscard]] std::optional<reply_region> allocate(std::span<const std::uint64_t> sizes);
  /// The size of the memory for outputs in bytes.
  [[nodiscard]] std::uint64_t reply_bytes() const noexcept { return layout_.replies().bytes; }
  /// Whether a reply with outputs of these sizes fits while there is no other.
  [[nodiscard]] bool can_hold(std::span<const std::uint64_t> sizes) const;
  /// Answers a request. The outputs are the tensors of the region in this order; their offsets and
  /// sizes are filled in.
  /// @throws std::invalid_argument if the outputs do not match the region, or have a defect
  void send(std::uint64_t number, std::vector<tensor_descriptor> outputs, reply_region region,
            const run_statistics& statistics = {});
  /// Answers a request with an error; false if there is no memory now, as in `allocate`.
  [[nodiscard]] bool send_error(std::uint64_t number, request_status status, std::string_view text);
  /// Whether memory of replies has returned since `allocate` or `send_error` found none. It also
  /// makes `wake_descriptor` readable. To be called after each time that the descriptor was.
  [[nodiscard]] bool take_releases();

  [[nodiscard]] int wake_descriptor() const noexcept { return worker_wake_.get(); }
  /// Has the front make `wake_descriptor` readable at its next message. False if there is a message
  /// already: then `receive` comes first.
  [[nodiscard]] bool begin_sleep() noexcept;
  /// Takes `begin_sleep` back after the descriptor was readable.
  void end_sleep() noexcept;

 private:
  friend class reply_region;

  [[nodiscard]] std::optional<reply_region> allocate_bytes(std::uint64_t bytes);
  [[nodiscard]] std::optional<std::uint64_t> allocate_locked(std::uint64_t bytes);
  void collect_releases_locked();
  void send(const message_words& message, reply_region& region);
  void deallocate(std::span<std::byte> bytes) noexcept;

  const std::shared_ptr<shared_memory> memory_;
  const file_descriptor worker_wake_;
  const file_descriptor front_wake_;
  const arena_layout layout_;
  ring_consumer requests_;
  wake_signal worker_sleeps_;
  wake_signal front_sleeps_;

  std::mutex send_mutex_{};
  ring_producer replies_;

  std::mutex memory_mutex_{};  ///< for the following members
  ring_consumer releases_;
  wake_signal release_wanted_;
  region_allocator reply_memory_;
  std::uint64_t regions_ = 0;     ///< in use, at most as many as the ring of releases has slots
  bool is_short_ = false;         ///< an allocation has failed since the last `take_releases`
  bool memory_returned_ = false;  ///< after that
};

}  // namespace sluice::service
