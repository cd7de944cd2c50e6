// SPDX-License-Identifier: Apache-2.0
#include "runtime/copy/host_transfer.hpp"
#include "runtime/core/runtime_core.hpp"
#include "runtime/core/share_bytes.hpp"
#include "runtime/host/host_stream.hpp"
#include "runtime/recording/launch_dependencies.hpp"
#include "runtime/sync/turnstile.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
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
    throw error(errc::invalid_argument,
                std::string("enqueue_copy: ") + name + ": the reference is empty");
  }
}

void require_stream(const copy_end& end, const char* name, const char* of) {
  if (!end.stream) {
    throw error(errc::stream_misuse,
                std::string("enqueue_copy: ") + name +
                    ": no stream was given; must be a stream of the runtime of " + of);
  }
  if (&timeline::of(end.stream)->core() != block_record::of(end.block)->core) {
    throw error(errc::stream_misuse,
                std::string("enqueue_copy: ") + name + ": not a stream of the runtime of " + of);
  }
}

/// Keeps `kept` until `point` has completed. If that cannot be arranged, waits for `point`.
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

/// Commits, and keeps `kept` until the launch has completed. If commit throws, the work is queued
/// nevertheless, so `kept` is kept then, too.
timeline_point commit_keeping(launch_recorder& recorder, timeline& stream,
                              const std::optional<error>& failure,
                              const std::shared_ptr<const void>& kept) {
  timeline_point point;
  try {
    point = recorder.commit(failure);
  } catch (...) {
    // The last ticket of a retired stream follows that work. On any other stream commit has waited
    // for it.
    keep_until(stream.core(), stream.newest(), kept);
    throw;
  }
  keep_until(stream.core(), point, kept);
  return point;
}

// Within one runtime

timeline_point copy_within(const copy_end& target, const copy_end& source, std::size_t bytes) {
  if (share_bytes({target.block, target.address, bytes}, {source.block, source.address, bytes})) {
    throw error(errc::invalid_argument, "enqueue_copy: target and source overlap");
  }
  auto recorder = launch_recorder::strict(target.stream);
  recorder.use(source.block, access_kind::read, source.whole);
  recorder.use(target.block, access_kind::write, target.whole);
  recorder.preflight();
  try {
    on_stream(*timeline::of(target.stream), [&](native_stream* stream) {
      target.stream.device().copy(target.address, source.address, bytes,
                                  copy_direction::device_to_device, stream);
    });
  } catch (...) {
    const auto why = current_error();
    (void)recorder.commit(why);
    throw;
  }
  return recorder.commit();
}

// Between GPUs, or between runtimes on one GPU

/// Preflights both recorders. It waits for other launches only while it holds no lease. After too
/// many failed attempts it enters the turnstile, where it keeps its leases while it waits.
void preflight_both(launch_recorder& one, launch_recorder& two) {
  auto* first = &one;
  auto* second = &two;
  for (int attempt = 0; attempt < attempts_before_turnstile; ++attempt) {
    first->preflight();
    if (second->try_preflight()) return;
    first->cancel();
    // The next attempt waits for the recorder in conflict.
    std::swap(first, second);
  }
  const turnstile_passage passage(lease_holder::of_this_thread());
  first->preflight();
  second->preflight();
}

