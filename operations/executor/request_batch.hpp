// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/parts_of_launch.hpp"

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

/// The memory of a batch that is being formed. The next one of its owner uses it again.
struct batch_memory {
  detail::batch_works works{};
  std::vector<void*> addresses{};             ///< of the operands of one launch after the other
  std::vector<operation_launch*> launches{};  ///< what each launch needs of its own; may be null
};

/// Requests with equal calls on their way into one launch of their lane.
///
///     request_batch batch(memory, libraries, descriptor, call, most, operands);
///     batch.add(std::move(work), addresses);  // for each
///     batch.launch(lane, envelope);
class request_batch final : public detail::batch_closure {
 public:
  /// A batch of up to `most` launches with `operands` operands each, with the plan and the
  /// workspace of `plan_memory`. `call` must outlive it, but what it refers to need not.
  /// @throws error as `batch_descriptor::begin_batch`
  /// @throws std::bad_alloc
  request_batch(batch_memory& memory, lane_libraries& libraries,
                const launch_descriptor& descriptor, const call_storage& call, std::size_t most,
                std::size_t operands, const launch_memory& plan_memory = {})
      : memory_(memory),
        libraries_(libraries),
        descriptor_(descriptor),
        call_(call),
        operands_(operands),
        commands_(descriptor.facts(call).commands),
        plan_memory_(plan_memory),
        batch_launch_(descriptor.batches()->begin_batch(libraries, most)) {
    memory.works.launches.reserve(most);
    memory.launches.reserve(most);
    memory.launches.clear();
    memory.addresses.clear();
    memory.addresses.reserve(most * operands);
  }

  /// Adds a launch with operands at `addresses`, which owns `launch`. At most as many as stated are
  /// added.
  void add(std::unique_ptr<detail::launch_continuation> work, std::span<void* const> addresses,
           operation_launch* launch = nullptr) noexcept {
    memory_.works.launches.push_back(std::move(work));
    memory_.launches.push_back(launch);
    if (launch != nullptr) {
      commands_ += launch->commands();
      precedes_ = precedes_ || launch->precedes_batch();
      follows_ = follows_ || launch->follows_batch();
    }
    memory_.addresses.insert(memory_.addresses.end(), addresses.begin(), addresses.end());
  }
  /// Launches and answers all that have been added.
  void launch(lane& lane, const kernel_envelope& envelope) noexcept {
    count_ = memory_.works.launches.size();
    if (count_ == 0) return;
    const auto commands =
        commands_ + (batch_launch_ ? batch_launch_->commands() : 0) +
        (plan_memory_.plan != nullptr ? plan_memory_.plan->batch_commands(count_) : 0);
    detail::launch_continuation::run_batch(memory_.works, lane, envelope.label(), commands,
                                           batch_launch_, *this);
  }

 private:
  [[nodiscard]] std::span<void* const> addresses_of(std::size_t i) const noexcept {
    return std::span(memory_.addresses).subspan(i * operands_, operands_);
  }
  [[nodiscard]] launch_memory memory_of(std::span<void* const> addresses,
                                        operation_launch* launch) const noexcept {
    auto memory = plan_memory_;
    memory.addresses = addresses;
    memory.own = launch;
    return memory;
  }
  void enqueue_one(const launch_context&, std::size_t i) override {
    descriptor_.enqueue(libraries_, call_, memory_of(addresses_of(i), memory_.launches[i]));
  }
  void enqueue_together(const launch_context&, std::span<const std::uint32_t> numbers) override {
    if (numbers.size() == count_) return enqueue_all(numbers, memory_.addresses, memory_.launches);
    std::vector<void*> addresses;
    std::vector<operation_launch*> launches;
    try {
      addresses.reserve(numbers.size() * operands_);
      launches.reserve(numbers.size());
      for (const auto i : numbers) {
        const auto operands = addresses_of(i);
        addresses.insert(addresses.end(), operands.begin(), operands.end());
        launches.push_back(memory_.launches[i]);
      }
    } catch (const std::bad_alloc&) {
      throw nothing_enqueued(current_error());
    }
    enqueue_all(numbers, addresses, launches);
  }
  void enqueue_all(std::span<const std::uint32_t> numbers, std::span<void* const> addresses,
                   std::span<operation_launch* const> launches) {
    parts_of_launch parts;
    for (std::size_t i = 0; precedes_ && i < numbers.size(); ++i) {
      auto* const launch = memory_.launches[numbers[i]];
      if (launch == nullptr || !launch->precedes_batch()) continue;
      parts.enqueue([&] { launch->enqueue_before_batch(addresses_of(numbers[i])); });
    }
    parts.enqueue([&] {
      auto memory = memory_of(addresses, batch_launch_.get());
      memory.members = launches;
      descriptor_.batches()->enqueue_batch(libraries_, call_, memory);
    });
    for (std::size_t i = 0; follows_ && i < numbers.size(); ++i) {
      auto* const launch = memory_.launches[numbers[i]];
      if (launch == nullptr || !launch->follows_batch()) continue;
      parts.enqueue([&] { launch->enqueue_after_batch(addresses_of(numbers[i])); });
    }
  }

  batch_memory& memory_;
  lane_libraries& libraries_;
  const launch_descriptor& descriptor_;
  const call_storage& call_;
  const std::size_t operands_;
  std::size_t commands_;  // of the call and of what the launches need of their own
  const launch_memory plan_memory_;
  const std::shared_ptr<operation_launch> batch_launch_;
  std::size_t count_ = 0;
  bool precedes_ = false;  // whether a launch needs something before the batch
  bool follows_ = false;   // likewise after it
};

}  // namespace sluice::operations
