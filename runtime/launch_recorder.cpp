#include "runtime/runtime_core.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <new>
#include <string>
#include <utility>

namespace sluice {
namespace detail {
namespace {

/// Memory of recorders that are gone, per thread: making one costs no heap allocation in the steady
/// state.
struct recorder_memory {
  static constexpr std::size_t most = 4;
  std::array<void*, most> kept{};
  std::size_t count = 0;
  ~recorder_memory();
};
thread_local recorder_memory kept_memory;
/// Set when the thread's memory has gone; a recorder of a later destructor must not look at it.
thread_local bool kept_memory_ended = false;

recorder_memory::~recorder_memory() {
  while (count != 0) ::operator delete(kept[--count]);
  kept_memory_ended = true;
}

}  // namespace

class recorder_state {
 public:
  recorder_state(timeline& stream, recorder_mode mode)
      : core_(stream.core().shared_from_this()),
        stream_(stream),
        mode_(mode),
        at_step_(core_->step_called()) {}
  recorder_state(const recorder_state&) = delete;
  recorder_state& operator=(const recorder_state&) = delete;
  ~recorder_state() { abandon(); }

  static void* operator new(std::size_t size) {
    if (!kept_memory_ended && kept_memory.count != 0) return kept_memory.kept[--kept_memory.count];
    return ::operator new(size);
  }
  static void operator delete(void* memory) noexcept {
    if (!kept_memory_ended && kept_memory.count < recorder_memory::most) {
      kept_memory.kept[kept_memory.count++] = memory;
    } else {
      ::operator delete(memory);
    }
  }

