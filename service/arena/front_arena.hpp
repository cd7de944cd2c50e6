// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/arena_layout.hpp"
#include "service/arena/message_ring.hpp"
#include "service/arena/region_allocator.hpp"
#include "service/arena/shared_memory.hpp"
#include "service/arena/wake_signal.hpp"
#include "service/base/file_descriptor.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace sluice::service {

/// The part of a front's channel that outlives it while requests and replies use the memory.
struct front_arena {
  explicit front_arena(const arena_layout& arena)
      : layout(arena),
        memory(std::make_shared<shared_memory>(shared_memory::create(arena.bytes()))) {
    layout.write(memory->bytes());
  }

  /// Returns the memory of a reply to the worker. Thread-safe.
  void release_reply(std::uint64_t offset) noexcept;
  /// Has the next call of `receive` report a fault.
  void report_fault() noexcept;

  const arena_layout layout;
  const std::shared_ptr<shared_memory> memory;
  const file_descriptor worker_wake = make_wake_descriptor();
  const file_descriptor front_wake = make_wake_descriptor();
  region_allocator request_memory{layout.requests().begin, layout.requests().bytes};
  std::atomic<bool> is_faulty = false;

  std::mutex release_mutex{};  ///< for `releases`
  ring_producer releases{layout.release_ring(memory->bytes())};
  wake_signal release_wanted{arena_layout::release_wanted(memory->bytes()), worker_wake.get()};
};

}  // namespace sluice::service
