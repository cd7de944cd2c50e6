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

void require_stream(const copy_end& end, const char* name, const char* operand) {
  if (!end.stream) {
    throw error(errc::stream_misuse,
                std::string("enqueue_copy: ") + name +
                    ": no stream was given; must be a stream of the runtime of " + operand);
  }
  if (&timeline::of(end.stream)->core() != block_record::of(end.block)->core) {
    throw error(errc::stream_misuse, std::string("enqueue_copy: ") + name +
                                         ": not a stream of the runtime of " + operand);
  }
}

/// Keeps `object` until `point` has completed. If that cannot be arranged, waits for `point`.
void keep_until(runtime_core& core, timeline_point point, std::shared_ptr<const void> object) {
  try {
    auto owner = std::make_unique<std::shared_ptr<const void>>(object);
    core.reclaim_after(
        {&point, 1}, {},
        [](void* pointer, allocation) noexcept {
          delete static_cast<std::shared_ptr<const void>*>(pointer);
        },
        owner.get());
    (void)owner.release();
  } catch (...) {
    core.wait_until_complete(point);
  }
}

/// Commits, and keeps `object` until the launch has completed. If commit throws, the work is queued
/// nevertheless, so `object` is kept then, too.
timeline_point commit_keeping(launch_recorder& recorder, timeline& stream,
                              const std::optional<error>& failure,
                              const std::shared_ptr<const void>& object) {
  timeline_point point;
  try {
    point = recorder.commit(failure);
  } catch (...) {
    // The last ticket of a retired stream follows that work. On any other stream commit has waited
    // for it.
    keep_until(stream.core(), stream.newest(), object);
    throw;
  }
  keep_until(stream.core(), point, object);
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
    const auto failure = current_error();
    (void)recorder.commit(failure);
    throw;
  }
  return recorder.commit();
}

// Between GPUs, or between runtimes on one GPU

/// Preflights both recorders. It waits for other launches only while it holds no lease. After too
/// many failed attempts it enters the turnstile, where it keeps its leases while it waits.
void preflight_both(launch_recorder& reader, launch_recorder& writer) {
  auto* first = &reader;
  auto* second = &writer;
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
  auto& source_timeline = *timeline::of(source.stream);
  auto& target_timeline = *timeline::of(target.stream);
  auto reader = launch_recorder::strict(source.stream);
  reader.use(source.block, access_kind::read, source.whole);
  auto writer = launch_recorder::strict(target.stream);
  writer.use(target.block, access_kind::write, target.whole);
  target_timeline.core().device().prepare_copies_from(source_timeline.core().device());
  // The ticket for the fence on the source's stream.
  source_timeline.reserve();
  dependency_points dependencies;
  std::unique_ptr<cross_runtime_dependency> upstream;
  try {
    preflight_both(reader, writer);
    if (!launch_dependencies::of(reader).empty()) {
      // The writer of the source may still fail, so the copy depends on a ticket of the source's
      // runtime.
      dependencies.append(launch_dependencies::of(reader));
      upstream = std::make_unique<cross_runtime_dependency>(
          source_timeline.core().shared_from_this(), source_timeline);
    }
  } catch (...) {
    reader.cancel();
    writer.cancel();
    source_timeline.unreserve();
    throw;
  }
  std::uint64_t fence_ticket = 0;
  try {
    fence_ticket = source_timeline.submit(std::move(dependencies));
  } catch (...) {
    reader.cancel();
    writer.cancel();
    throw;
  }
  if (upstream) {
    upstream->ticket = fence_ticket;
    launch_dependencies::add(writer, std::move(upstream));
  }
  std::optional<error> failure;
  try {
    on_stream(target_timeline, [&](native_stream* stream) {
      source_timeline.let_wait(target_timeline.core().device(), stream, fence_ticket);
      target_timeline.core().device().copy_from_peer(
          target.address, source_timeline.core().device(), source.address, bytes, stream);
    });
  } catch (...) {
    failure = current_error();
  }
  timeline_point copy_point;
  try {
    copy_point = writer.commit(failure);
  } catch (...) {
    // No ticket marks the end of the queued copy, so the source stays leased until it has ended.
    target_timeline.core().wait_until_complete(target_timeline.newest());
    (void)reader.commit();
    throw;
  }
  try {
    on_stream(source_timeline, [&](native_stream* stream) {
      target_timeline.let_wait(source_timeline.core().device(), stream, copy_point.ticket);
    });
  } catch (...) {
    // Later writers of the source would not be ordered, so the copy is waited for.
    target_timeline.core().wait_until_complete(copy_point);
  }
  (void)reader.commit();
  if (failure) throw *failure;
  return copy_point;
}