  [[nodiscard]] stream_id launch_stream() const noexcept { return stream_.id(); }
  [[nodiscard]] recorder_mode mode() const noexcept { return mode_; }
  [[nodiscard]] std::size_t count() const noexcept { return uses_.size(); }

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
      } else if (block.record()->core != core_.get()) {
        reject(verb, "memory of another runtime than the launch stream's");
      } else if (!block.record()->tracked) {
        reject(verb, "the memory resource cannot track uses: memory '" +
                         std::string(block.tag().name()) + "' may not be recorded");
      } else {
        add({block.record(), block.record()->generation.load(std::memory_order_relaxed), access,
             whole, block.tag(), 0});
      }
    } catch (...) {
      if (!rejection_) rejection_ = current_error();
    }
  }

  /// `waits`: at a conflict of leases; otherwise it answers false there, and is as before.
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
    const auto before = std::exchange(phase_, phase::refused);  // until it has succeeded
    core_->require_open();
    (void)core_->require(stream_ref(&stream_));
    // Checked again under the leases; but a freed block and the one that got its record cannot both
    // be leased.
    for (const auto& u : uses_) {
      if (stale(u)) throw stale_error(u);
    }
    std::sort(uses_.begin(), uses_.end(),
              [](const use& a, const use& b) { return a.record < b.record; });
    stream_.reserve();
    try {
      if (!take_leases(waits)) {
        stream_.unreserve();
        phase_ = before;
        return false;
      }
      try {
        at(launch_step::leased);
        fence();
        at(launch_step::fenced);
      } catch (...) {
        give_leases(uses_.size());
        holder_->remove(static_cast<std::uint32_t>(uses_.size()));
        throw;
      }
    } catch (...) {
      stream_.unreserve();
      throw;
    }
    stream_.count_leases(static_cast<std::int64_t>(uses_.size()));
    first_ticket_ = stream_.newest().ticket + 1;
    phase_ = phase::preflighted;
    return true;
  }

  [[nodiscard]] std::span<const timeline_point> dependencies() const noexcept {
    return dependencies_.view();
  }
  void depend_on(std::unique_ptr<upstream_ticket> upstream) noexcept {
    upstream_ = std::move(upstream);
  }

  void cancel() noexcept {
    if (open()) phase_ = phase::cancelled;
    if (phase_ != phase::preflighted) return;
    phase_ = phase::cancelled;
    if (uses_.empty()) return;
    dependencies_.clear();
    upstream_.reset();
    stream_.unreserve();
    give_leases(uses_.size());
    holder_->remove(static_cast<std::uint32_t>(uses_.size()));
    stream_.count_leases(-static_cast<std::int64_t>(uses_.size()));
  }

  timeline_point commit(const std::optional<error>& failure) {
    if (phase_ == phase::committed)
      throw error(errc::stream_misuse, "commit was called before on this recorder");
    const auto before = std::exchange(phase_, phase::committed);
    timeline_point point;
    if (!uses_.empty()) {
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
    allocation_tag tag;    // for messages: the block may be gone by then
    std::uint64_t fenced;  // the version of the block's uses that the launch waits for
  };
  enum class phase : std::uint8_t { recording, cancelled, refused, preflighted, committed };
  /// Whether uses may be registered, and preflight called.
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

  void add(const use& added) {
    for (auto& known : uses_) {
      if (known.record == added.record && known.generation == added.generation) {
        // A whole write stays one only if nothing is read.
        known.whole = known.whole && added.whole;
        known.access = static_cast<access_kind>(static_cast<unsigned>(known.access) |
                                                static_cast<unsigned>(added.access));
        return;
      }
    }
    uses_.push_back(added);
  }

  [[nodiscard]] lease_answer try_lease(const use& u) const noexcept {
    at(launch_step::leasing);
    return u.access == access_kind::read ? u.record->lease.try_shared(holder_->holds_any())
                                         : u.record->lease.try_exclusive();
  }

  void give_lease(const use& u) noexcept {
    const bool last = u.access == access_kind::read ? u.record->lease.release_shared()
                                                    : u.record->lease.release_exclusive();
    if (last) core_->complete_free(*u.record);
  }

  void give_leases(std::size_t count) noexcept {
    while (count != 0) give_lease(uses_[--count]);
  }

  /// All or nothing, in address order; at a conflict everything is given back before waiting for
  /// the one in the way, unless `waits` says not to: then the answer is false.
  [[nodiscard]] bool take_leases(bool waits) {
    holder_ = &lease_holder::of_this_thread();
    block_record* announced = nullptr;  // where this thread stands as a waiting writer
    const auto withdraw = [&announced] {
      if (announced != nullptr) announced->lease.withdraw_writer();
      announced = nullptr;
    };
    for (;;) {
      std::size_t taken = 0;
      auto answer = lease_answer::granted;
      while (taken < uses_.size() && (answer = try_lease(uses_[taken])) == lease_answer::granted)
        ++taken;
      if (answer == lease_answer::granted) break;
      const auto& blocked = uses_[taken];
      give_leases(taken);
      if (answer == lease_answer::dying) {
        withdraw();
        throw stale_error(blocked);
      }
      if (!waits) return false;
      if (holder_->holds_any()) {
        withdraw();
        throw error(errc::stream_misuse,
                    "this thread holds a lease on memory of another launch between preflight and "
                    "commit, and may not "
                    "wait for a second one");
      }
      core_->count_lease_wait();
      const auto begun = std::chrono::steady_clock::now();
      if (blocked.access == access_kind::read) {
        withdraw();
        at(launch_step::blocked);
        blocked.record->lease.wait_shared();
      } else {
        if (announced != blocked.record) {
          withdraw();
          announced = blocked.record;
          announced->lease.announce_writer();
        }
        at(launch_step::blocked);
        blocked.record->lease.wait_exclusive();
      }
      core_->note_lease_wait(std::chrono::steady_clock::now() - begun);
    }
    withdraw();
    holder_->add(static_cast<std::uint32_t>(uses_.size()));
    return true;
  }

  [[nodiscard]] error stale_error(const use& u) const {
    // Nothing keeps the block: another one may have its record by now.
    core_->note_misuse(memory_misuse::stale_use, {.tag = u.tag, .generation = u.generation});
    return {errc::stale_ref, "memory '" + std::string(u.tag.name()) +
                                 "', which the launch uses, has been given back"};
  }

  /// Under the leases: checks identities and earlier failures, and queues the waits.
  void fence() {
    small_vector<hazard_point, 16> waits;
    for (auto& u : uses_) {
      if (u.record->generation.load(std::memory_order_relaxed) != u.generation)
        throw stale_error(u);
      const std::lock_guard lock(u.record->guard);
      u.record->require_ordered();
      if (u.access != access_kind::write || !u.whole) {
        if (const auto written = core_->dependency_on(*u.record)) dependencies_.push_back(written);
      }
      u.record->uses.collect(u.access, waits);
      u.fenced = u.record->uses.version();
    }
    core_->fence(stream_, waits.view());
  }

  timeline_point publish(const std::optional<error>& failure) {
    timeline_point point;
    std::optional<error> lost;
    at(launch_step::enqueued);
    try {
      point = {stream_.id(), stream_.submit(std::move(dependencies_), failure ? &*failure : nullptr,
                                            first_ticket_, std::move(upstream_))};
    } catch (...) {
      lost = current_error();
      point = stand_in(*lost);
    }
    at(launch_step::submitted);
    for (const auto& u : uses_) {
      if (point) {
        const std::lock_guard lock(u.record->guard);
        auto& known = u.record->uses;
        // What came since preflight without a lease (a use outside of a recorder, an export that is
        // back) was not waited for, so nothing stands for it. Readers only add in either case.
        if (known.version() == u.fenced) {
          known.publish(u.access, point, *core_);
        } else {
          known.add(u.access, point, *core_);
        }
      }
      at(launch_step::published);
      give_lease(u);
      at(launch_step::returned);
    }
    holder_->remove(static_cast<std::uint32_t>(uses_.size()));
    stream_.count_leases(-static_cast<std::int64_t>(uses_.size()));
    if (lost) throw *lost;
    return point;
  }

  /// When no ticket could be had for the work: what to publish in its place, so that nothing is
  /// left unprotected; the empty point once the work is waited for.
  [[nodiscard]] timeline_point stand_in(const error& why) noexcept {
    if (stream_.retired()) return stream_.newest();  // its last ticket is behind all of its work
    // What is captured is not queued.
    if (stream_.captured()) return {};
    try {
      stream_.synchronize();
    } catch (...) {
      core_->device().lose(why);
    }
    return {};
  }

  /// No lease protects this: it only adds.
  void publish_unfenced(const std::optional<error>& failure) {
    timeline_point point;
    try {
      stream_.reserve();
      point = {stream_.id(), stream_.submit({}, failure ? &*failure : nullptr)};
    } catch (...) {
      const auto why = current_error();
      point = stand_in(why);
      if (!point) throw why;
    }
    for (const auto& u : uses_) {
      const std::lock_guard lock(u.record->guard);
      if (!stale(u)) u.record->uses.add(u.access, point, *core_);
    }
  }

  void abandon() noexcept {
    if (uses_.empty()) return;
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

  std::shared_ptr<runtime_core> core_;
  timeline& stream_;
  recorder_mode mode_;
  const runtime_core::step_function* const at_step_;  // a test's
  phase phase_ = phase::recording;
  small_vector<use, 8> uses_;
  dependency_points dependencies_;
  std::unique_ptr<upstream_ticket> upstream_;
  std::uint64_t first_ticket_ = 0;  // the next ticket of the stream when the launch began
  lease_holder* holder_ = nullptr;
  std::optional<error> rejection_;
};

}  // namespace detail

