// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/request_options.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <mutex>
#include <utility>

namespace sluice::detail {

/// The messages in front of an actor, bounded for each sender and in all.
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
    std::size_t in_mailbox = 256;  ///< of each sender
    std::size_t kept_of_sender = std::size_t{1} << 15U;
    std::size_t kept = std::size_t{1} << 16U;
  };
  /// An inbox that puts messages into the mailbox with `pass_on`, which any thread may call and
  /// which must not throw.
  explicit bounded_inbox(std::function<void(Message&&)> pass_on, limits most)
      : pass_on_(std::move(pass_on)), limits_(most) {}

  /// Takes a message of a sender. Returns false if there is no room; then the message is unchanged.
  /// One that cancels others has room when these have none: twice as many may be kept with such.
  /// Calls for one sender come one after the other.
  /// @throws std::bad_alloc if there is no memory; then the message is unchanged
  [[nodiscard]] bool send(request_sender sender, Message& message, bool cancels = false) {
    auto& from = slot_of(sender);
    if (from.kept == 0 && !closed_) {
      if (from.in_mailbox.fetch_add(1) < limits_.in_mailbox) {
        pass_on_(std::move(message));
        return true;
      }
      --from.in_mailbox;
    }
    const std::lock_guard lock(from.mutex);
    if (closed_) {
      pass_on_(std::move(message));
      return true;
    }
    const std::size_t factor = cancels ? 2 : 1;
    if (from.kept >= factor * limits_.kept_of_sender || kept_ >= factor * limits_.kept) {
      return false;
    }
    from.messages.push_back(std::move(message));
    ++kept_;
    // Before the mailbox is looked at: the actor looks here after it has handled a message.
    ++from.kept;
    pass_on_some(from);
    return true;
  }
  /// States that the actor has handled a message of a sender.
  void note_handled(request_sender sender) noexcept {
    auto& from = slot_of(sender);
    --from.in_mailbox;
    if (from.kept == 0) return;
    const std::lock_guard lock(from.mutex);
    pass_on_some(from);
  }
  /// Passes all messages on, and from now on each at once: the actor ends, and answers them.
  void close() noexcept {
    closed_ = true;
    for (auto& from : slots_) {
      const std::lock_guard lock(from.mutex);
      while (from.kept != 0) pass_on_one(from);
    }
  }
  /// The number of messages that are kept.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }

 private:
  struct slot {
    std::atomic<std::size_t> in_mailbox{0};
    std::atomic<std::size_t> kept{0};
    std::mutex mutex;
    std::list<Message> messages;
  };

  [[nodiscard]] slot& slot_of(request_sender sender) noexcept {
    return slots_[(sender.id * 0x9e3779b97f4a7c15U) >> (64 - slot_bits)];
  }
  void pass_on_some(slot& from) noexcept {
    while (from.kept != 0 && from.in_mailbox < limits_.in_mailbox) {
      ++from.in_mailbox;
      pass_on_one(from);
    }
  }
  void pass_on_one(slot& from) noexcept {
    auto message = std::move(from.messages.front());
    from.messages.pop_front();
    pass_on_(std::move(message));
    // After it is in the mailbox: the sender's next message may go there at once.
    --from.kept;
    --kept_;
  }

  const std::function<void(Message&&)> pass_on_;
  const limits limits_;
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> kept_{0};
  std::array<slot, std::size_t{1} << slot_bits> slots_;
};

}  // namespace sluice::detail
