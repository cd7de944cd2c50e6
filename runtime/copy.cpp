#include "runtime/runtime_core.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>

namespace sluice::detail {
namespace {

bool on_host(const runtime_core& core) {
  return core.id().kind == device_kind::host;
}

void require_block(const copy_end& end, const char* name) {
  if (!end.block) {
    throw error(errc::invalid_argument, std::string("enqueue_copy: ") + name + " is empty");
  }
}

void require_stream(const copy_end& end, const char* name, const char* of) {
  if (!end.stream) {
    throw error(errc::stream_misuse, std::string("enqueue_copy: ") + name +
                                         ", a stream of the runtime of " + of + ", is missing");
  }
  if (&end.stream.timeline()->core() != end.block.record()->core) {
    throw error(errc::stream_misuse,
                std::string("enqueue_copy: ") + name + " is not a stream of the runtime of " + of);
  }
}

/// Keeps `kept` until `point` has completed; where that cannot be noted, waits for it.
void keep_until(runtime_core& core, timeline_point point, std::shared_ptr<const void> kept) {
  try {
    auto owner = std::make_unique<std::shared_ptr<const void>>(kept);
    core.reclaim_after(
        {&point, 1}, {},
        [](void* held, allocation) noexcept {
          delete static_cast<std::shared_ptr<const void>*>(held);
        },
        owner.get());
    (void)owner.release();
  } catch (...) {
    core.wait_until_complete(point);
  }
}

// Within one runtime

timeline_point copy_within(const copy_end& target, const copy_end& source, std::size_t bytes) {
  if (share_bytes({target.block, target.address, bytes}, {source.block, source.address, bytes})) {
    throw error(errc::invalid_argument, "enqueue_copy: target shares elements with source");
  }
  auto recorder = launch_recorder::strict(target.stream);
  recorder.use(source.block, access_kind::read, source.whole);
  recorder.use(target.block, access_kind::write, target.whole);
  recorder.preflight();
  try {
    target.stream.device().copy(target.address, source.address, bytes,
                                copy_direction::device_to_device, target.stream.native());
  } catch (...) {
    const auto why = current_error();
    (void)recorder.commit(why);
    throw;
  }
  return recorder.commit();
}

// Between GPUs, or runtimes on one

/// Preflights both, waiting for other launches only while nothing is held.
void preflight_both(launch_recorder& one, launch_recorder& two) {
  auto* first = &one;
  auto* second = &two;
  for (;;) {
    first->preflight();
    if (second->try_preflight()) return;
    first->cancel();
    // The one that was in the way is waited for next.
    std::swap(first, second);
  }
}

timeline_point copy_between_gpus(const copy_end& target, const copy_end& source,
                                 std::size_t bytes) {
  auto& from = *source.stream.timeline();
  auto& to = *target.stream.timeline();
  auto reading = launch_recorder::strict(source.stream);
  reading.use(source.block, access_kind::read, source.whole);
  auto writing = launch_recorder::strict(target.stream);
  writing.use(target.block, access_kind::write, target.whole);
  // Tickets that say how far the other stream has to be.
  from.reserve();
  dependency_points before;
  std::unique_ptr<upstream_ticket> upstream;
  try {
    preflight_both(reading, writing);
    if (!reading.dependencies().empty()) {
      // What the source depends on may still fail: then the copy, of another runtime, has, too.
      before.append(reading.dependencies());
      upstream = std::make_unique<upstream_ticket>(from.core().shared_from_this(), from);
    }
  } catch (...) {
    reading.cancel();
    writing.cancel();
    from.unreserve();
    throw;
  }
  std::uint64_t fenced = 0;
  try {
    fenced = from.submit(std::move(before));
  } catch (...) {
    reading.cancel();
    writing.cancel();
    throw;
  }
  if (upstream) {
    upstream->ticket = fenced;
    to.core().note_copies_may_fail();
    writing.depend_on(std::move(upstream));
  }
  std::optional<error> failure;
  try {
    from.let_wait(to.core().device(), to.native(), fenced);
    to.core().device().copy_from_peer(target.address, from.core().device(), source.address, bytes,
                                      to.native());
  } catch (...) {
    failure = current_error();
  }
  const auto copied = writing.commit(failure);
  try {
    to.let_wait(from.core().device(), from.native(), copied.ticket);
  } catch (...) {
    // Nothing orders later writers of the source: the copy is waited for instead.
    to.core().wait_until_complete(copied);
  }
  (void)reading.commit();
  if (failure) throw *failure;
  return copied;
}

// From or to a host device, through memory of the process

/// What a stream of a host device hands over to a stream of a GPU: when the staging memory has been
/// filled, and whether that failed. The GPU's stream waits for the word; it must be set on every
/// path, and not before a failure has been noted at the ticket of the copy.
class handover {
 public:
  handover(std::shared_ptr<std::byte> memory, std::shared_ptr<runtime_core> to)
      : memory_(std::move(memory)), to_(std::move(to)) {
    word_ = ::new (static_cast<void*>(memory_.get())) std::atomic<std::uint32_t>(0);
  }

  [[nodiscard]] const std::atomic<std::uint32_t>& word() const noexcept { return *word_; }
  /// What has to stay until the copy has completed.
  [[nodiscard]] const std::shared_ptr<std::byte>& memory() const noexcept { return memory_; }

  /// By the host device: the memory has been filled, or never will be.
  void fill_ended(std::optional<error> failure) noexcept {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    failure_ = std::move(failure);
    settle();
  }
  /// By the thread that committed the copy; the empty point when there is none.
  void committed(timeline_point copy) noexcept {
    const std::lock_guard lock(mutex_);
    committed_ = true;
    copy_ = copy;
    settle();
  }

