// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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
  bool whole;  // covers every byte of the block
};
SLUICE_EXPORT timeline_point enqueue_copy(const copy_end& target, const copy_end& source,
                                          std::size_t bytes);
}  // namespace detail

/// Enqueues a copy of all elements of `source` into `target`, ordered on `stream`.
///
///     const auto point = enqueue_copy(y, stream, x);                   // within one runtime
///     const auto other = enqueue_copy(z, stream, x, stream_of_source); // between two runtimes
///
/// `target` has as many elements as `source` and shares none with it. `stream` is a stream of the
/// target's runtime. The copy is ordered after every earlier use of either block that conflicts
/// with it, and before every later one. The call does not wait for the device. It may wait for
/// launches of other threads that are between preflight and commit. Any thread may call it. It
/// returns the copy's point on `stream`.
///
/// The references may belong to different runtimes, on one device or on two. `source_stream` is
/// then a stream of the source's runtime, and later work on it is ordered after the read. The route
/// depends on the devices:
/// - Between GPUs, memory of the driver's pool is copied directly if the hardware can. The default
///   stack uses this pool. Memory of `direct` and of other resources is copied through the host.
/// - From and to a host device the bytes pass through host memory. On the GPU's side this
///   is a `host_transfer`. In a copy to a host device, the thread of the target stream waits for
///   the source.
///
/// If the launch that wrote `source` fails before the copy runs, the copy fails with
/// `upstream_failed`. So does all work that depends on the copy. The contents of `target` are then
/// undefined.
///
/// Both references may be dropped at once: the memory is freed after the copy. A copy between
/// runtimes also drains the release list of the target's runtime on the calling thread.
///
/// docs/concepts/launch_recorder.md has the protocol of copies between runtimes.
/// @throws error `invalid_argument` if the sizes differ, elements are shared, or a reference is
///   empty
/// @throws error `stream_misuse` if a stream is missing or belongs to the wrong runtime
/// @throws error `stream_misuse` if this thread holds a conflicting lease
/// @throws error `stale_ref` if a block has been freed
/// @throws error `upstream_failed` if the launch that wrote `source` has failed
/// @throws error `out_of_memory` if the device or the host has no memory for the copy
/// @throws error `over_budget` if pinned memory would exceed its limit
/// @throws error `unsupported` if a GPU has no stream memory operations, which the host route needs
/// @throws error `library_failure` if a driver call failed
/// @throws error `shutting_down` if a runtime is shutting down
/// @throws error `device_lost` if a device is lost
template <element T>
timeline_point enqueue_copy(const gpu_ref<T>& target, stream_ref stream, const gpu_ref<T>& source,
                            stream_ref source_stream = {}) {
  if (target.size() != source.size()) {
    throw error(errc::invalid_argument,
                "enqueue_copy: target has " + std::to_string(target.size()) +
                    " elements, but source has " + std::to_string(source.size()));
  }
  return detail::enqueue_copy(
      {target.block(), target.data(), stream, target.bytes() == target.block().bytes()},
      {source.block(), source.data(), source_stream, source.bytes() == source.block().bytes()},
      source.bytes());
}

}  // namespace sluice
