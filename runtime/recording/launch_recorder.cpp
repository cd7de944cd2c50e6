// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/merged_list.hpp"
#include "runtime/core/runtime_core.hpp"
#include "runtime/recording/launch_dependencies.hpp"
#include "runtime/sync/lease_holder.hpp"
#include "runtime/sync/turnstile.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <utility>

namespace sluice {
namespace detail {
class recorder_state {
 public:
  recorder_state() noexcept = default;
  recorder_state(const recorder_state&) = delete;
  recorder_state& operator=(const recorder_state&) = delete;
  ~recorder_state() = default;

  /// Begins a new recorder in this state.
  void begin(timeline& stream, recorder_mode mode) {
    if (!stream.hold_core()) shared_core_ = stream.core().shared_from_this();
    core_ = &stream.core();
    stream_ = &stream;
    mode_ = mode;
    at_step_ = core_->step_called();
    phase_ = phase::recording;
  }
  /// Ends the recorder. Keeps memory for the next one. Returns the core, which may be destroyed
  /// with the result.
  [[nodiscard]] std::shared_ptr<runtime_core> end() noexcept {
    abandon();
    uses_.clear();
    uses_.shrink(most_kept);
    waits_.clear();
    if (waits_.capacity() > most_kept) waits_ = {};
    forget_dependencies();
    if (dependencies_.capacity() > most_kept) dependencies_ = {};
    if (outcomes_.capacity() > most_kept) outcomes_ = {};
    upstream_.reset();
    rejection_.reset();
    auto* const held_by = std::exchange(stream_, nullptr);
    if (held_by == nullptr || shared_core_) return std::move(shared_core_);
    return held_by->let_go_of_core();  // last: the core may be destroyed afterwards
  }

  [[nodiscard]] stream_id launch_stream() const noexcept { return stream_->id(); }
  [[nodiscard]] recorder_mode mode() const noexcept { return mode_; }
  [[nodiscard]] std::size_t count() noexcept { return uses_.size(); }

  void note(const block_ref& block, access_kind access, bool whole, const char* verb,
            bool read_only) noexcept {
    try {
      if (!open()) {
        reject(verb,
               "recorded after preflight: the uses are frozen once preflight has been called");
      } else if (read_only && access != access_kind::read) {
        reject(verb, "the memory is read-only: its producer does not want it written");
      } else if (!block) {
        if (mode_ == recorder_mode::strict) {
          reject(verb,
                 "memory without runtime identity: order it by other means and use a permissive "
                 "recorder");
        }
      } else if (detail::block_record::of(block)->core != core_) {
        if (!rejection_) {
          rejection_ =
              runtime_core::foreign(block, errc::stream_misuse,
                                    std::string("launch_recorder::") + verb +
                                        ": memory of another runtime than the launch stream's");
        }
      } else if (!detail::block_record::of(block)->tracked) {
        reject(verb, "the memory resource cannot track uses: memory '" +
                         std::string(block.tag().name()) + "' may not be recorded");
      } else {
        auto* const record = detail::block_record::of(block);
        uses_.add({record, record->generation.load(std::memory_order_relaxed), access, whole,
                   record->memory.tag, 0});
      }
    } catch (...) {
      if (!rejection_) rejection_ = current_error();
    }
  }

  /// With `waits`, waits at a conflict of leases. Otherwise returns false there and changes
  /// nothing.
  bool preflight(bool waits) {
    if (rejection_) {
      if (open()) phase_ = phase::refused;
      throw *rejection_;
    }
    if (!open()) throw error(errc::stream_misuse, "preflight was called before on this recorder");
    if (uses_.empty()) {
      phase_ = phase::preflighted;
      return true;
    }
    const auto before = std::exchange(phase_, phase::refused);  // until preflight has succeeded
    core_->require_open();
    (void)core_->require(stream_->ref());
    // Checked again under the leases. A freed block and the block that reuses its record cannot
    // both be leased, so it is checked here, too.
    for (const auto& u : uses_) {
      if (stale(u)) throw stale_error(u);
    }
    uses_.sort();
    stream_->reserve();
    try {
      if (!take_leases(waits)) {
        stream_->unreserve();
        phase_ = before;
        return false;
      }
      try {
        at(launch_step::leased);
        fence();
        at(launch_step::fenced);
      } catch (...) {
        forget_dependencies();
        give_leases(uses_.size());
        holder_->remove(static_cast<std::uint32_t>(uses_.size()));
        throw;
      }
    } catch (...) {
      stream_->unreserve();
      throw;
    }
    first_ticket_ = stream_->newest().ticket + 1;
    phase_ = phase::preflighted;
    return true;
  }

