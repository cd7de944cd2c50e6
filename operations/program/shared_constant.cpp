// SPDX-License-Identifier: Apache-2.0
#include "operations/program/shared_constant.hpp"

#include "operations/parts_of_launch.hpp"
#include "operations/program/planner_launch.hpp"
#include "operations/transfer/fixed_elements.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_transfer.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace sluice::operations {
namespace {

using constant_ref = std::shared_ptr<const shared_constant>;
using copy_ref = std::shared_ptr<const device_constant>;

/// The constants that programs of the process share now, by their memory.
struct known_constants {
  using key = std::pair<const void*, std::size_t>;
  [[nodiscard]] static key key_of(const host_tensor& elements) {
    return {elements.data().get(), elements.bytes()};
  }
  /// Forgets those that have ended, once they may be half of all.
  void sweep() {
    constexpr std::size_t most_unswept = 256;
    if (constants.size() < 2 * swept_size + most_unswept) return;
    std::erase_if(constants, [](const auto& entry) { return entry.second.expired(); });
    swept_size = constants.size();
  }
  const std::uint32_t depth = detail::fork_depth();
  std::mutex mutex;
  std::map<key, std::weak_ptr<const shared_constant>> constants;
  std::size_t swept_size = 0;  // after the last sweep
};
known_constants& all_constants() {
  // Never destroyed, because programs in static objects may outlive every other object. A child of
  // `fork` shares nothing with programs of the parent, whose threads may have held locks.
  static constinit std::atomic<known_constants*> current{nullptr};
  auto* instance = current.load(std::memory_order_acquire);
  while (instance == nullptr || instance->depth != detail::fork_depth()) {
    auto candidate = std::make_unique<known_constants>();
    if (current.compare_exchange_strong(instance, candidate.get(), std::memory_order_acq_rel)) {
      instance = candidate.release();
    }
  }
  return *instance;
}

/// The constants that one thread makes on a device.
class claimed_constants {
 public:
  explicit claimed_constants(std::uint32_t runtime) noexcept : runtime_(runtime) {}
  claimed_constants(const claimed_constants&) = delete;
  claimed_constants& operator=(const claimed_constants&) = delete;
  ~claimed_constants() {
    for (const auto& [constant, copy] : all_) constant->abandon(runtime_);
  }

  /// Reserves room for `count` constants, so that no claim is lost.
  void reserve(std::size_t count) { all_.reserve(count); }
  void add(const shared_constant& constant, copy_ref& copy) { all_.emplace_back(&constant, &copy); }
  [[nodiscard]] bool empty() const noexcept { return all_.empty(); }
  /// Uploads them to blocks of their own, as far as they cannot be used where they are.
  void upload(lane_libraries& libraries);

 private:
  struct upload_launch {
    std::vector<std::shared_ptr<host_transfer>> transfers{};
  };
  void use_in_place(const lane_libraries& libraries);

