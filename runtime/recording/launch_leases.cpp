// SPDX-License-Identifier: Apache-2.0
#include "runtime/recording/launch_leases.hpp"

#include "runtime/sync/turnstile.hpp"

#include <chrono>

namespace sluice::detail {
namespace {

/// Registers a waiting writer at the block that it waits for, which keeps new readers out.
class registered_writer {
 public:
  registered_writer() noexcept = default;
  registered_writer(const registered_writer&) = delete;
  registered_writer& operator=(const registered_writer&) = delete;
  ~registered_writer() { set(nullptr); }
  void set(block_record* record) noexcept {
    if (record == record_) return;
    if (record_ != nullptr) record_->lease.withdraw_writer();
    record_ = record != nullptr && record->lease.register_writer() ? record : nullptr;
  }

 private:
  block_record* record_ = nullptr;
};

}  // namespace

inline lease_answer launch_leases::try_lease(const recorded_use& u, lease_request request) const {
  at(launch_step::leasing);
  return u.access == access_kind::read ? u.record->lease.try_shared(request)
                                       : u.record->lease.try_exclusive(request);
}

bool launch_leases::take(bool waits) {
  holder_ = &lease_holder::of_this_thread();
  if (holder_->in_turnstile()) {
    take_in_turn();
  } else if (!waits) {
    if (try_all(lease_request::yielding) != nullptr) return false;
  } else if (!take_together()) {
    at(launch_step::starved);
    const turnstile_passage passage(*holder_);
    take_in_turn();
  }
  holder_->add(static_cast<std::uint32_t>(uses_->size()));
  return true;
}

void launch_leases::give_all() noexcept {
  give_first(uses_->size());
  all_given();
}

void launch_leases::give_first(std::size_t count) noexcept {
  while (count != 0) {
    const auto& u = (*uses_)[--count];
    u.record->lease.lock();
    unlock_and_give(u);
  }
}

/// Takes all leases or none, in address order of the records. Returns the use in conflict, or
/// nullptr.
const recorded_use* launch_leases::try_all(lease_request request) {
  for (std::size_t index = 0; index < uses_->size(); ++index) {
    const auto& u = (*uses_)[index];
    const auto answer = try_lease(u, request);
    if (answer == lease_answer::granted) continue;
    give_first(index);
    if (answer == lease_answer::dying) throw stale_block{u};
    return &u;
  }
  return nullptr;
}

/// Attempts to take all leases at once, and holds none while it waits. False after too many
/// attempts.
bool launch_leases::take_together() {
  registered_writer registration;
  // A thread that holds a lease must not wait, so waiting threads must not stop it.
  const bool holds_others = holder_->holds_any();
  const auto request = holds_others ? lease_request::barging : lease_request::yielding;
  for (int attempt = 0; attempt < attempts_before_turnstile; ++attempt) {
    const auto* const blocked = try_all(request);
    if (blocked == nullptr) return true;
    if (holds_others) refuse_to_wait();
    registration.set(blocked->access == access_kind::read ? nullptr : blocked->record);
    wait_for(*blocked, request);
  }
  return false;
}

/// Takes the leases one by one as the owner of the turnstile, and holds them while it waits.
void launch_leases::take_in_turn() {
  for (std::size_t index = 0; index < uses_->size(); ++index) {
    const auto& u = (*uses_)[index];
    auto answer = try_lease(u, lease_request::barging);
    if (answer == lease_answer::conflict) {
      u.record->lease.reserve();
      do {
        wait_for(u, lease_request::barging);
        answer = try_lease(u, lease_request::barging);
      } while (answer == lease_answer::conflict);
      u.record->lease.end_reservation();
    }
    if (answer == lease_answer::dying) {
      give_first(index);
      throw stale_block{u};
    }
  }
}

void launch_leases::wait_for(const recorded_use& u, lease_request request) const {
  core_->count_lease_wait();
  const auto start = std::chrono::steady_clock::now();
  at(launch_step::blocked);
  if (u.access == access_kind::read) {
    u.record->lease.wait_shared(request);
  } else {
    u.record->lease.wait_exclusive(request);
  }
  core_->note_lease_wait(std::chrono::steady_clock::now() - start);
}

}  // namespace sluice::detail
