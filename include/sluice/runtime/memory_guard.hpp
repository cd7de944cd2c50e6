// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace sluice {

/// What a guard has found.
enum class guard_finding : std::uint8_t {
  overrun,           ///< written behind its end
  underrun,          ///< written before its beginning
  write_after_free,  ///< written after the last recorded use of a block that had been freed
  double_free,       ///< given back twice
  stale_use,         ///< used after it had been given back
};

/// One finding, with all that is known of the block.
struct guard_report {
  guard_finding finding = guard_finding::overrun;  ///< what was found
  /// Without an address, and with the tag "unknown", where too many have been freed since.
  allocation block{};
  /// Of the first damaged byte from the block's beginning; negative before it. 0 for the last two
  /// findings.
  std::ptrdiff_t offset = 0;
  std::size_t damaged = 0;  ///< how many bytes are, as far as the guard looks
  /// The live block that lies at the block's address now, for the last two findings.
  std::optional<allocation> now_there{};
};

/// A line that names the tags: "memory 'weights' (4096 bytes at 0x…, generation 7): …".
/// @throws std::bad_alloc
[[nodiscard]] std::string to_string(const guard_report& report);

/// What a guard has done. Every freed block is counted once, at the end, as checked or unchecked;
/// not one whose free could not be noted.
struct guard_counters {
  std::atomic<std::uint64_t> checked{0};  ///< blocks whose red zones were compared
  /// Blocks that the device did not let the guard fill or read, or that were lost with it.
  std::atomic<std::uint64_t> unchecked{0};
  std::atomic<std::uint64_t> reported{0};      ///< after `on_report` has returned
  std::atomic<std::uint64_t> lost_reports{0};  ///< `on_report` threw, or there was no memory
};

/// How much a guard checks and remembers.
struct guard_options {
  /// Bytes before and behind each block: a multiple of 256, from 256 to 2^30. To compare them the
  /// guard keeps twice as much staging memory of the host, and 1 MiB at least.
  std::size_t red_zone = 256;
  /// Freed memory is held back while it is within both of these, the oldest goes first. Larger
  /// blocks are not held back.
  std::size_t quarantine_bytes = std::size_t{64} << 20;
  std::size_t quarantine_blocks = 1024;  ///< blocks held back at most
  /// Of how many freed blocks the tags are remembered.
  std::size_t remembered = 4096;
  /// Gets each finding, one at a time, on any thread, in the middle of what that does: it must not
  /// use the runtime, its resources or their budget. What it throws is dropped and counted. None
  /// means a report (see `set_report_handler`). Where an export or a recorder outlives its runtime,
  /// findings may come until the process ends, so that what it refers to has to live as long.
  std::function<void(const guard_report&)> on_report{};
  std::shared_ptr<guard_counters> counters{};  ///< where to count, if anywhere
};

/// Finds writes outside of blocks and after their free, and names misuse that the runtime refuses.
/// For debugging: each block costs three fills where it is allocated, and where it is freed a round
/// trip to the device or two on the reclaim thread.
///
/// *Allocation.* A block lies between two red zones (bytes 0xBD), and its own bytes are set to
/// 0xFF, not-a-number in every floating-point type. This happens on the stream that asks, so that
/// it delays no other one, and counts as a use of the memory. Where upstream grants memory with
/// unfinished uses on other streams, that stream is made to wait for them first.
///
/// *Free.* Nothing is queued and nobody waits. Once all recorded uses have completed, the reclaim
/// thread compares the red zones, fills everything with 0xDF and keeps it in quarantine. When it
/// leaves that, all of it is compared, and goes back to upstream. What was written over with the
/// same byte is not seen; nor is a write that happened before the last recorded use had completed.
/// Without memory on the host to note a free, the block stays allocated and is not checked; without
/// memory to watch its uses, it waits for the next trim. A block that the device cannot be asked
/// about stays allocated, too. All of this is reported (see `set_report_handler`), the last unless
/// the device is lost.
///
/// Trimming and want of memory empty the quarantine in the calling thread, which waits for the
/// device's answers then, but for no launch: on the reclaim stream, where they are asked for, no
/// resource below may wait for uses, and none here does, because the guard gives memory back
/// only when they have ended. A lost device is not asked any more.
///
/// It belongs above a pool: below one it guards the pool's blocks, not those of users, and knows no
/// generations. `upstream` must support use tracking, since otherwise nobody knows when to check.
/// @throws error `invalid_argument` (no upstream, one that does not track, or `red_zone`)
[[nodiscard]] std::unique_ptr<memory_resource> make_guard_resource(
    std::unique_ptr<memory_resource> upstream, guard_options options = {});

}  // namespace sluice