// From and to a host device, through host memory

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
void copy_on_host(timeline& source_timeline, std::shared_ptr<std::byte> buffer, const void* address,
                  std::size_t bytes) {
  source_timeline.core().device().require_usable();
  if (bytes == 0) return;
  auto copy = [buffer = std::move(buffer), address, bytes] {
    std::memcpy(buffer.get(), address, bytes);
  };
  auto task = std::make_unique<host::function_task<decltype(copy)>>(std::move(copy));
  on_stream_of_host(source_timeline, [&](host::host_stream& stream) {
    stream.submit_counted(task.release(), fault_target::copy);
  });
}

/// A word that a host device sets once it has read the source of a copy.
using word_ptr = std::shared_ptr<std::atomic<std::uint32_t>>;

/// Queues a task that sets `word`. It is a marker, not a launch: it also runs after the loss of the
/// device, because a GPU stream waits for the word.
/// @throws error `stream_misuse` if the stream has been destroyed
void set_on_host(timeline& source_timeline, word_ptr word) {
  // The task object exists until the stream's next task, so it drops the word itself.
  auto set = [word = std::move(word)]() mutable noexcept {
    word->store(1, std::memory_order_release);
    word.reset();
  };
  auto task = std::make_unique<host::function_task<decltype(set)>>(std::move(set),
                                                                   host::host_task::kind::marker);
  on_stream_of_host(source_timeline,
                    [&](host::host_stream& stream) { stream.submit(task.release()); });
}

/// Makes a launch that reads the source: `read` enqueues its work, `commit` commits it.
template <class Read, class Commit>
timeline_point read_source(const copy_end& source, Read read, Commit commit) {
  auto reader = launch_recorder::strict(source.stream);
  reader.use(source.block, access_kind::read, source.whole);
  reader.preflight();
  std::optional<error> failure;
  try {
    read();
  } catch (...) {
    failure = current_error();
  }
  const auto point = commit(reader, failure);
  if (failure) throw *failure;
  return point;
}

/// Fills `buffer` from a host device, as a launch that reads the source.
timeline_point fill_from_host(const copy_end& source, std::size_t bytes,
                              const std::shared_ptr<std::byte>& buffer) {
  auto& source_timeline = *timeline::of(source.stream);
  return read_source(
      source, [&] { copy_on_host(source_timeline, buffer, source.address, bytes); },
      [](launch_recorder& reader, const std::optional<error>& failure) {
        return reader.commit(failure);
      });
}

/// Fills `buffer` from a GPU, as a launch that reads the source.
timeline_point fill_from_gpu(const copy_end& source, std::size_t bytes,
                             const std::shared_ptr<std::byte>& buffer) {
  auto& source_timeline = *timeline::of(source.stream);
  const auto transfer = download_through_ring(source.stream, buffer, bytes);
  return read_source(
      source, [&] { transfer->enqueue(source.address); },
      [&](launch_recorder& reader, const std::optional<error>& failure) {
        return commit_keeping(reader, source_timeline, failure, transfer);
      });
}

