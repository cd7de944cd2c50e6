// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/memory/tag_totals.hpp"
#include "runtime/sync/release_list.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <atomic>
#include <memory>
#include <mutex>

namespace sluice::detail {

/// The share of one resource in a budget. A thread that asks it for room holds a share of it.
class budget_account : public std::enable_shared_from_this<budget_account> {
 public:
  /// `holder` keeps memory under the resource, and must live until `close`. Items of `owners` may
  /// hold blocks of it; null: none.
  budget_account(std::shared_ptr<memory_budget> budget, memory_resource& holder,
                 std::shared_ptr<release_list> owners) noexcept
      : budget_(std::move(budget)), holder_(holder), owners_(std::move(owners)) {}
  budget_account(const budget_account&) = delete;
  budget_account& operator=(const budget_account&) = delete;
  ~budget_account() = default;
  /// Attaches the account: the holder, which is ready for use, may be asked for room.
  /// @throws std::bad_alloc
  /// @throws error `device_lost` if the budget belongs to the parent process
  void open() {
    budget_->attach(shared_from_this());
    open_ = true;
  }
  /// Ends requests for room to the holder. Waits for a request in progress.
  void close() noexcept {
    const std::lock_guard lock(request_mutex_);
    closed_ = true;
  }
  /// Detaches the account after the holder has been destroyed. Memory still held has been lost with
  /// its device, and is discharged.
  void end() noexcept {
    if (open_) budget_->detach(*this);
    budget_->discharge(held());
  }
  /// Asks the holder to return unused memory. Returns its bytes.
  [[nodiscard]] std::size_t give_room() noexcept {
    const std::lock_guard lock(request_mutex_);
    return closed_ ? 0 : holder_.release_unused();
  }

  [[nodiscard]] const std::shared_ptr<memory_budget>& budget() const noexcept { return budget_; }
  [[nodiscard]] std::size_t held() const noexcept {
    return held_bytes_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] tag_totals& tags() noexcept { return tags_; }
  [[nodiscard]] const tag_totals& tags() const noexcept { return tags_; }

  /// Charges `bytes` bytes.
  /// @throws error `over_budget`
  void charge(std::size_t bytes, const allocation_request& request);
  void discharge(std::size_t bytes, memory_reservation* reservation) noexcept;
  void note_peak() noexcept { budget_->note_peak(); }
  [[nodiscard]] std::size_t make_room() noexcept { return budget_->make_room(); }
  void drop_owners() noexcept { budget_->drop_owners(); }
  [[nodiscard]] std::size_t max_obtainable() const noexcept { return budget_->max_obtainable(); }

 private:
  friend class sluice::memory_budget;

  std::shared_ptr<memory_budget> budget_;
  memory_resource& holder_;
  const std::shared_ptr<release_list> owners_;
  bool open_ = false;         // used only by the creation and the end of the runtime
  std::mutex request_mutex_;  // held while the holder is asked for room
  bool closed_ = false;
  std::atomic<std::size_t> held_bytes_{0};
  tag_totals tags_;
};

/// The error of a request of `purpose` for `bytes` bytes that do not fit.
/// @throws std::bad_alloc
[[nodiscard]] error over_budget(const memory_budget& budget, std::size_t bytes,
                                std::string_view purpose);

}  // namespace sluice::detail
