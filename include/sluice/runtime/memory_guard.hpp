// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sluice {

/// The kind of a finding.
enum class guard_finding : std::uint8_t {
  overrun,           ///< written after its end
  underrun,          ///< written before its beginning
  write_after_free,  ///< written after the block was freed and its last recorded use had completed
  double_free,       ///< freed twice
  stale_use,         ///< used after it was freed
};

/// One finding of a guard, with the known facts of the block.
struct guard_report {
  guard_finding finding = guard_finding::overrun;  ///< kind of the finding
  /// The block. It has no address and the tag "unknown" if too many blocks have been freed since.
  allocation block{};
  /// The offset of the first damaged byte from the beginning of the block, in bytes. Negative
  /// before the block. 0 for `double_free` and `stale_use`.
  std::ptrdiff_t offset = 0;
  std::size_t damaged = 0;  ///< damaged bytes among those that the guard compared
  /// For `double_free` and `stale_use`: the live block that now has this address.
  std::optional<allocation> now_there{};
};

/// Formats a finding as one line: "memory 'weights' (4096 bytes at 0x…, generation 7): …".
/// @throws std::bad_alloc if the host has no memory
[[nodiscard]] SLUICE_EXPORT std::string to_string(const guard_report& report);

/// Counters of a guard.
///
/// Each freed block is counted once, at the end of its check, as checked or as unchecked. A block
/// whose free could not be noted is not counted. Each finding is counted once, as reported or as
/// lost, after `on_report` has returned or thrown.
struct guard_counters {
  std::atomic<std::uint64_t> checked{0};  ///< blocks whose red zones were compared
  /// Blocks that the guard could not fill or read, and blocks that were lost with the device.
  std::atomic<std::uint64_t> unchecked{0};
  std::atomic<std::uint64_t> reported{0};  ///< findings that were delivered
  /// Findings for which `on_report` threw or memory was missing.
  std::atomic<std::uint64_t> lost_reports{0};
};

/// Options of a guard.
struct guard_options {
  /// The bytes before and after each block: a multiple of 256, from 256 to 2^30.
  ///
  /// For the comparison the guard holds twice as much staging memory of the host, and at least 1
  /// MiB.
  std::size_t red_zone = 256;
  /// The most bytes in quarantine. Beyond this limit or `quarantine_blocks` the oldest blocks
  /// leave. A block larger than this limit is not quarantined.
  std::size_t quarantine_bytes = std::size_t{64} << 20;
  std::size_t quarantine_blocks = 1024;  ///< the most blocks in quarantine
  /// The number of freed blocks whose tags are remembered.
  std::size_t remembered = 4096;
  /// Receives each finding, one at a time. Empty: a report; see `set_report_handler`.
  ///
  /// Any thread may call it, in the middle of another operation. A refused launch calls it after it
  /// has returned its leases. If the thread holds leases of another launch, the destructor of the
  /// refused recorder calls it. It must not use the runtime, its resources or their budget, and
  /// must not take a lock that a thread may hold while it calls sluice. An exception that leaves it
  /// is dropped and counted. If an export or a recorder outlives its
  /// runtime, findings may come until the process ends. Everything that the function refers to must
  /// live as long.
  std::function<void(const guard_report&)> on_report{};
  std::shared_ptr<guard_counters> counters{};  ///< receives the counts; may be null
};

/// Makes a resource that finds writes outside of blocks and after their free, and reports misuse
/// that the runtime refuses.
///
///     device_runtime runtime{open_device("auto"), {.resource = make_guard_resource(
///         make_pool_resource(make_async_resource()))}};
///
/// It is for debugging. Each allocation costs three fills. Each free costs one or two round trips
/// to the device on the reclaim thread.
///
/// *Allocation.* The guard places a block between two red zones with bytes 0xBD. It sets the bytes
/// of the block to 0xFF, which is not-a-number in every floating-point type. The fills are enqueued
/// on the allocating stream and count as a use of the memory, so they delay no other stream. If
/// upstream grants memory with unfinished uses on other streams, the allocating stream waits for
/// them first.
///
/// *Free.* A free enqueues nothing and does not wait. After all recorded uses have completed, the
/// reclaim thread compares the red zones, fills the whole memory with 0xDF and moves it into
/// quarantine. When it leaves quarantine, the guard compares all of it and returns it to upstream.
///
/// *Limits.* A write of the same byte is not detected. Neither is a write before the last recorded
/// use has completed. In three cases a block is not returned then:
/// - If the host has no memory to note the free, the block stays allocated and is not checked.
/// - If the host has no memory to watch its uses, the block waits for the next trim.
/// - If the device cannot be queried about it, the block stays allocated.
///
/// Each case is reported, the last one only if the device is not lost; see `set_report_handler`.
///
/// *Trim.* A trim and a shortage of memory empty the quarantine on the calling thread. That thread
/// then waits for round trips on the reclaim stream, but for no launch. For this reason no resource
/// below may make the reclaim stream wait for uses. The resources of sluice do not, because the
/// guard returns memory only after its uses have completed. The guard does not query a lost device.
///
/// Place the guard above a pool. Below a pool it guards the pool's blocks and knows no generations.
/// @throws error `invalid_argument` if `upstream` is null
/// @throws error `invalid_argument` if `upstream` does not track uses: the time of the check would
///   be unknown
/// @throws error `invalid_argument` if `red_zone` has another value than stated
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_guard_resource(
    std::unique_ptr<memory_resource> upstream, guard_options options = {});

}  // namespace sluice