  const std::uint32_t runtime_;
  std::vector<std::pair<const shared_constant*, copy_ref*>> all_;
};

/// Whether a host device computes with the elements where they are.
bool are_used_in_place(const lane_libraries& libraries, const host_tensor& elements) {
  return libraries.runtime().device().id().kind == device_kind::host &&
         detail::fixed_elements::are_fixed(elements);
}

void claimed_constants::use_in_place(const lane_libraries& libraries) {
  for (std::size_t i = 0; i < all_.size();) {
    const auto [constant, copy] = all_[i];
    if (!are_used_in_place(libraries, constant->elements())) {
      ++i;
      continue;
    }
    *copy = std::make_shared<const device_constant>(constant->elements());
    constant->publish(runtime_, *copy);
    all_[i] = all_.back();
    all_.pop_back();
  }
}

void claimed_constants::upload(lane_libraries& libraries) {
  use_in_place(libraries);
  if (all_.empty()) return;
  // Of one launch. The driver blocks at about a thousand, and holds its lock meanwhile.
  constexpr std::size_t max_commands = 256;
  auto& planner = planner_libraries(libraries);
  // In this order, later transfers find room in the pinned memory of the earlier ones.
  std::sort(all_.begin(), all_.end(), [](const auto& a, const auto& b) {
    return a.first->elements().bytes() > b.first->elements().bytes();
  });
  std::vector<std::size_t> sizes;
  for (const auto& [constant, copy] : all_) sizes.push_back(constant->elements().bytes());
  const auto blocks = planner_blocks(libraries, sizes, "constants of a program");
  for (std::size_t first = 0; first < all_.size();) {
    const auto work = std::make_shared<upload_launch>();
    std::size_t commands = 0;
    auto end = first;
    for (; end < all_.size(); ++end) {
      if (end != first && commands + host_transfer::max_commands(sizes[end]) > max_commands) break;
      const auto& elements = all_[end].first->elements();
      try {
        work->transfers.push_back(
            host_transfer::upload(planner.stream(), elements.data(), elements.bytes()));
      } catch (const error&) {
        // The transfers of this launch may have taken all pinned memory. They give it back.
        if (end == first) throw;
        break;
      }
      commands += work->transfers.back()->commands();
    }
    const auto targets = std::span(blocks).subspan(first, end - first);
    write_blocks(libraries, targets, work, [&] {
      parts_of_launch parts;
      for (std::size_t i = 0; i < targets.size(); ++i) {
        parts.enqueue([&] { work->transfers[i]->enqueue(targets[i].address()); });
      }
    });
    work->transfers.clear();  // the reclaim thread destroys the work later
    first = end;
  }
  std::vector<copy_ref> copies;
  copies.reserve(blocks.size());
  for (const auto& block : blocks) copies.push_back(std::make_shared<const device_constant>(block));
  for (std::size_t i = 0; i < all_.size(); ++i) {
    all_[i].first->publish(runtime_, copies[i]);
    *all_[i].second = std::move(copies[i]);
  }
  all_.clear();
}

}  // namespace

std::shared_ptr<const shared_constant> shared_constant::of(const host_tensor& elements) {
  // Plans, batches and captures may keep the graph of a program after its owner has dropped it and
  // has written the elements. The next program reads them again.
  if (!detail::fixed_elements::are_fixed(elements)) {
    return std::make_shared<const shared_constant>(elements);
  }
  auto& known = all_constants();
  const std::lock_guard lock(known.mutex);
  known.sweep();
  auto& entry = known.constants[known_constants::key_of(elements)];
  // One that lives owns its memory, so the address is that of the same elements.
  if (auto existing = entry.lock()) return existing;
  auto result = std::make_shared<const shared_constant>(elements);
  entry = result;
  return result;
}

shared_constant::claim_result shared_constant::claim(std::uint32_t runtime, copy_ref& copy) const {
  const std::lock_guard lock(mutex_);
  std::erase_if(devices_, [](const auto& entry) {
    return !entry.second.is_claimed && entry.second.copy.expired();
  });
  auto& entry = devices_[runtime];
  if (entry.is_claimed) return claim_result::awaited;
  copy = entry.copy.lock();
  if (copy) return claim_result::exists;
  entry.is_claimed = true;
  return claim_result::claimed;
}

void shared_constant::publish(std::uint32_t runtime, const copy_ref& copy) const noexcept {
  const std::lock_guard lock(mutex_);
  auto& entry = devices_.find(runtime)->second;  // a claim keeps it
  entry = {copy, false};
  ended_.notify_all();
}

void shared_constant::await_unclaimed(std::uint32_t runtime) const {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [&] {
    const auto place = devices_.find(runtime);
    return place == devices_.end() || !place->second.is_claimed;
  });
}

std::vector<copy_ref> upload_shared_constants(lane_libraries& libraries,
                                              std::span<const constant_ref> constants) {
  const auto runtime = detail::runtime_core::of(libraries.runtime())->serial();
  std::vector<copy_ref> copies(constants.size());
  for (;;) {
    claimed_constants claimed(runtime);
    claimed.reserve(constants.size());
    const shared_constant* awaited = nullptr;
    for (std::size_t i = 0; i < constants.size(); ++i) {
      if (copies[i]) continue;
      switch (constants[i]->claim(runtime, copies[i])) {
        case shared_constant::claim_result::exists:
          break;
        case shared_constant::claim_result::claimed:
          claimed.add(*constants[i], copies[i]);
          break;
        case shared_constant::claim_result::awaited:
          awaited = constants[i].get();
          break;
      }
    }
    // A thread waits for others only while it has no claim, so no two threads wait for each other.
    if (!claimed.empty()) {
      claimed.upload(libraries);
    } else if (awaited != nullptr) {
      awaited->await_unclaimed(runtime);
    } else {
      return copies;
    }
  }
}

}  // namespace sluice::operations
