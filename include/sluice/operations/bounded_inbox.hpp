// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <utility>

namespace sluice::detail {

/// Refuses one more of what waits. @throws error `overloaded`
[[noreturn]] inline void refuse_messages(const char* kind, std::size_t count, std::size_t limit) {
  throw error(errc::overloaded, std::to_string(count) + ' ' + kind +
                                    " wait already; the limit is " + std::to_string(limit));
}
/// Refuses `more` bytes beside those of what waits. @throws error `overloaded`
[[noreturn]] inline void refuse_bytes(const char* kind, std::size_t bytes, std::size_t more,
                                      std::size_t limit) {
  throw error(errc::overloaded, std::string("the ") + kind + " that wait already use " +
                                    std::to_string(bytes) + " bytes; with " + std::to_string(more) +
                                    " more they would exceed the limit of " +
                                    std::to_string(limit));
}

/// What a waiting message takes, and what it runs.
struct message_size {
  std::size_t bytes = 0;  ///< of host memory
  std::size_t steps = 0;  ///< of a program, or operations of a bulk, that the actor examines
  /// The identity of the program that the message runs, without copies from or to host memory;
  /// nullptr if it runs none.
  const void* program = nullptr;
};

/// The messages in front of an actor, bounded in number and in bytes, for each sender and in all.
///
/// Few messages of a sender are in the mailbox of the actor at a time. The others are kept here and
/// follow while the actor handles those before them. The messages of other senders therefore wait
/// behind few of them, however fast one client sends. The order of each sender is kept. Senders
/// with one hash share a place in the mailbox and take turns there. Thread-safe.
template <class Message>
class bounded_inbox {
  static constexpr std::size_t slot_bits = 10;

 public:
  struct limits {
    std::size_t in_mailbox = 256;                           ///< of each sender
    std::size_t bytes_in_mailbox = std::size_t{16} << 20U;  ///< of each sender
    /// Each step counts as so many bytes in the mailbox, because the actor needs about a
    /// microsecond for it.
    std::size_t bytes_of_step = 4096;
    std::size_t backlog_of_sender = std::size_t{1} << 15U;
    std::size_t backlog = std::size_t{1} << 16U;
    std::size_t backlog_bytes_of_sender = std::size_t{128} << 20U;
    std::size_t backlog_bytes = std::size_t{256} << 20U;
  };
  /// An inbox that puts messages into the mailbox with `pass_on`, which any thread may call and
  /// which must not throw.
  explicit bounded_inbox(std::function<void(Message&&)> pass_on, limits inbox_limits)
      : pass_on_(std::move(pass_on)), limits_(inbox_limits) {}

  /// Takes a message of a sender. A message beyond a limit of bytes has room where no other one is.
  /// One that cancels others has room when these have none: twice as many may be kept with such.
  /// Calls for one sender come one after the other.
  /// @throws error `overloaded` if there is no room; then the message is unchanged
  /// @throws std::bad_alloc if there is no memory; then the message is unchanged
  void send(request_sender sender, Message& message, message_size size, bool cancels = false) {
    auto& sender_slot = slot_of(sender);
    if (sender_slot.backlog == 0 && !closed_) {
      const auto load = load_of(size);
      const auto in_mailbox = sender_slot.in_mailbox.fetch_add(1);
      if (in_mailbox < limits_.in_mailbox && has_room_for(sender_slot, in_mailbox, load)) {
        sender_slot.load_in_mailbox += load;
        pass_on_(std::move(message));
        return;
      }
      --sender_slot.in_mailbox;
    }
    std::unique_lock lock(sender_slot.mutex);
    if (closed_) {
      lock.unlock();  // the actor answers the message, whose end may run code of its sender
      pass_on_(std::move(message));
      return;
    }
    // Another sender of the slot may have seen this message in the mailbox, where it is not.
    pass_on_some(sender_slot);
    auto queue = std::ranges::find(sender_slot.queues, sender, &sender_queue::sender);
    require_room(queue == sender_slot.queues.end() ? nullptr : &*queue, size.bytes,
                 cancels ? 2 : 1);
    std::list<backlog_message> added(1);
    if (queue == sender_slot.queues.end()) {
      queue = sender_slot.queues.insert(queue, sender_queue{.sender = sender});
    }
    added.front() = {std::move(message), size};
    queue->messages.splice(queue->messages.end(), added);
    queue->bytes += size.bytes;
    ++backlog_;
    backlog_bytes_ += size.bytes;
    // Before the mailbox is looked at: the actor looks here after it has handled a message.
    ++sender_slot.backlog;
    pass_on_some(sender_slot);
  }
  /// States that the actor has handled a message of a sender.
  void note_handled(request_sender sender) noexcept {
    if (closed_) return;  // what it has passed on since then is not counted
    auto& sender_slot = slot_of(sender);
    // The message counts as one of average size. Only the actor takes load away.
    const std::size_t load = sender_slot.load_in_mailbox;
    const std::size_t others = --sender_slot.in_mailbox;
    sender_slot.load_in_mailbox -= load / (others + 1);
    if (sender_slot.backlog == 0) return;
    const std::lock_guard lock(sender_slot.mutex);
    pass_on_some(sender_slot);
  }
  /// Passes all messages on, and from now on each at once: the actor ends, and answers them.
  void close() noexcept {
    closed_ = true;
    for (auto& sender_slot : slots_) {
      std::list<sender_queue> queues;
      {
        const std::lock_guard lock(sender_slot.mutex);
        queues.swap(sender_slot.queues);
        backlog_ -= sender_slot.backlog.exchange(0);
      }
      for (auto& queue : queues) {
        for (auto& waiting : queue.messages) pass_on_(std::move(waiting.message));
      }
    }
  }
  /// The number of messages that are kept.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }

