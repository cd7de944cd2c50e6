// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/gpu_ref.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <cstddef>
#include <string>

namespace sluice {

namespace detail {
struct copy_end {
  const block_ref& block;
  void* address;
  stream_ref stream;
  bool whole;  // every byte of the block
};
timeline_point enqueue_copy(const copy_end& target, const copy_end& source, std::size_t bytes);
}  // namespace detail

/// Queues a copy of all elements of `source` into `target`, which has as many and shares none with
/// it, in the order of `on`, a stream of the target's runtime: after every earlier use of either
/// that conflicts, and before every later one. Does not block but for other threads' launches
/// between preflight and commit. Returns the copy's point on `on`.
///
/// The references may belong to different runtimes, on one device or on several; then `source_on`
/// is a stream of the source's runtime, whose later work comes after the reading. Between GPUs
/// memory of the driver's pool, as in the default stack, is copied directly where the hardware can,
/// that of `direct` and of others through the host. From and to a host device it goes through
/// memory of the process, on the GPU's side as a `host_transfer`, and a thread of the host device's
/// stream waits for the GPU. If the launch that wrote
/// `source` has failed, or fails before the copy runs, the copy fails with `upstream_failed`, and
/// so does what depends on it; then the contents of `target` are undefined.
///
/// Both references may be dropped at once: the memory is freed behind the copy. Between runtimes it
/// also drops what completed launches of the target's runtime held, as
/// `device_runtime::reap_pending` does. @throws error
/// `invalid_argument` (other sizes, shared elements, no reference), `stream_misuse` (a stream that
/// is missing or of the wrong runtime; this thread holds a conflicting lease), `stale_ref`,
/// `upstream_failed`, `out_of_memory`, `over_budget` (of pinned memory), `unsupported` (a GPU
/// without stream memory operations), `shutting_down`, `device_lost`
template <element T>
timeline_point enqueue_copy(const gpu_ref<T>& target, stream_ref on, const gpu_ref<T>& source,
                            stream_ref source_on = {}) {
  if (target.size() != source.size()) {
    throw error(errc::invalid_argument,
                "enqueue_copy: target has " + std::to_string(target.size()) +
                    " elements, and source has " + std::to_string(source.size()));
  }
  return detail::enqueue_copy(
      {target.block(), target.data(), on, target.bytes() == target.block().bytes()},
      {source.block(), source.data(), source_on, source.bytes() == source.block().bytes()},
      source.bytes());
}

}  // namespace sluice