  [[nodiscard]] std::span<const timeline_point> dependencies() const noexcept {
    return dependencies_.view();
  }
  void depend_on(std::unique_ptr<cross_runtime_dependency> upstream) noexcept {
    upstream_ = std::move(upstream);
  }

  void cancel() noexcept {
    if (open()) phase_ = phase::cancelled;
    if (phase_ != phase::preflighted) return;
    phase_ = phase::cancelled;
    if (uses_.empty() || leave_leases_to_parent()) return;
    forget_dependencies();
    upstream_.reset();
    stream_->unreserve();
    give_leases(uses_.size());
    holder_->remove(static_cast<std::uint32_t>(uses_.size()));
  }

  timeline_point commit(const std::optional<error>& failure) {
    if (phase_ == phase::committed)
      throw error(errc::stream_misuse, "commit was called before on this recorder");
    const auto before = std::exchange(phase_, phase::committed);
    timeline_point point;
    if (!uses_.empty()) {
      if (core_->device().inherited()) {
        if (before == phase::preflighted) (void)leave_leases_to_parent();
        core_->device().require_usable();
      }
      if (before == phase::preflighted) {
        point = publish(failure);
      } else {
        publish_unfenced(failure);
        if (rejection_) throw *rejection_;
        throw error(errc::stream_misuse,
                    "commit without a successful preflight: the launch was published, but nothing "
                    "ordered it after "
                    "earlier uses");
      }
    }
    if (rejection_) throw *rejection_;
    return point;
  }

 private:
  struct use {
    block_record* record;
    std::uint64_t generation;
    access_kind access;
    bool whole;
    allocation_tag tag;    // for messages, when the block may no longer exist
    std::uint64_t fenced;  // the version of the uses that the launch waits for
  };
  struct one_per_block {
    [[nodiscard]] static bool before(const use& a, const use& b) noexcept {
      if (a.record != b.record) return std::less<>()(a.record, b.record);
      return a.generation < b.generation;
    }
    [[nodiscard]] static bool same(const use& a, const use& b) noexcept {
      return a.record == b.record && a.generation == b.generation;
    }
    static void absorb(use& known, const use& added) noexcept {
      // A merged use is whole only if both were.
      known.whole = known.whole && added.whole;
      known.access = static_cast<access_kind>(static_cast<unsigned>(known.access) |
                                              static_cast<unsigned>(added.access));
    }
  };
  static constexpr std::size_t most_kept = 4096;  // elements of memory kept in a spare state
  enum class phase : std::uint8_t { recording, cancelled, refused, preflighted, committed };
  /// Whether registration and preflight are allowed.
  [[nodiscard]] bool open() const noexcept {
    return phase_ == phase::recording || phase_ == phase::cancelled;
  }

  void at(launch_step step) const {
    if (at_step_ != nullptr) (*at_step_)(step);
  }

  [[nodiscard]] static bool stale(const use& u) noexcept {
    return u.record->lease.dying() ||
           u.record->generation.load(std::memory_order_relaxed) != u.generation;
  }

  void reject(const char* verb, const std::string& why) {
    if (!rejection_)
      rejection_.emplace(errc::stream_misuse, std::string("launch_recorder::") + verb + ": " + why);
  }

  [[nodiscard]] lease_answer try_lease(const use& u, lease_request request) const noexcept {
    at(launch_step::leasing);
    return u.access == access_kind::read ? u.record->lease.try_shared(request)
                                         : u.record->lease.try_exclusive(request);
  }

  void give_lease(const use& u) noexcept {
    u.record->lease.lock();
    unlock_and_give_lease(u);
  }
  /// Returns a lease. The caller has locked the uses of the block.
  void unlock_and_give_lease(const use& u) noexcept {
    auto& lease = u.record->lease;
    const bool last = u.access == access_kind::read ? lease.unlock_and_release_shared()
                                                    : lease.unlock_and_release_exclusive();
    if (last) core_->complete_free(*u.record);
  }

  void give_leases(std::size_t count) noexcept {
    while (count != 0) give_lease(uses_[--count]);
  }

