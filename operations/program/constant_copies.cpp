// SPDX-License-Identifier: Apache-2.0
#include "operations/program/constant_copies.hpp"

#include "operations/capture_scope.hpp"
#include "operations/program/device_constant.hpp"
#include "operations/program/planner_launch.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sluice::operations {
namespace {

/// The most memory that a block of `bytes` takes, in bytes.
std::size_t footprint(lane_libraries& libraries, std::size_t bytes) {
  constexpr std::size_t alignment = 256;  // of each block
  const auto& resource = detail::runtime_core::of(libraries.runtime())->resource();
  return std::max(resource.footprint(bytes), alignment);
}

}  // namespace

std::shared_ptr<const constant_copy> constant_copies::find(const constant_copy_key& key) const {
  const std::lock_guard lock(mutex_);
  const auto place = copies_.find(key);
  return place == copies_.end() ? nullptr : place->second.copy.lock();
}

bool constant_copies::has_room(std::size_t bytes, std::size_t limit) const noexcept {
  std::size_t rest = limit;
  for (const auto& [key, other] : copies_) {
    if (!other.copy.expired()) rest -= std::min(rest, other.bytes);
  }
  return bytes <= rest;
}

std::shared_ptr<const constant_copy> constant_copies::keep(
    const constant_copy_key& key, std::shared_ptr<const constant_copy> copy, std::size_t bytes,
    std::size_t limit) {
  const std::lock_guard lock(mutex_);
  std::erase_if(copies_, [](const auto& other) { return other.second.copy.expired(); });
  // The planner of another lane may have made this copy, or others, meanwhile.
  if (const auto place = copies_.find(key); place != copies_.end()) {
    if (auto existing = place->second.copy.lock()) return existing;
  }
  if (!has_room(bytes, limit)) return nullptr;
  copies_[key] = {copy, bytes};
  return copy;
}

std::shared_ptr<const constant_copy> constant_copies::copy(lane_libraries& libraries,
                                                           constant_copy_request request,
                                                           const copied_memory& memory) {
  const auto limit = max_bytes(memory.constants_bytes);
  const auto memory_bytes = footprint(libraries, request.bytes);
  if (auto existing = find(request.key)) return existing;
  if (memory.shared != nullptr) {
    if (auto existing = memory.shared->find_copy(request.key)) {
      return keep(request.key, std::move(existing), memory_bytes, limit);
    }
  }
  if (capture_scope::is_open()) return nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (!has_room(memory_bytes, limit)) return nullptr;
  }
  // The work outlives this call if the device is lost.
  struct copying {
    constant_copy_request request;
    copied_memory memory;
    void* target = nullptr;

    void run(lane_libraries& own_libraries) const {
      const void* const source =
          request.source ? request.source->address() : memory.address + request.key.offset;
      request.write(own_libraries, source, target);
    }
  };
  const auto work = std::make_shared<copying>(copying{std::move(request), memory});
  const auto enqueue = [&](lane_libraries& own_libraries, void* address) {
    work->target = address;
    if (own_libraries.runtime().device().id().kind != device_kind::host) {
      return work->run(own_libraries);
    }
    submit_host_task(own_libraries.stream(), [work, &own_libraries] { work->run(own_libraries); });
  };
  auto block = written_block(libraries,
                             {.bytes = work->request.bytes,
                              .spare_sizes = work->request.spare_sizes,
                              .tag = "copies of constants of a program"},
                             {.owner = work, .prepare = work->request.prepare, .enqueue = enqueue});
  // The reclaim thread destroys the work later.
  work->request.source.reset();
  work->memory.owner.reset();
  auto result = std::make_shared<const constant_copy>(std::move(block));
  if (memory.shared != nullptr) {
    result = memory.shared->add_copy(work->request.key, std::move(result));
  }
  return keep(work->request.key, std::move(result), memory_bytes, limit);
}

}  // namespace sluice::operations