/// Waits until the results up to `ticket` can be used on the calling thread, which runs a stream of
/// `waiting_device`.
/// @throws error `upstream_failed` if the ticket failed, or if either device is lost
void require_success(timeline& stream, std::uint64_t ticket, const device& waiting_device) {
  std::optional<error> failure;
  try {
    stream.wait_until(ticket, &waiting_device);
    failure = stream.failure_of(ticket);
  } catch (const error& lost) {
    failure = lost;
  }
  if (failure) {
    throw error(
        errc::upstream_failed,
        std::string("the launch that wrote the source of a copy failed: ") + failure->what(),
        failure->status(), failure->where());
  }
}

timeline_point copy_to_host(const copy_end& target, const copy_end& source, std::size_t bytes) {
  auto& source_timeline = *timeline::of(source.stream);
  auto upstream = std::make_unique<cross_runtime_dependency>(
      source_timeline.core().shared_from_this(), source_timeline);
  const auto buffer = allocate_between(bytes);
  const auto fill_point = on_host(*upstream->core) ? fill_from_host(source, bytes, buffer)
                                                   : fill_from_gpu(source, bytes, buffer);
  upstream->ticket = fill_point.ticket;

  auto writer = launch_recorder::strict(target.stream);
  writer.use(target.block, access_kind::write, target.whole);
  writer.preflight();
  std::optional<error> failure;
  try {
    submit_host_task(
        target.stream, [upstream = std::move(upstream), &waiting_device = target.stream.device(),
                        buffer, bytes, address = target.address] {
          {
            const current_device_scope scope(upstream->core->device());  // allows other captures
            require_success(*upstream->stream, upstream->ticket, waiting_device);
            upstream->outcome.reset();  // the task object outlives its run
          }
          if (bytes != 0) std::memcpy(address, buffer.get(), bytes);
        });
  } catch (...) {
    failure = current_error();
  }
  const auto copy_point = writer.commit(failure);
  if (failure) throw *failure;
  return copy_point;
}

timeline_point copy_from_host(const copy_end& target, const copy_end& source, std::size_t bytes) {
  auto& source_timeline = *timeline::of(source.stream);
  auto& target_timeline = *timeline::of(target.stream);
  const auto buffer = allocate_between(bytes);
  const auto word = std::make_shared<std::atomic<std::uint32_t>>(0);
  const auto transfer = upload_when_ready(target.stream, buffer, bytes, word);
  auto upstream = std::make_unique<cross_runtime_dependency>(
      source_timeline.core().shared_from_this(), source_timeline);
  upstream->ticket = fill_from_host(source, bytes, buffer).ticket;
  set_on_host(source_timeline, word);

  auto writer = launch_recorder::strict(target.stream);
  writer.use(target.block, access_kind::write, target.whole);
  writer.preflight();
  launch_dependencies::add(writer, std::move(upstream));
  std::optional<error> failure;
  try {
    transfer->enqueue(target.address);
  } catch (...) {
    failure = current_error();
  }
  const auto copy_point = commit_keeping(writer, target_timeline, failure, transfer);
  if (failure) throw *failure;
  return copy_point;
}

}  // namespace

timeline_point enqueue_copy(const copy_end& target, const copy_end& source, std::size_t bytes) {
  require_block(target, "target");
  require_block(source, "source");
  require_stream(target, "stream", "target");
  const auto& source_core = *block_record::of(source.block)->core;
  const auto& target_core = *block_record::of(target.block)->core;
  if (&source_core == &target_core) return copy_within(target, source, bytes);
  require_stream(source, "source_stream", "source");
  // Drops the dependencies of earlier copies, each of which keeps another runtime alive.
  timeline::of(target.stream)->core().releases().drain();
  if (on_host(target_core)) return copy_to_host(target, source, bytes);
  if (on_host(source_core)) return copy_from_host(target, source, bytes);
  return copy_between_gpus(target, source, bytes);
}

}  // namespace sluice::detail