namespace {

detail::timeline& required(stream_ref stream) {
  if (!stream)
    throw error(errc::stream_misuse,
                "a launch recorder needs a stream; there is no default stream");
  return *stream.timeline();
}

}  // namespace

launch_recorder::launch_recorder(std::unique_ptr<detail::recorder_state> state) noexcept
    : state_(std::move(state)) {}
launch_recorder::launch_recorder(launch_recorder&& other) noexcept = default;
launch_recorder& launch_recorder::operator=(launch_recorder&& other) noexcept = default;
launch_recorder::~launch_recorder() = default;

launch_recorder launch_recorder::strict(stream_ref launch_stream) {
  return launch_recorder(
      std::make_unique<detail::recorder_state>(required(launch_stream), recorder_mode::strict));
}

launch_recorder launch_recorder::permissive(stream_ref launch_stream) {
  return launch_recorder(
      std::make_unique<detail::recorder_state>(required(launch_stream), recorder_mode::permissive));
}

launch_recorder& launch_recorder::note(const block_ref& block, access_kind access, bool whole,
                                       const char* verb) {
  state_->note(block, access, whole, verb, block.read_only());
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
std::span<const timeline_point> launch_recorder::dependencies() const noexcept {
  return state_->dependencies();
}
void launch_recorder::depend_on(std::unique_ptr<detail::upstream_ticket> upstream) noexcept {
  state_->depend_on(std::move(upstream));
}
timeline_point launch_recorder::commit(const std::optional<error>& failure) {
  return state_->commit(failure);
}

}  // namespace sluice
