// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/arena_fault.hpp"
#include "service/arena/arena_layout.hpp"
#include "service/arena/message_ring.hpp"
#include "service/arena/reply_message.hpp"
#include "service/arena/run_message.hpp"
#include "service/arena/shared_memory.hpp"
#include "service/arena/wake_signal.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace sluice::service {

struct front_arena;

/// Memory of one request. Its destruction returns the memory, also after that of the channel.
class request_region {
 public:
  request_region() = default;
  request_region(request_region&&) = default;
  request_region& operator=(request_region&&) = default;

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  /// The bytes of a tensor, of the size that was asked for.
  [[nodiscard]] std::span<std::byte> tensor(std::size_t index) const noexcept {
    return tensors_[index];
  }

 private:
  friend class front_channel;

  std::shared_ptr<void> memory_{};
  std::span<std::byte> head_{};  ///< for the message
  std::vector<std::span<std::byte>> tensors_{};
};

/// An output in the shared memory.
///
/// Its extents and its size are checked and private. A faulty worker can change the elements at any
/// time, so code that checks elements copies them first.
struct received_output {
  std::uint32_t number = 0;  ///< of the output of the model
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};
  std::span<const std::byte> bytes{};
};

/// The answer to a request.
struct received_reply {
  std::uint64_t number = 0;  ///< of the request
  std::optional<request_error> error{};
  std::vector<received_output> outputs{};
  run_statistics statistics{};           ///< checked to be in range, but the worker's word
  std::shared_ptr<const void> memory{};  ///< keeps the bytes of the outputs; null for an error
  request_region request{};              ///< the inputs, for a retry
};

/// A request without an answer.
struct pending_request {
  std::uint64_t number = 0;
  request_region region{};
};

/// What the front shares with one worker process: memory for requests and replies, and messages.
///
/// The front makes a channel for each worker process that it starts. Nothing that the worker writes
/// makes the front access other memory. What a worker must not write is reported by `arena_fault`;
/// the worker has to be killed then.
///
/// All functions are thread-safe, except that one thread calls `receive` and those about sleeping.
class front_channel {
 public:
  /// Creates the memory and two eventfds.
  /// @throws std::invalid_argument if the sizes are impossible
  /// @throws std::system_error if the kernel refuses
  explicit front_channel(const arena_sizes& sizes);
  ~front_channel();

  /// What a worker needs to open its channel: the descriptors of the memory, of the eventfd that
  /// wakes the worker, and of the one that wakes the front. They live as long as the channel.
  [[nodiscard]] int memory_descriptor() const noexcept;
  [[nodiscard]] int worker_wake_descriptor() const noexcept;
  [[nodiscard]] int front_wake_descriptor() const noexcept;
  /// The memory, for a worker in the same process.
  [[nodiscard]] std::shared_ptr<shared_memory> memory() const;

  /// Whether a request with tensors of these sizes fits while there is no other.
  [[nodiscard]] bool can_hold(std::span<const std::uint64_t> sizes) const;
  /// Memory for the inputs of a request, of these sizes in bytes; nothing if there is none now.
  [[nodiscard]] std::optional<request_region> allocate(std::span<const std::uint64_t> sizes);
  /// The bytes of all requests.
  [[nodiscard]] std::uint64_t request_bytes_in_use() const;

  /// Sends a request; false, and nothing changes, if too many requests are in flight. Fills in the
  /// offsets and sizes of the inputs, which are the tensors of the region in this order, and keeps
  /// the region until the reply.
  /// @throws std::invalid_argument if the number is in flight, if the inputs do not match the
  /// region, or if no message can express the request
  /// @throws arena_fault if the worker has damaged a ring
  [[nodiscard]] bool send(run_message& message, request_region& region);
  /// Asks the worker to end a request early; false if the ring is full. A reply follows anyhow.
  /// Does nothing if the request is not in flight.
  /// @throws arena_fault if the worker has damaged a ring
  [[nodiscard]] bool cancel(std::uint64_t number);

  /// Appends the replies that have arrived, up to some tens, and returns their number.
  /// @throws arena_fault if the worker has broken a rule; valid replies before that were appended.
  /// Every later call throws, too.
  std::size_t receive(std::vector<received_reply>& replies);

  /// Has the worker make `front_wake_descriptor` readable at its next reply. False if there is a
  /// reply or a fault already: then `receive` comes first.
  [[nodiscard]] bool begin_sleep() noexcept;
  /// Takes `begin_sleep` back after the descriptor was readable.
  void end_sleep() noexcept;

  /// Removes and returns the requests without a reply. Only once the process of the worker is gone
  /// and the last replies were received.
  [[nodiscard]] std::vector<pending_request> take_pending();

 private:
  [[nodiscard]] received_reply read_reply(std::uint64_t offset);

  std::shared_ptr<front_arena> arena_;
  std::mutex mutex_{};  ///< for `requests_` and `in_flight_`
  ring_producer requests_;
  std::unordered_map<std::uint64_t, request_region> in_flight_{};
  ring_consumer replies_;
  wake_signal worker_sleeps_;
  wake_signal front_sleeps_;
};

}  // namespace sluice::service
