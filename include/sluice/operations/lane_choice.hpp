// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/request_options.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::operations {
class known_plans;
}  // namespace sluice::operations

namespace sluice::detail {

/// Chooses the lane of each message to an actor with several lanes. Thread-safe.
///
/// Messages of one sender go to one lane, so that their order is that of the lane. A sender moves
/// to another lane only if none of its messages or requests waits in front of the old one: the
/// launch recorder orders what follows behind launches. It moves if its lane is busy or asleep and
/// another one is idle and awake, or if its lane is busy and another one has fewer requests in
/// front of it.
///
/// It takes turns with two lanes while the device is behind with its launches, so that launches
/// overlap on the device. A hazard between its launches ends that: on one stream they need no
/// waits. Launches of several senders overlap anyway, so they take no turns.
///
/// The runs of a program of many steps go to one lane, the home of the program, where they make
/// larger batches than on several lanes. The first lane that has batches of it is its home while it
/// is open. While 64 messages and requests are in front of it, others are treated as if the program
/// had no home.
///
/// The last lanes may be for messages of high priority only, and then these go nowhere else while
/// one is open. A message follows those of its sender that wait, whatever its priority.
///
/// Lanes may be opened on demand: one for high priority with the first such message, which goes
/// there at once if others wait in front of the other lanes; others while several senders have
/// messages in front of the open ones. A sender moves only to a lane that has made the plans of the
/// other lanes, so that its requests wait for no plan a second time.
class SLUICE_EXPORT lane_choice {
  /// Senders with one hash share a slot. There are so many that a sender rarely shares one with a
  /// sender whose requests wait.
  static constexpr std::size_t slot_bits = 12;
  static constexpr std::size_t slot_count = std::size_t{1} << slot_bits;
  [[nodiscard]] static std::size_t slot_of(request_sender sender) noexcept {
    return (sender.id * 0x9e3779b97f4a7c15U) >> (64 - slot_bits);
  }
  /// Homes are kept by a hash of the program. Of two programs with one hash, the one that ran last
  /// has a home.
  static constexpr std::size_t home_bits = 8;
  /// The launches of a lane: `heavy` if they keep the device behind and have no hazards with each
  /// other, `dependent` if they follow each other, `light` if they are few.
  enum class device_work : std::uint8_t { light, heavy, dependent };

 public:
  /// The last `high` lanes are for messages of high priority only; 0: all lanes are for all. The
  /// first `open` lanes, at least one, are open; the others are opened on demand.
  /// @throws std::bad_alloc if there is no memory
  ///@{
  explicit lane_choice(std::size_t lanes, std::size_t high = 0) : lane_choice(lanes, high, lanes) {}
  lane_choice(std::size_t lanes, std::size_t high, std::size_t open);
  ///@}
  lane_choice(const lane_choice&) = delete;
  lane_choice& operator=(const lane_choice&) = delete;
  ~lane_choice();

  /// Sets the function that is called when a lane is to be opened, by the thread that sends a
  /// message. It must not throw. Call it before the first message.
  void on_wanted(std::function<void()> callback) { on_wanted_ = std::move(callback); }
  /// A lane that is opened on demand is `wanted`, then `prepared` by its thread, then `open`. It
  /// may be closed at any time.
  enum class standing : std::uint8_t { closed, wanted, prepared, open };
  [[nodiscard]] standing standing_of(std::size_t number) const noexcept {
    return lane_states_[number].standing.load(std::memory_order_acquire);
  }
  /// Whether a lane is opened on demand.
  [[nodiscard]] bool on_demand(std::size_t number) const noexcept { return number >= open_; }
  /// Has a lane that is wanted prepared. Returns false if it is not wanted.
  [[nodiscard]] bool prepare(std::size_t number) noexcept;
  /// A lane that has been prepared takes messages from now on.
  void open(std::size_t number) noexcept;
  /// A lane takes no messages from now on, except those that are on their way. If it `failed`, it
  /// is not wanted again for a while.
  void close(std::size_t number, bool failed = false) noexcept;
  /// At most `limit` lanes are opened on demand from now on; further ones are closed, ordinary
  /// lanes before those for high priority, which may also take their places.
  void limit_on_demand(std::size_t limit) noexcept;
  /// The plans that one of the lanes has made.
  [[nodiscard]] operations::known_plans& plans() noexcept { return *plans_; }