  /// Takes the leases of all uses. Without `waits`, returns false at a conflict and holds nothing.
  [[nodiscard]] bool take_leases(bool waits) {
    holder_ = &lease_holder::of_this_thread();
    if (holder_->in_turnstile()) {
      take_in_turn();
    } else if (!waits) {
      if (try_all(lease_request::yielding) != nullptr) return false;
    } else if (!take_together()) {
      at(launch_step::starved);
      const turnstile_passage passage(*holder_);
      take_in_turn();
    }
    holder_->add(static_cast<std::uint32_t>(uses_.size()));
    return true;
  }

  /// Takes all leases or none, in address order of the records. Returns the use in conflict, or
  /// nullptr.
  [[nodiscard]] const use* try_all(lease_request request) {
    for (std::size_t taken = 0; taken < uses_.size(); ++taken) {
      const auto& u = uses_[taken];
      const auto answer = try_lease(u, request);
      if (answer == lease_answer::granted) continue;
      give_leases(taken);
      if (answer == lease_answer::dying) throw stale_error(u);
      return &u;
    }
    return nullptr;
  }

  /// Registers a waiting writer at the block that it waits for, which keeps new readers out.
  class registered_writer {
   public:
    registered_writer() noexcept = default;
    registered_writer(const registered_writer&) = delete;
    registered_writer& operator=(const registered_writer&) = delete;
    ~registered_writer() { set(nullptr); }
    void set(block_record* record) noexcept {
      if (record == record_) return;
      if (record_ != nullptr) record_->lease.withdraw_writer();
      record_ = record != nullptr && record->lease.register_writer() ? record : nullptr;
    }

   private:
    block_record* record_ = nullptr;
  };

  /// Attempts to take all leases at once, and holds none while it waits. False after too many
  /// attempts.
  [[nodiscard]] bool take_together() {
    registered_writer registered;
    // A thread that holds a lease must not wait, so waiting threads must not stop it.
    const bool holds_others = holder_->holds_any();
    const auto request = holds_others ? lease_request::barging : lease_request::yielding;
    for (int attempt = 0; attempt < attempts_before_turnstile; ++attempt) {
      const auto* const blocked = try_all(request);
      if (blocked == nullptr) return true;
      if (holds_others) refuse_to_wait();
      registered.set(blocked->access == access_kind::read ? nullptr : blocked->record);
      wait_for(*blocked, request);
    }
    return false;
  }

  /// Takes the leases one by one as the owner of the turnstile, and holds them while it waits.
  void take_in_turn() {
    for (std::size_t taken = 0; taken < uses_.size(); ++taken) {
      const auto& u = uses_[taken];
      auto answer = try_lease(u, lease_request::barging);
      if (answer == lease_answer::conflict) {
        u.record->lease.reserve();
        do {
          wait_for(u, lease_request::barging);
          answer = try_lease(u, lease_request::barging);
        } while (answer == lease_answer::conflict);
        u.record->lease.end_reservation();
      }
      if (answer == lease_answer::dying) {
        give_leases(taken);
        throw stale_error(u);
      }
    }
  }

  void wait_for(const use& u, lease_request request) const noexcept {
    core_->count_lease_wait();
    const auto begun = std::chrono::steady_clock::now();
    at(launch_step::blocked);
    if (u.access == access_kind::read) {
      u.record->lease.wait_shared(request);
    } else {
      u.record->lease.wait_exclusive(request);
    }
    core_->note_lease_wait(std::chrono::steady_clock::now() - begun);
  }

  [[nodiscard]] error stale_error(const use& u) const {
    // No reference keeps the block, so another one may use its record by now.
    core_->note_misuse(memory_misuse::stale_use, {.tag = u.tag, .generation = u.generation});
    return {errc::stale_ref, "memory '" + std::string(u.tag.name()) +
                                 "', which the launch uses, has been given back"};
  }

  /// Keeps the outcomes of the tickets of `of` until the launch has been published.
  void read_outcomes_of(timeline& of) {
    for (const auto& known : outcomes_) {
      if (known.of == &of) return;
    }
    outcomes_.push_back({&of, 0});
    outcomes_.back().epoch = of.outcome_readers().enter();
  }
  void stop_reading_outcomes() noexcept {
    for (const auto& one : outcomes_) one.of->outcome_readers().leave(one.epoch);
    outcomes_.clear();
  }
  void forget_dependencies() noexcept {
    dependencies_.clear();
    stop_reading_outcomes();
  }