 private:
  void settle() noexcept {
    if (!ended_ || (failure_ && !committed_)) return;
    if (failure_ && copy_) to_->find(copy_.stream)->fail(copy_.ticket, *failure_);
    word_->store(1, std::memory_order_release);
  }

  const std::shared_ptr<std::byte> memory_;
  const std::shared_ptr<runtime_core> to_;
  std::atomic<std::uint32_t>* word_;
  std::mutex mutex_;
  bool ended_ = false;
  bool committed_ = false;
  std::optional<error> failure_;
  timeline_point copy_;
};

error failed_source(const error& why) {
  return {errc::upstream_failed, std::string("the source of a copy failed: ") + why.what(),
          why.status(), why.where()};
}

/// Why what was done up to `point` is not to be used, once that has completed.
std::optional<error> failure_up_to(timeline& stream, timeline_point point) noexcept {
  try {
    stream.wait_until(point.ticket);
  } catch (const error& lost) {
    return failed_source(lost);
  }
  const auto why = stream.failure_of(point.ticket);
  return why ? std::optional(failed_source(*why)) : std::nullopt;
}

/// Queued on the host device behind the filling: hands it over, also when it is discarded.
class hand_over_task {
 public:
  hand_over_task(std::shared_ptr<handover> to, std::shared_ptr<runtime_core> core, timeline& stream,
                 timeline_point filled, std::shared_ptr<const void> kept)
      : to_(std::move(to)),
        core_(std::move(core)),
        stream_(&stream),
        filled_(filled),
        kept_(std::move(kept)) {}
  hand_over_task(hand_over_task&&) = default;
  hand_over_task(const hand_over_task&) = delete;
  hand_over_task& operator=(const hand_over_task&) = delete;
  hand_over_task& operator=(hand_over_task&&) = delete;
  ~hand_over_task() {
    if (to_)
      to_->fill_ended(error(errc::upstream_failed, "the device of a copy's source was lost"));
  }
  void operator()() { to_->fill_ended(failure_up_to(*stream_, filled_)); }

 private:
  std::shared_ptr<handover> to_;
  std::shared_ptr<runtime_core> core_;
  timeline* stream_;
  timeline_point filled_;
  std::shared_ptr<const void> kept_;
};

timeline_point copy_through_host(const copy_end& target, const copy_end& source,
                                 std::size_t bytes) {
  auto& from = *source.stream.timeline();
  auto& to = *target.stream.timeline();
  const auto from_core = from.core().shared_from_this();
  const auto to_core = to.core().shared_from_this();
  const bool to_host = on_host(*to_core);
  // Pinned by the GPU that takes part, if one does.
  auto& pinning = to_host ? *from_core : *to_core;
  const auto staged = pinning.staging()->acquire(std::max<std::size_t>(bytes, 1));
  std::shared_ptr<handover> handed;
  if (!to_host) {
    handed = std::make_shared<handover>(
        pinning.staging()->acquire(sizeof(std::atomic<std::uint32_t>)), to_core);
  }

  auto reading = launch_recorder::strict(source.stream);
  reading.use(source.block, access_kind::read, source.whole);

  reading.preflight();
  std::optional<error> failure;
  try {
    from_core->device().copy(staged.get(), source.address, bytes, copy_direction::device_to_host,
                             from.native());
  } catch (...) {
    failure = current_error();
  }
  const auto filled = reading.commit(failure);
  try {
    // The staging memory stays until it has been filled, whatever becomes of the rest.
    if (handed) {
      submit_host_task(source.stream, hand_over_task(handed, from_core, from, filled, staged));
    } else if (on_host(*from_core)) {
      submit_host_task(source.stream, [staged] {});
    } else {
      keep_until(*from_core, filled, staged);
    }
  } catch (...) {
    from_core->wait_until_complete(filled);
    throw;
  }
  if (failure) throw *failure;

  auto writing = launch_recorder::strict(target.stream);
  writing.use(target.block, access_kind::write, target.whole);
  writing.preflight();
  try {
    if (to_host) {
      submit_host_task(target.stream,
                       [from_core, &from, filled, staged, bytes, address = target.address] {
                         from_core->device().prepare_own_thread();
                         if (const auto why = failure_up_to(from, filled)) throw *why;
                         if (bytes != 0) std::memcpy(address, staged.get(), bytes);
                       });
    } else {
      to_core->note_copies_may_fail();
      to_core->device().wait_for_word(to.native(), handed->word());
      to_core->device().copy(target.address, staged.get(), bytes, copy_direction::host_to_device,
                             to.native());
    }
  } catch (...) {
    failure = current_error();
  }
  const auto copied = writing.commit(failure);
  if (handed) {
    handed->committed(copied);
    keep_until(*to_core, copied, staged);
    keep_until(*to_core, copied, handed->memory());
  }
  if (failure) throw *failure;
  return copied;
}

}  // namespace

timeline_point enqueue_copy(const copy_end& target, const copy_end& source, std::size_t bytes) {
  require_block(target, "target");
  require_block(source, "source");
  require_stream(target, "on", "target");
  const auto& from = *source.block.record()->core;
  const auto& to = *target.block.record()->core;
  if (&from == &to) return copy_within(target, source, bytes);
  require_stream(source, "source_on", "source");
  if (on_host(from) || on_host(to)) return copy_through_host(target, source, bytes);
  return copy_between_gpus(target, source, bytes);
}

}  // namespace sluice::detail