timeline_point copy_between_gpus(const copy_end& target, const copy_end& source,
                                 std::size_t bytes) {
  auto& from = *timeline::of(source.stream);
  auto& to = *timeline::of(target.stream);
  auto reading = launch_recorder::strict(source.stream);
  reading.use(source.block, access_kind::read, source.whole);
  auto writing = launch_recorder::strict(target.stream);
  writing.use(target.block, access_kind::write, target.whole);
  to.core().device().prepare_copies_from(from.core().device());
  // The ticket for the fence on the source's stream.
  from.reserve();
  dependency_points before;
  std::unique_ptr<cross_runtime_dependency> upstream;
  try {
    preflight_both(reading, writing);
    if (!launch_dependencies::of(reading).empty()) {
      // The writer of the source may still fail, so the copy depends on a ticket of the source's
      // runtime.
      before.append(launch_dependencies::of(reading));
      upstream = std::make_unique<cross_runtime_dependency>(from.core().shared_from_this(), from);
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
    launch_dependencies::add(writing, std::move(upstream));
  }
  std::optional<error> failure;
  try {
    on_stream(to, [&](native_stream* stream) {
      from.let_wait(to.core().device(), stream, fenced);
      to.core().device().copy_from_peer(target.address, from.core().device(), source.address, bytes,
                                        stream);
    });
  } catch (...) {
    failure = current_error();
  }
  timeline_point copied;
  try {
    copied = writing.commit(failure);
  } catch (...) {
    // No ticket marks the end of the queued copy, so the source stays leased until it has ended.
    to.core().wait_until_complete(to.newest());
    (void)reading.commit();
    throw;
  }
  try {
    on_stream(from, [&](native_stream* stream) {
      to.let_wait(from.core().device(), stream, copied.ticket);
    });
  } catch (...) {
    // Later writers of the source would not be ordered, so the copy is waited for.
    to.core().wait_until_complete(copied);
  }
  (void)reading.commit();
  if (failure) throw *failure;
  return copied;
}

// From and to a host device, through memory of the process

/// Memory of the process, not pinned.
/// @throws error `out_of_memory`
std::shared_ptr<std::byte> allocate_between(std::size_t bytes) {
  try {
    const auto memory = std::make_shared_for_overwrite<std::byte[]>(bytes);
    return {memory, memory.get()};
  } catch (const std::bad_alloc&) {
    throw error(errc::out_of_memory, "enqueue_copy: out of host memory: " + std::to_string(bytes) +
                                         " bytes for a copy between devices");
  }
}

/// `on_stream` for the stream of a host device.
template <class Submit>
void on_stream_of_host(timeline& stream, Submit submit) {
  on_stream(stream,
            [&](native_stream* native) { submit(*reinterpret_cast<host::host_stream*>(native)); });
}

/// Queues a copy from memory of a host device. The task owns its target, so the copy is safe if the
/// device is lost meanwhile.
/// @throws error `stream_misuse` if the stream has been destroyed
/// @throws error `device_lost`
void copy_on_host(timeline& from, std::shared_ptr<std::byte> staged, const void* address,
                  std::size_t bytes) {
  from.core().device().require_usable();
  if (bytes == 0) return;
  auto copy = [staged = std::move(staged), address, bytes] {
    std::memcpy(staged.get(), address, bytes);
  };
  auto task = std::make_unique<host::function_task<decltype(copy)>>(std::move(copy));
  on_stream_of_host(from, [&](host::host_stream& stream) {
    stream.submit_counted(task.release(), fault_target::copy);
  });
}

/// A word that a host device sets once it has read the source of a copy.
using word_ptr = std::shared_ptr<std::atomic<std::uint32_t>>;

/// Queues a task that sets `word`. It is a marker, not a launch: it also runs after the loss of the
/// device, because a GPU stream waits for the word.
/// @throws error `stream_misuse` if the stream has been destroyed
void set_on_host(timeline& from, word_ptr word) {
  // The task object exists until the stream's next task, so it drops the word itself.
  auto set = [word = std::move(word)]() mutable noexcept {
    word->store(1, std::memory_order_release);
    word.reset();
  };
  auto task = std::make_unique<host::function_task<decltype(set)>>(std::move(set),
                                                                   host::host_task::kind::marker);
  on_stream_of_host(from, [&](host::host_stream& stream) { stream.submit(task.release()); });
}

/// Makes a launch that reads the source: `read` enqueues its work, `commit` commits it.
template <class Read, class Commit>
timeline_point read_source(const copy_end& source, Read read, Commit commit) {
  auto reading = launch_recorder::strict(source.stream);
  reading.use(source.block, access_kind::read, source.whole);
  reading.preflight();
  std::optional<error> failure;
  try {
    read();
  } catch (...) {
    failure = current_error();
  }
  const auto point = commit(reading, failure);
  if (failure) throw *failure;
  return point;
}

/// Fills `staged` from a host device, as a launch that reads the source.
timeline_point fill_from_host(const copy_end& source, std::size_t bytes,
                              const std::shared_ptr<std::byte>& staged) {
  auto& from = *timeline::of(source.stream);
  return read_source(
      source, [&] { copy_on_host(from, staged, source.address, bytes); },
      [](launch_recorder& reading, const std::optional<error>& failure) {
        return reading.commit(failure);
      });
}

/// Fills `staged` from a GPU, as a launch that reads the source.
timeline_point fill_from_gpu(const copy_end& source, std::size_t bytes,
                             const std::shared_ptr<std::byte>& staged) {
  auto& from = *timeline::of(source.stream);
  const auto moved = download_through_ring(source.stream, staged, bytes);
  return read_source(
      source, [&] { moved->enqueue(source.address); },
      [&](launch_recorder& reading, const std::optional<error>& failure) {
        return commit_keeping(reading, from, failure, moved);
      });
}

/// Waits until the results up to `ticket` can be used on the calling thread, which runs a stream of
/// `waiting`.
/// @throws error `upstream_failed` if the ticket failed, or if either device is lost
void require_success(timeline& stream, std::uint64_t ticket, const device& waiting) {
  std::optional<error> why;
  try {
    stream.wait_until(ticket, &waiting);
    why = stream.failure_of(ticket);
  } catch (const error& lost) {
    why = lost;
  }
  if (why) {
    throw error(errc::upstream_failed,
                std::string("the launch that wrote the source of a copy failed: ") + why->what(),
                why->status(), why->where());
  }
}

timeline_point copy_to_host(const copy_end& target, const copy_end& source, std::size_t bytes) {
  auto& from = *timeline::of(source.stream);
  auto upstream = std::make_unique<cross_runtime_dependency>(from.core().shared_from_this(), from);
  const auto staged = allocate_between(bytes);
  const auto filled = on_host(*upstream->core) ? fill_from_host(source, bytes, staged)
                                               : fill_from_gpu(source, bytes, staged);
  upstream->ticket = filled.ticket;

  auto writing = launch_recorder::strict(target.stream);
  writing.use(target.block, access_kind::write, target.whole);
  writing.preflight();
  std::optional<error> failure;
  try {
    submit_host_task(
        target.stream, [upstream = std::move(upstream), &waiting = target.stream.device(), staged,
                        bytes, address = target.address] {
          {
            const current_device_scope scope(upstream->core->device());  // allows other captures
            require_success(*upstream->stream, upstream->ticket, waiting);
            upstream->outcome.reset();  // the task object outlives its run
          }
          if (bytes != 0) std::memcpy(address, staged.get(), bytes);
        });
  } catch (...) {
    failure = current_error();
  }
  const auto copied = writing.commit(failure);
  if (failure) throw *failure;
  return copied;
}

timeline_point copy_from_host(const copy_end& target, const copy_end& source, std::size_t bytes) {
  auto& from = *timeline::of(source.stream);
  auto& to = *timeline::of(target.stream);
  const auto staged = allocate_between(bytes);
  const auto word = std::make_shared<std::atomic<std::uint32_t>>(0);
  const auto moved = upload_when_ready(target.stream, staged, bytes, word);
  auto upstream = std::make_unique<cross_runtime_dependency>(from.core().shared_from_this(), from);
  upstream->ticket = fill_from_host(source, bytes, staged).ticket;
  set_on_host(from, word);

  auto writing = launch_recorder::strict(target.stream);
  writing.use(target.block, access_kind::write, target.whole);
  writing.preflight();
  launch_dependencies::add(writing, std::move(upstream));
  std::optional<error> failure;
  try {
    moved->enqueue(target.address);
  } catch (...) {
    failure = current_error();
  }
  const auto copied = commit_keeping(writing, to, failure, moved);
  if (failure) throw *failure;
  return copied;
}

}  // namespace

timeline_point enqueue_copy(const copy_end& target, const copy_end& source, std::size_t bytes) {
  require_block(target, "target");
  require_block(source, "source");
  require_stream(target, "on", "target");
  const auto& from = *block_record::of(source.block)->core;
  const auto& to = *block_record::of(target.block)->core;
  if (&from == &to) return copy_within(target, source, bytes);
  require_stream(source, "source_on", "source");
  // Drops the dependencies of earlier copies, each of which keeps another runtime alive.
  timeline::of(target.stream)->core().releases().drain();
  if (on_host(to)) return copy_to_host(target, source, bytes);
  if (on_host(from)) return copy_from_host(target, source, bytes);
  return copy_between_gpus(target, source, bytes);
}

}  // namespace sluice::detail