  /// Returns `pass_on(lane)` with the lane of the next message of a sender. `program` is the
  /// identity of the program that the message runs; nullptr if it runs none. Calls for one sender
  /// come one after the other, so the messages arrive in this order. If `pass_on` throws, the
  /// message has not been sent.
  template <class PassOn>
  auto route(request_sender sender, request_priority priority, const void* program,
             const PassOn& pass_on) {
    const auto index = slot_of(sender);
    auto& sender_slot = slots_[index];
    const std::lock_guard lock(sender_slot.mutex);
    choose(sender_slot, index, lanes_for(priority), program);
    ++sender_slot.routed;
    // Before the message is on its way: a lane that has taken fewer is not idle.
    auto& routed = lane_states_[*sender_slot.lane].routed;
    routed.fetch_add(1, std::memory_order_relaxed);
    try {
      return pass_on(*sender_slot.lane);
    } catch (...) {
      routed.fetch_sub(1, std::memory_order_relaxed);
      --sender_slot.routed;
      throw;
    }
  }

  /// What one lane tells the choice. Only the thread of the lane calls its functions.
  class SLUICE_EXPORT lane {
   public:
    lane(std::shared_ptr<lane_choice> choice, std::size_t number)
        : choice_(std::move(choice)), number_(number) {}

    /// A request has been added to the queue of the lane, or has left it.
    ///@{
    void note_added(request_sender sender) noexcept {
      ++waiting_;
      ++slots_[slot_of(sender)].waiting;
      choice_->requests_.fetch_add(1, std::memory_order_relaxed);
    }
    void note_left(request_sender sender) noexcept {
      choice_->requests_.fetch_sub(1, std::memory_order_relaxed);
      --waiting_;
      const auto slot = slot_of(sender);
      --slots_[slot].waiting;
      note_change(slot);
    }
    ///@}
    /// The lane has handled a message.
    void note_handled(request_sender sender) noexcept {
      const auto slot = slot_of(sender);
      ++handled_;
      change_of_sender_ = std::exchange(last_sender_, sender) != sender;
      ++slots_[slot].handled;
      note_change(slot);
    }
    /// The queue of the lane takes `bytes` of the limit of all lanes together, instead of
    /// `old_bytes`.
    void note_bytes(std::size_t old_bytes, std::size_t bytes) noexcept {
      choice_->bytes_.fetch_add(bytes - old_bytes, std::memory_order_relaxed);
    }
    /// What waits in the queues of all lanes. Lanes that change it at the same time may not see
    /// each other's change.
    ///@{
    [[nodiscard]] std::size_t requests_of_all() const noexcept {
      return choice_->requests_.load(std::memory_order_relaxed);
    }
    [[nodiscard]] std::size_t bytes_of_all() const noexcept {
      return choice_->bytes_.load(std::memory_order_relaxed);
    }
    ///@}
    /// The lane runs a program whose runs are to come to one lane. It becomes the home of the
    /// program, unless another open lane is that. A lane for high priority never does. Messages of
    /// several senders then are no reason for another lane for a while.
    void note_home(const void* program) noexcept;
    /// The lane has made the first `count` of the plans of all lanes, or left them out.
    void note_plans(std::uint64_t count) noexcept {
      choice_->lane_states_[number_].plans.store(count, std::memory_order_release);
    }
    /// The choice that the lane belongs to.
    [[nodiscard]] lane_choice& choice() const noexcept { return *choice_; }
    /// The number of the lane.
    [[nodiscard]] std::size_t number() const noexcept { return number_; }
    /// The number of messages that it has handled.
    [[nodiscard]] std::uint64_t handled() const noexcept { return handled_; }
    /// Whether messages or requests are in front of the lane.
    [[nodiscard]] bool has_work() const noexcept {
      return waiting_ != 0 ||
             choice_->lane_states_[number_].routed.load(std::memory_order_acquire) != handled_;
    }
    /// The lane has `unfinished` launches on its device, where a batch counts as one. So many
    /// launches, `dependent`, have had a hazard with an unfinished one. Noted after a message; 0
    /// are unfinished if another message waits.
    void note_device(std::size_t unfinished, std::uint64_t dependent) noexcept;
    /// Makes what has been noted known to the senders. `awake`: whether the thread of the lane
    /// handles its next message without being woken.
    void publish(bool awake) noexcept;

   private:
    void note_change(std::size_t slot) noexcept {
      if (std::exchange(slots_[slot].changed, true)) return;
      changed_[changes_++] = static_cast<std::uint16_t>(slot);
    }

    /// Measures whether several senders keep the lane busy, and wants another lane if they do, or
    /// if the device is behind.
    void measure() noexcept;

    struct slot_state {
      std::uint64_t handled = 0;
      std::uint32_t waiting = 0;
      bool changed = false;  // and in the list
    };
    const std::shared_ptr<lane_choice> choice_;
    const std::size_t number_;
    std::uint64_t handled_ = 0;
    std::size_t waiting_ = 0;
    request_sender last_sender_{};
    bool change_of_sender_ = false;    // with the last message
    std::uint64_t measured_ = 0;       // of `handled_`
    std::uint64_t at_home_until_ = 0;  // likewise
    std::uint64_t noted_ = 0;          // likewise, by `note_device`
    std::uint64_t dependent_ = 0;      // launches that had a hazard with an unfinished one
    int backlog_ = 0;                  // how often the device was behind, less how often it was not
    device_work device_ = device_work::light;
    std::array<slot_state, slot_count> slots_;
    std::array<std::uint16_t, slot_count> changed_{};  // the slots that are to be published
    std::size_t changes_ = 0;
  };

