// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/budget_account.hpp"
#include "runtime/memory/context_adaptor.hpp"

#include <algorithm>
#include <memory>
#include <optional>

namespace sluice {
namespace {

/// The context of resources under a budget, which also forwards charges to the account.
class charged_context final : public detail::context_adaptor {
 public:
  charged_context(resource_context& context, detail::budget_account& account)
      : context_adaptor(context), account_(account) {}

  bool charged() const noexcept override { return true; }
  void charge(std::size_t bytes, const allocation_request& request) override {
    account_.charge(bytes, request);
    try {
      context_adaptor::charge(bytes, request);  // of a budget above this one
    } catch (...) {
      account_.discharge(bytes, request.reservation);
      throw;
    }
  }
  void cancel_charge(std::size_t bytes, const allocation_request& request) noexcept override {
    account_.discharge(bytes, request.reservation);
    context_adaptor::cancel_charge(bytes, request);
  }
  void discharge(const allocation& memory) noexcept override {
    account_.discharge(memory.bytes, nullptr);
    context_adaptor::discharge(memory);
  }
  void discharge_pooled(std::size_t bytes) noexcept override {
    account_.discharge(bytes, nullptr);
    context_adaptor::discharge_pooled(bytes);
  }

 private:
  detail::budget_account& account_;
};

class budget_resource final : public memory_resource {
 public:
  budget_resource(std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_budget> budget)
      : budget_(std::move(budget)), upstream_(std::move(upstream)) {
    if (!upstream_) {
      throw error(errc::invalid_argument, "make_budget_resource: upstream must not be null");
    }
  }

  ~budget_resource() override {
    close_account();
    upstream_.reset();  // memory that it returns meanwhile is discharged
    if (account_) account_->end();
  }

  void bind(resource_context& context) override {
    if (!budget_) budget_ = memory_budget::of(context.device().id());
    account_ = std::make_shared<detail::budget_account>(budget_, *upstream_, context.owners());
    context_.emplace(context, *account_);
    upstream_->bind(*context_);
    under_another_ = context.charged();
    account_->open();
  }

  granted_memory allocate(const allocation_request& request) override {
    auto granted =
        is_reserved_here(request) ? allocate_reserved(request) : upstream_->allocate(request);
    account_->tags().add(granted.memory.tag, granted.memory.bytes);
    account_->note_peak();
    return granted;
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    account_->tags().subtract(memory.tag, memory.bytes);
    upstream_->deallocate(memory, stream, unfinished);
  }

  bool keeps(std::size_t bytes) const noexcept override { return upstream_->keeps(bytes); }
  memory_reservation reserve(std::size_t bytes) override { return {budget_, bytes}; }
  std::size_t trim() noexcept override { return upstream_->trim(); }
  std::size_t release_unused() noexcept override { return upstream_->release_unused(); }
  std::size_t make_room() noexcept override {
    const auto freed_bytes = account_->make_room();
    return freed_bytes + upstream_->make_room();  // of a budget below this one
  }
  void drop_owners() noexcept override {
    account_->drop_owners();
    upstream_->drop_owners();
  }
  std::size_t max_obtainable() const noexcept override {
    return std::min(account_->max_obtainable(), upstream_->max_obtainable());
  }
  void close() noexcept override {
    close_account();
    upstream_->close();
  }
  std::size_t footprint(std::size_t bytes) const noexcept override {
    return upstream_->footprint(bytes);
  }
  void note_misuse(memory_misuse misuse, const allocation& memory) noexcept override {
    upstream_->note_misuse(misuse, memory);
  }
  bool supports_use_tracking() const noexcept override {
    return upstream_->supports_use_tracking();
  }
  std::string_view name() const noexcept override { return "budget"; }

 private:
  void close_account() noexcept {
    if (account_) account_->close();
  }

  [[nodiscard]] bool is_reserved_here(const allocation_request& request) const {
    if (request.reservation == nullptr) return false;
    if (request.reservation->budget() == budget_.get()) return true;
    if (under_another_) return false;  // it belongs to that one
    throw error(errc::invalid_argument, request.reservation->budget() == nullptr
                                            ? "from: the reservation is empty"
                                            : "from: the reservation belongs to another budget");
  }

  granted_memory allocate_reserved(const allocation_request& request) {
    auto& reservation = *request.reservation;
    const auto limit = upstream_->footprint(request.bytes);
    if (!reservation.take(limit)) {
      throw error(errc::invalid_argument,
                  "from: an allocation of " + std::to_string(request.bytes) + " bytes takes " +
                      std::to_string(limit) + " bytes, but the reservation has " +
                      std::to_string(reservation.left()) + " left");
    }
    // Reserved bytes that a pool did not need to charge again return to the budget.
    auto part = reservation.part(limit);
    auto part_request = request;
    part_request.reservation = &part;
    try {
      return upstream_->allocate(part_request);
    } catch (...) {
      if (part.take(limit)) reservation.give(limit);
      throw;
    }
  }

  std::shared_ptr<memory_budget> budget_;
  bool under_another_ = false;
  std::shared_ptr<detail::budget_account> account_;
  std::optional<charged_context> context_;
  std::unique_ptr<memory_resource> upstream_;
};

}  // namespace

std::unique_ptr<memory_resource> make_budget_resource(std::unique_ptr<memory_resource> upstream,
                                                      std::shared_ptr<memory_budget> budget) {
  return std::make_unique<budget_resource>(std::move(upstream), std::move(budget));
}

}  // namespace sluice
