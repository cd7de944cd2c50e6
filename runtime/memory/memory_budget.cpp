// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/open_devices.hpp"
#include "runtime/memory/budget_account.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <algorithm>
#include <map>
#include <sstream>

namespace sluice {

memory_budget::memory_budget(std::size_t limit) noexcept
    : fork_depth_(detail::fork_depth()), limit_(limit) {}

void memory_budget::require_own_process() const {
  if (fork_depth_ == detail::fork_depth()) return;
  throw error(errc::device_lost,
              "the memory budget belongs to the parent process; after fork() a child must make its "
              "own budgets");
}

std::shared_ptr<memory_budget> memory_budget::of(device_id device) {
  struct registry {
    const std::uint32_t depth = detail::fork_depth();
    std::mutex mutex;
    std::map<device_id, std::shared_ptr<memory_budget>> budgets;
  };
  // Never destroyed, because runtimes in static objects may outlive every other object. A child of
  // `fork` begins a new registry: the memory belongs to the parent, and a thread of the parent may
  // have held the lock.
  static constinit std::atomic<registry*> current{nullptr};
  auto* instance = current.load(std::memory_order_acquire);
  while (instance == nullptr || instance->depth != detail::fork_depth()) {
    auto candidate = std::make_unique<registry>();
    if (current.compare_exchange_strong(instance, candidate.get(), std::memory_order_acq_rel)) {
      instance = candidate.release();
    }
  }
  const std::lock_guard lock(instance->mutex);
  auto& budget = instance->budgets[device];
  if (!budget) budget = std::make_shared<memory_budget>();
  return budget;
}

memory_budget_snapshot memory_budget::snapshot() const {
  require_own_process();
  memory_budget_snapshot s;
  s.limit = limit();
  const std::lock_guard lock(accounts_mutex_);
  for (const auto& account : accounts_) {
    s.held += account->held();
    account->tags().collect(s.tags);
  }
  const auto charged = charged_.load(std::memory_order_relaxed);
  s.reserved = charged - std::min(charged, s.held);
  s.peak = peak_.load(std::memory_order_relaxed);
  std::size_t live = 0;
  for (const auto& tag : s.tags) live += tag.bytes;
  s.kept = s.held - std::min(s.held, live);
  std::sort(s.tags.begin(), s.tags.end(),
            [](const tagged_memory& a, const tagged_memory& b) { return a.bytes > b.bytes; });
  return s;
}

bool memory_budget::try_charge(std::size_t bytes) noexcept {
  if (bytes == 0) return true;
  auto charged = charged_.load(std::memory_order_relaxed);
  do {
    const auto maximum = limit();
    if (charged > maximum || bytes > maximum - charged) return false;
  } while (!charged_.compare_exchange_weak(charged, charged + bytes, std::memory_order_acquire,
                                           std::memory_order_relaxed));
  return true;
}

void memory_budget::note_peak() noexcept {
  const auto charged = charged_.load(std::memory_order_relaxed);
  auto peak = peak_.load(std::memory_order_relaxed);
  while (peak < charged && !peak_.compare_exchange_weak(peak, charged, std::memory_order_relaxed)) {
  }
}

void memory_budget::attach(std::shared_ptr<detail::budget_account> account) {
  require_own_process();
  const std::lock_guard lock(accounts_mutex_);
  accounts_.push_back(std::move(account));
}

void memory_budget::detach(const detail::budget_account& account) noexcept {
  const std::lock_guard lock(accounts_mutex_);
  std::erase_if(accounts_, [&](const auto& candidate) { return candidate.get() == &account; });
}

memory_budget::account_list memory_budget::accounts() const {
  const std::lock_guard lock(accounts_mutex_);
  return accounts_;
}

void memory_budget::drop_owners() noexcept {
  try {
    // Without a lock: destructors of owners may end runtimes, which wait for threads that ask them
    // for room.
    for (const auto& account : accounts()) {
      if (account->owners_) account->owners_->drain();
    }
  } catch (const std::bad_alloc&) {
    // The owners are released when their own runtimes drain.
  }
}

std::size_t memory_budget::make_room() noexcept {
  std::size_t freed_bytes = 0;
  try {
    // Without a lock, because making room may take long and other threads read the budget.
    for (const auto& account : accounts()) freed_bytes += account->give_room();
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return freed_bytes;
}

std::size_t memory_budget::max_obtainable() const noexcept {
  std::size_t held_bytes = 0;
  std::size_t live = 0;
  {
    const std::lock_guard lock(accounts_mutex_);
    for (const auto& account : accounts_) {
      held_bytes += account->held();
      live += account->tags().bytes();
    }
  }
  const auto charged = charged_.load(std::memory_order_relaxed);
  const auto pooled = held_bytes - std::min(held_bytes, live);
  const auto unavailable = charged - std::min(charged, pooled);
  const auto maximum = limit();
  return maximum - std::min(maximum, unavailable);
}

memory_reservation::memory_reservation(std::shared_ptr<memory_budget> budget, std::size_t bytes)
    : budget_(std::move(budget)) {
  budget_->require_own_process();
  if (!budget_->try_charge(bytes)) throw detail::over_budget(*budget_, bytes, "a reservation");
  budget_->note_peak();
  bytes_.store(bytes, std::memory_order_relaxed);
}

void memory_reservation::release() noexcept {
  if (const auto bytes = bytes_.exchange(0, std::memory_order_relaxed)) budget_->discharge(bytes);
}

bool memory_reservation::take(std::size_t bytes) noexcept {
  auto available = bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > available) return false;
  } while (!bytes_.compare_exchange_weak(available, available - bytes, std::memory_order_relaxed));
  return true;
}

namespace detail {

void budget_account::charge(std::size_t bytes, const allocation_request& request) {
  const bool reserved = request.reservation != nullptr &&
                        request.reservation->budget() == budget_.get() &&
                        request.reservation->take(bytes);
  if (!reserved && !budget_->try_charge(bytes)) {
    throw over_budget(*budget_, bytes, "'" + std::string(request.tag.name()) + "'");
  }
  held_bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

void budget_account::discharge(std::size_t bytes, memory_reservation* reservation) noexcept {
  held_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  if (reservation != nullptr && reservation->budget() == budget_.get()) {
    reservation->give(bytes);
  } else {
    budget_->discharge(bytes);
  }
}

error over_budget(const memory_budget& budget, std::size_t bytes, std::string_view purpose) {
  const auto state = budget.snapshot();
  std::ostringstream text;
  text << bytes << " bytes for " << purpose << " would exceed the memory budget of " << state.limit
       << " bytes: " << state.held << " are held, of which " << state.kept
       << " have been freed and await release, and " << state.reserved << " are reserved";
  for (const auto& tag : state.tags) text << "; '" << tag.tag << "' has " << tag.bytes;
  return {errc::over_budget, text.str()};
}

}  // namespace detail
}  // namespace sluice
