#pragma once

#include "runtime/memory/tag_totals.hpp"

#include <sluice/runtime/memory_budget.hpp>

#include <atomic>
#include <memory>

namespace sluice::detail {

/// The share of one resource in a budget.
class budget_account {
 public:
  /// `holder` keeps memory under the resource, and lives as long as the account.
  budget_account(std::shared_ptr<memory_budget> budget, memory_resource& holder) noexcept
      : budget_(std::move(budget)), holder_(holder) {}
  budget_account(const budget_account&) = delete;
  budget_account& operator=(const budget_account&) = delete;
  /// What is still held is lost with its device.
  ~budget_account() {
    if (open_) budget_->detach(*this);
    budget_->discharge(held());
  }
  /// From now on the holder, which is ready for use, may be asked for room. @throws std::bad_alloc
  void open() {
    budget_->attach(*this);
    open_ = true;
  }
  /// From now on nobody asks the holder for room.
  void close() noexcept {
    if (open_) budget_->close(*this);
  }
  /// Under the budget's lock.
  [[nodiscard]] bool closed() const noexcept { return closed_; }

  [[nodiscard]] const std::shared_ptr<memory_budget>& budget() const noexcept { return budget_; }
  [[nodiscard]] memory_resource& holder() const noexcept { return holder_; }
  [[nodiscard]] std::size_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] tag_totals& tags() noexcept { return tags_; }
  [[nodiscard]] const tag_totals& tags() const noexcept { return tags_; }

  /// @throws error `over_budget`
  void charge(std::size_t bytes, const allocation_request& request);
  void discharge(std::size_t bytes, memory_reservation* back_to) noexcept;
  void note_peak() noexcept { budget_->note_peak(); }
  [[nodiscard]] std::size_t make_room() noexcept { return budget_->make_room(); }

 private:
  friend class sluice::memory_budget;

  std::shared_ptr<memory_budget> budget_;
  memory_resource& holder_;
  bool open_ = false;    // by the runtime's making and ending only
  bool closed_ = false;  // under the budget's lock
  std::atomic<std::size_t> held_{0};
  tag_totals tags_;
};

/// Why `bytes` more for `what` do not fit. @throws std::bad_alloc
[[nodiscard]] error over_budget(const memory_budget& budget, std::size_t bytes,
                                std::string_view what);

}  // namespace sluice::detail
