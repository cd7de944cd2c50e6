// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/error.hpp>

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
                                    std::to_string(bytes) + " bytes; with " +
                                    std::to_string(more) + " more they would exceed the limit of " +
                                    std::to_string(limit));
}

/// The messages in front of an actor, bounded in number and in bytes, for each sender and in all.
///
/// Few messages of a sender are in the mailbox of the actor at a time. The others are kept here and
/// follow while the actor handles those before them. The messages of other senders therefore wait
/// behind few of them, however fast one client sends. The order of each sender is kept. Senders
/// with one hash share a place. Thread-safe.
template <class Message>
class bounded_inbox {
  static constexpr std::size_t slot_bits = 10;

 public:
  struct limits {
    std::size_t in_mailbox = 256;                           ///< of each sender
    std::size_t bytes_in_mailbox = std::size_t{16} << 20U;  ///< of each sender
    std::size_t backlog_of_sender = std::size_t{1} << 15U;
    std::size_t backlog = std::size_t{1} << 16U;
    std::size_t backlog_bytes_of_sender = std::size_t{128} << 20U;
    std::size_t backlog_bytes = std::size_t{256} << 20U;
  };
  /// An inbox that puts messages into the mailbox with `pass_on`, which any thread may call and
  /// which must not throw.
  explicit bounded_inbox(std::function<void(Message&&)> pass_on, limits inbox_limits)
      : pass_on_(std::move(pass_on)), limits_(inbox_limits) {}

  /// Takes a message of a sender that takes so many bytes of memory. A message beyond a limit of
  /// bytes has room where no other one is. One that cancels others has room when these have none:
  /// twice as many may be kept with such. Calls for one sender come one after the other.
  /// @throws error `overloaded` if there is no room; then the message is unchanged
  /// @throws std::bad_alloc if there is no memory; then the message is unchanged
  void send(request_sender sender, Message& message, std::size_t bytes, bool cancels = false) {
    auto& sender_slot = slot_of(sender);
    if (sender_slot.backlog == 0 && !closed_) {
      const auto in_mailbox = sender_slot.in_mailbox.fetch_add(1);
      if (in_mailbox < limits_.in_mailbox && has_room_for_bytes(sender_slot, in_mailbox, bytes)) {
        sender_slot.bytes_in_mailbox += bytes;
        pass_on_(std::move(message));
        return;
      }
      --sender_slot.in_mailbox;
    }
    const std::lock_guard lock(sender_slot.mutex);
    if (closed_) {
      pass_on_(std::move(message));
      return;
    }
    // Another sender of the slot may have seen this message in the mailbox, where it is not.
    pass_on_some(sender_slot);
    require_room(sender_slot, bytes, cancels ? 2 : 1);
    auto& last = sender_slot.messages.emplace_back();
    last = {std::move(message), bytes};
    ++backlog_;
    backlog_bytes_ += bytes;
    sender_slot.backlog_bytes += bytes;
    // Before the mailbox is looked at: the actor looks here after it has handled a message.
    ++sender_slot.backlog;
    pass_on_some(sender_slot);
  }
  /// States that the actor has handled a message of a sender.
  void note_handled(request_sender sender) noexcept {
    if (closed_) return;  // what it has passed on since then is not counted
    auto& sender_slot = slot_of(sender);
    // The message counts as one of average size. Only the actor takes bytes away.
    const std::size_t bytes = sender_slot.bytes_in_mailbox;
    const std::size_t others = --sender_slot.in_mailbox;
    sender_slot.bytes_in_mailbox -= bytes / (others + 1);
    if (sender_slot.backlog == 0) return;
    const std::lock_guard lock(sender_slot.mutex);
    pass_on_some(sender_slot);
  }
  /// Passes all messages on, and from now on each at once: the actor ends, and answers them.
  void close() noexcept {
    closed_ = true;
    for (auto& sender_slot : slots_) {
      const std::lock_guard lock(sender_slot.mutex);
      while (sender_slot.backlog != 0) pass_on_first(sender_slot);
    }
  }
  /// The number of messages that are kept.
  [[nodiscard]] std::size_t backlog() const noexcept { return backlog_; }

 private:
  struct backlog_message {
    Message message{};
    std::size_t bytes = 0;
  };
  struct slot {
    std::atomic<std::size_t> in_mailbox{0};
    std::atomic<std::size_t> bytes_in_mailbox{0};
    std::atomic<std::size_t> backlog{0};
    std::mutex mutex;
    std::list<backlog_message> messages;
    std::size_t backlog_bytes = 0;
  };

  /// Whether the mailbox, with so many messages of the senders of a slot, has room for `bytes`.
  [[nodiscard]] bool has_room_for_bytes(const slot& sender_slot, std::size_t in_mailbox,
                                        std::size_t bytes) const noexcept {
    return in_mailbox == 0 || sender_slot.bytes_in_mailbox + bytes <= limits_.bytes_in_mailbox;
  }
  /// The limits count `factor` times.
  /// @throws error `overloaded` if one more message may not be kept
  void require_room(const slot& sender_slot, std::size_t bytes, std::size_t factor) const {
    const std::size_t of_sender = sender_slot.backlog;
    const std::size_t of_all = backlog_;
    if (of_sender >= factor * limits_.backlog_of_sender) {
      refuse_messages("messages of this sender", of_sender, limits_.backlog_of_sender);
    }
    if (of_all >= factor * limits_.backlog) refuse_messages("messages", of_all, limits_.backlog);
    if (of_sender != 0 &&
        sender_slot.backlog_bytes + bytes > factor * limits_.backlog_bytes_of_sender) {
      refuse_bytes("messages of this sender", sender_slot.backlog_bytes, bytes,
                   limits_.backlog_bytes_of_sender);
    }
    if (of_all != 0 && backlog_bytes_ + bytes > factor * limits_.backlog_bytes) {
      refuse_bytes("messages", backlog_bytes_, bytes, limits_.backlog_bytes);
    }
  }

  [[nodiscard]] slot& slot_of(request_sender sender) noexcept {
    return slots_[(sender.id * 0x9e3779b97f4a7c15U) >> (64 - slot_bits)];
  }
  void pass_on_some(slot& sender_slot) noexcept {
    while (sender_slot.backlog != 0 && sender_slot.in_mailbox < limits_.in_mailbox &&
           has_room_for_bytes(sender_slot, sender_slot.in_mailbox,
                              sender_slot.messages.front().bytes)) {
      ++sender_slot.in_mailbox;
      sender_slot.bytes_in_mailbox += sender_slot.messages.front().bytes;
      pass_on_first(sender_slot);
    }
  }
  void pass_on_first(slot& sender_slot) noexcept {
    auto first = std::move(sender_slot.messages.front());
    sender_slot.messages.pop_front();
    sender_slot.backlog_bytes -= first.bytes;
    backlog_bytes_ -= first.bytes;
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