 private:
  struct backlog_message {
    Message message{};
    message_size size{};
  };
  /// The messages of a sender that are kept; at least one.
  struct sender_queue {
    request_sender sender{};
    std::list<backlog_message> messages{};
    std::size_t bytes = 0;
  };
  struct slot {
    std::atomic<std::size_t> in_mailbox{0};
    std::atomic<std::size_t> load_in_mailbox{0};
    std::atomic<std::size_t> backlog{0};
    std::mutex mutex;
    std::list<sender_queue> queues;  // the next turn is that of the first one
  };

  /// The bytes as which a message counts in the mailbox.
  [[nodiscard]] std::size_t load_of(message_size size) const noexcept {
    return size.bytes + size.steps * limits_.bytes_of_step;
  }
  /// Whether the mailbox, with so many messages of the senders of a slot, has room for a load.
  [[nodiscard]] bool has_room_for(const slot& sender_slot, std::size_t in_mailbox,
                                  std::size_t load) const noexcept {
    return in_mailbox == 0 || sender_slot.load_in_mailbox + load <= limits_.bytes_in_mailbox;
  }
  /// The limits count `factor` times. `queue` is that of the sender, nullptr if there is none.
  /// @throws error `overloaded` if one more message may not be kept
  void require_room(const sender_queue* queue, std::size_t bytes, std::size_t factor) const {
    if (queue != nullptr) {
      if (queue->messages.size() >= factor * limits_.backlog_of_sender) {
        refuse_messages("messages of this sender", queue->messages.size(),
                        limits_.backlog_of_sender);
      }
      if (queue->bytes + bytes > factor * limits_.backlog_bytes_of_sender) {
        refuse_bytes("messages of this sender", queue->bytes, bytes,
                     limits_.backlog_bytes_of_sender);
      }
    }
    const std::size_t of_all = backlog_;
    if (of_all >= factor * limits_.backlog) refuse_messages("messages", of_all, limits_.backlog);
    if (of_all != 0 && backlog_bytes_ + bytes > factor * limits_.backlog_bytes) {
      refuse_bytes("messages", backlog_bytes_, bytes, limits_.backlog_bytes);
    }
  }

  [[nodiscard]] slot& slot_of(request_sender sender) noexcept {
    return slots_[(sender.id * 0x9e3779b97f4a7c15U) >> (64 - slot_bits)];
  }
  void pass_on_some(slot& sender_slot) noexcept {
    while (sender_slot.backlog != 0 && sender_slot.in_mailbox < limits_.in_mailbox) {
      const auto load = load_of(sender_slot.queues.front().messages.front().size);
      if (!has_room_for(sender_slot, sender_slot.in_mailbox, load)) return;
      ++sender_slot.in_mailbox;
      sender_slot.load_in_mailbox += load;
      pass_on_first(sender_slot);
    }
  }
  void pass_on_first(slot& sender_slot) noexcept {
    auto& queues = sender_slot.queues;
    auto& queue = queues.front();
    auto first = std::move(queue.messages.front());
    queue.messages.pop_front();
    queue.bytes -= first.size.bytes;
    if (queue.messages.empty()) {
      queues.pop_front();
    } else {
      queues.splice(queues.end(), queues, queues.begin());
    }
    backlog_bytes_ -= first.size.bytes;
    pass_on_(std::move(first.message));
    // After it is in the mailbox: the sender's next message may go there at once.
    --sender_slot.backlog;
    --backlog_;
  }

  const std::function<void(Message&&)> pass_on_;
  const limits limits_;
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> backlog_{0};
  std::atomic<std::size_t> backlog_bytes_{0};
  std::array<slot, std::size_t{1} << slot_bits> slots_;
};

}  // namespace sluice::detail