  /// Checks identities and earlier failures, and queues the waits. Under the leases.
  void fence() {
    waits_.clear();
    read_outcomes_of(*stream_);
    for (auto& u : uses_) {
      if (u.record->generation.load(std::memory_order_relaxed) != u.generation)
        throw stale_error(u);
      const std::lock_guard lock(u.record->lease);
      u.record->require_ordered();
      if (u.access != access_kind::write || !u.whole) {
        if (const auto written = core_->dependency_on(*u.record)) {
          read_outcomes_of(*core_->find(written.stream));
          dependencies_.push_back(written);
        }
      }
      u.record->uses.collect(u.access, stream_->id(), waits_);
      u.fenced = u.record->uses.version();
    }
    if (dependencies_.size() > 8) {
      // Several blocks written by one launch yield the same point.
      std::sort(dependencies_.begin(), dependencies_.end(), [](timeline_point a, timeline_point b) {
        return a.stream != b.stream ? a.stream < b.stream : a.ticket < b.ticket;
      });
      const auto* const end = std::unique(dependencies_.begin(), dependencies_.end());
      dependencies_.truncate(static_cast<std::size_t>(end - dependencies_.begin()));
    }
    core_->fence(*stream_, waits_.view());
  }

  timeline_point publish(const std::optional<error>& failure) {
    timeline_point point;
    std::optional<error> lost;
    at(launch_step::enqueued);
    const bool may_fail =
        core_->tasks_may_fail() || failure || !dependencies_.empty() || upstream_ != nullptr;
    try {
      point = {stream_->id(),
               stream_->submit(std::move(dependencies_), failure ? &*failure : nullptr,
                               first_ticket_, std::move(upstream_))};
    } catch (...) {
      lost = current_error();
      point = stand_in(*lost);
    }
    at(launch_step::submitted);
    for (const auto& u : uses_) {
      u.record->lease.lock();
      if (point) {
        auto& known = u.record->uses;
        // A use published without a lease since preflight was not waited for, so nothing may be
        // cleared.
        if (known.version() == u.fenced) {
          known.publish(u.access, point, *core_, may_fail);
        } else {
          known.add(u.access, point, *core_, may_fail);
        }
      }
      unlock_and_give_lease(u);
      at(launch_step::published);
    }
    stop_reading_outcomes();
    holder_->remove(static_cast<std::uint32_t>(uses_.size()));
    if (lost) throw *lost;
    return point;
  }

  /// The point to publish if no ticket is available: the last ticket of a retired stream, or the
  /// empty point after waiting for the work.
  [[nodiscard]] timeline_point stand_in(const error& why) noexcept {
    // The last ticket of a retired stream follows all of its work.
    if (stream_->retired()) return stream_->newest();
    // Work on a captured stream is not queued, so it needs no wait.
    if (stream_->captured()) return {};
    try {
      stream_->synchronize();
    } catch (...) {
      core_->device().lose(why);
    }
    return {};
  }

  /// Publishes without a lease, so it clears no earlier point.
  void publish_unfenced(const std::optional<error>& failure) {
    const epoch_reader until_published(stream_->outcome_readers());
    timeline_point point;
    try {
      stream_->reserve();
      point = {stream_->id(), stream_->submit({}, failure ? &*failure : nullptr)};
    } catch (...) {
      const auto why = current_error();
      point = stand_in(why);
      if (!point) throw why;
    }
    uses_.sort();
    for (const auto& u : uses_) {
      const std::lock_guard lock(u.record->lease);
      if (!stale(u)) u.record->uses.add(u.access, point, *core_);
    }
  }

  /// In a child of `fork()`: the leases belong to the parent, but the counter of this thread
  /// includes them. Returns whether this is such a child.
  [[nodiscard]] bool leave_leases_to_parent() noexcept {
    if (!core_->device().inherited()) return false;
    holder_->remove(static_cast<std::uint32_t>(uses_.size()));
    return true;
  }
  void abandon() noexcept {
    if (uses_.empty()) return;
    if (core_->device().inherited()) {
      if (phase_ == phase::preflighted) (void)leave_leases_to_parent();
      return;
    }
    try {
      if (phase_ == phase::preflighted) {
        core_->count_abandoned();
        report(
            "a launch recorder was destroyed between preflight and commit; the launch is taken as "
            "made");
        (void)publish(std::nullopt);
      } else if (phase_ == phase::recording) {
        core_->count_abandoned();
        report("a launch recorder was destroyed before preflight; nothing was published");
      }
    } catch (const error& e) {
      report(e.what());
    }
  }

