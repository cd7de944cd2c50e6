// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sluice::operations {

/// Requests with equal calls on their way into one launch of their lane.
///
///     request_batch batch(libraries, row, call, most, operands);
///     batch.add(std::move(work), addresses);  // for each
///     batch.launch(lane, envelope);
class request_batch final : public detail::batch_closure {
 public:
  /// A batch of up to `most` launches with `operands` operands each. `call` must outlive it.
  /// @throws error as `operation_row::begin_batch`
  /// @throws std::bad_alloc
  request_batch(lane_libraries& libraries, const operation_row& row,
                const operation_row::call_storage& call, std::size_t most, std::size_t operands)
      : libraries_(libraries),
        row_(row),
        call_(call),
        operands_(operands),
        own_(row.begin_batch(libraries, most)) {
    works_.reserve(most);
    addresses_.reserve(most * operands);
  }

  /// Adds a launch with operands at `addresses`. At most as many as stated are added.
  void add(std::unique_ptr<detail::launch_continuation> work,
           std::span<void* const> addresses) noexcept {
    works_.push_back(std::move(work));
    addresses_.insert(addresses_.end(), addresses.begin(), addresses.end());
  }
  /// Launches and answers all that have been added.
  void launch(lane& on, const kernel_envelope& by) noexcept {
    if (works_.empty()) return;
    const auto commands = row_.facts(call_).commands + (own_ ? own_->commands() : 0);
    detail::launch_continuation::run_batch(works_, on, by.label(), commands, own_, *this);
  }

 private:
  [[nodiscard]] std::span<void* const> addresses_of(std::size_t i) const noexcept {
    return std::span(addresses_).subspan(i * operands_, operands_);
  }
  void enqueue_one(const launch_context&, std::size_t which) override {
    row_.enqueue(libraries_, call_, {.addresses = addresses_of(which)});
  }
  void enqueue_together(const launch_context&, std::span<const std::uint32_t> which) override {
    if (which.size() == works_.size()) {
      return row_.enqueue_batch(libraries_, call_, addresses_, own_.get());
    }
    try {
      std::vector<void*> some;
      some.reserve(which.size() * operands_);
      for (const auto i : which) {
        const auto of = addresses_of(i);
        some.insert(some.end(), of.begin(), of.end());
      }
      row_.enqueue_batch(libraries_, call_, some, own_.get());
    } catch (const std::bad_alloc&) {
      throw nothing_enqueued(current_error());
    }
  }

  lane_libraries& libraries_;
  const operation_row& row_;
  const operation_row::call_storage& call_;
  const std::size_t operands_;
  const std::shared_ptr<operation_launch> own_;
  std::vector<std::unique_ptr<detail::launch_continuation>> works_;
  std::vector<void*> addresses_;
};

}  // namespace sluice::operations