 private:
  struct lane_state {
    alignas(64) std::atomic<std::uint64_t> routed{0};
    alignas(64) std::atomic<std::uint64_t> handled{0};
    std::atomic<std::uint64_t> waiting{0};
    std::atomic<bool> awake{false};
    std::atomic<lane_choice::standing> standing{lane_choice::standing::closed};
    std::atomic<std::uint64_t> plans{0};  // of `known_plans`, that it has
    // How often senders took turns while others waited, less how often none did.
    std::atomic<int> pressure{0};
    std::atomic<device_work> device{device_work::light};
    std::atomic<std::size_t> unfinished{0};  // launches, after its last message
    // The slot, counted from 1, of the sender that takes turns with this lane and another one.
    std::atomic<std::size_t> turns_of{0};
    // Of each slot, the messages up to the last one that left nothing.
    std::array<std::atomic<std::uint64_t>, slot_count> slots{};
  };
  struct alignas(64) slot {
    std::mutex mutex;
    std::optional<std::size_t> lane;
    std::uint64_t routed = 0;         // to `lane`
    int turns = 0;                    // messages for which the sender takes turns with two lanes
    std::size_t beside = 0;           // the lane with which it takes turns, unless others use that
    std::uint64_t routed_beside = 0;  // `routed` of this lane, when the sender last looked
  };

  /// The messages and requests in front of a lane.
  [[nodiscard]] static std::uint64_t load_of(const lane_state& state) noexcept;
  /// The lanes from `first` on.
  struct range {
    std::size_t first;
    std::size_t count;
  };
  [[nodiscard]] range lanes_for(request_priority priority) const noexcept;
  /// The lanes that take the same messages as lane `number`.
  [[nodiscard]] range lanes_like(std::size_t number) const noexcept;
  void choose(slot& sender_slot, std::size_t index, range candidates, const void* program) noexcept;
  /// Makes a lane the home of a program that has none.
  void settle(const void* program, std::size_t number) noexcept;
  /// The home of a program; nothing if it has none.
  [[nodiscard]] std::optional<std::size_t> home_of(const void* program) const noexcept;
  /// Moves a sender of whom nothing waits to a lane.
  void move(slot& sender_slot, std::size_t index, std::size_t target) noexcept;
  /// The lane among `candidates` for a sender whose lane was `old_lane`.
  [[nodiscard]] std::size_t best_lane(std::optional<std::size_t> old_lane,
                                      range candidates) noexcept;
  /// Whether several senders keep a lane busy.
  [[nodiscard]] bool is_busy(std::size_t number) const noexcept;
  /// The lane for a sender that leaves a busy one; nothing if there is none.
  [[nodiscard]] std::optional<std::size_t> relief_for(std::size_t number,
                                                      range candidates) const noexcept;
  /// The lane with which a sender takes turns; nothing if it keeps its lane.
  [[nodiscard]] std::optional<std::size_t> lane_beside(slot& sender_slot, std::size_t index,
                                                       range candidates) noexcept;
  /// Whether a lane beside lane `number` takes messages or will soon.
  [[nodiscard]] bool has_lane_beside(std::size_t number, range candidates) const noexcept;
  /// Whether a sender may move to a lane.
  [[nodiscard]] bool may_take(std::size_t number) const noexcept;
  /// The lanes on demand that are not closed.
  [[nodiscard]] std::size_t on_demand_now() const noexcept;
  [[nodiscard]] bool is_one_too_many() const noexcept {
    return on_demand_now() > max_on_demand_.load();
  }
  /// Has one of `candidates` opened, unless all are or one is being opened.
  void want_lane(range candidates) noexcept;
  /// Notes that the best lane has `load` messages and requests of other senders in front of it.
  void note_load(std::uint64_t load, range candidates) noexcept;

  std::vector<lane_state> lane_states_;
  const std::size_t high_;
  const std::size_t open_;
  const std::unique_ptr<operations::known_plans> plans_;
  std::function<void()> on_wanted_;
  // How often a message met others that waited, less how often it met none.
  std::atomic<int> pressure_{0};
  std::atomic<std::size_t> max_on_demand_;
  // In the queues of all lanes.
  alignas(64) std::atomic<std::size_t> requests_{0};
  std::atomic<std::size_t> bytes_{0};
  std::array<slot, slot_count> slots_;
  // By the hash of a program: its upper bits, and below them the lane, counted from 1.
  std::array<std::atomic<std::uint64_t>, std::size_t{1} << home_bits> homes_{};
  std::atomic<std::size_t> next_{0};
};

}  // namespace sluice::detail