  runtime_core* core_ = nullptr;  // held by the timeline of the stream, or by the next member
  std::shared_ptr<runtime_core> shared_core_;  // set if the runtime had been destroyed
  timeline* stream_ = nullptr;
  recorder_mode mode_ = recorder_mode::strict;
  const runtime_core::step_function* at_step_ = nullptr;  // of a test
  phase phase_ = phase::recording;
  merged_list<use, one_per_block, 8> uses_;
  small_vector<hazard_point, 16> waits_;
  struct read_outcomes {
    timeline* of;
    unsigned epoch;
  };

  dependency_points dependencies_;
  // Of the launch's stream and of the streams it depends on.
  small_vector<read_outcomes, 8> outcomes_;
  std::unique_ptr<cross_runtime_dependency> upstream_;
  std::uint64_t first_ticket_ = 0;  // the next ticket of the stream when the launch began
  lease_holder* holder_ = nullptr;
  std::optional<error> rejection_;
};

namespace {

/// Spare states of each thread, so that a recorder allocates no heap memory in the steady state.
struct spare_states {
  static constexpr std::size_t most = 4;
  std::array<recorder_state*, most> kept{};
  std::size_t count = 0;
  ~spare_states();
};
thread_local spare_states spare;
/// Set after the thread's spare states are destroyed. Recorders of later destructors must not use
/// them.
thread_local bool spare_ended = false;

spare_states::~spare_states() {
  while (count != 0) delete kept[--count];
  spare_ended = true;
}

using state_ptr = std::unique_ptr<recorder_state, recorder_state_deleter>;

state_ptr take_state() {
  if (!spare_ended && spare.count != 0) return state_ptr(spare.kept[--spare.count]);
  return state_ptr(new recorder_state);
}

}  // namespace

void recorder_state_deleter::operator()(recorder_state* state) const noexcept {
  // Dropping the core may destroy it, and with it recorders whose states this thread keeps.
  const auto core = state->end();
  if (!spare_ended && spare.count < spare_states::most) {
    spare.kept[spare.count++] = state;
  } else {
    delete state;
  }
}

}  // namespace detail

namespace {

detail::state_ptr begin_recorder(stream_ref stream, recorder_mode mode) {
  if (!stream)
    throw error(errc::stream_misuse,
                "a launch recorder needs a stream; there is no default stream");
  auto state = detail::take_state();
  state->begin(*detail::timeline::of(stream), mode);
  return state;
}

}  // namespace

launch_recorder::launch_recorder(state_ptr state) noexcept : state_(std::move(state)) {}
launch_recorder::launch_recorder(launch_recorder&& other) noexcept = default;
launch_recorder& launch_recorder::operator=(launch_recorder&& other) noexcept = default;
launch_recorder::~launch_recorder() = default;

launch_recorder launch_recorder::strict(stream_ref launch_stream) {
  return launch_recorder(begin_recorder(launch_stream, recorder_mode::strict));
}

launch_recorder launch_recorder::permissive(stream_ref launch_stream) {
  return launch_recorder(begin_recorder(launch_stream, recorder_mode::permissive));
}

launch_recorder& launch_recorder::note(const block_ref& block, access_kind access, bool whole,
                                       const char* verb) {
  const auto* const record = detail::block_record::of(block);
  state_->note(block, access, whole, verb, record != nullptr && record->read_only);
  return *this;
}

launch_recorder& launch_recorder::note(const column& c, access_kind access, const char* verb) {
  state_->note(c.block(), access, covers_block(c.block(), c.bytes()), verb, c.read_only());
  return *this;
}

stream_id launch_recorder::launch_stream() const noexcept {
  return state_->launch_stream();
}
recorder_mode launch_recorder::mode() const noexcept {
  return state_->mode();
}
std::size_t launch_recorder::recorded_count() const noexcept {
  return state_->count();
}
void launch_recorder::preflight() {
  (void)state_->preflight(true);
}
bool launch_recorder::try_preflight() {
  return state_->preflight(false);
}
void launch_recorder::cancel() noexcept {
  state_->cancel();
}
timeline_point launch_recorder::commit(const std::optional<error>& failure) {
  return state_->commit(failure);
}

namespace detail {

std::span<const timeline_point> launch_dependencies::of(const launch_recorder& recorder) noexcept {
  return recorder.state_->dependencies();
}
void launch_dependencies::add(launch_recorder& recorder,
                              std::unique_ptr<cross_runtime_dependency> upstream) noexcept {
  recorder.state_->depend_on(std::move(upstream));
}

}  // namespace detail
}  // namespace sluice
