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
  std::vector<void*> addresses{};        ///< of the operands of one launch after the other
  std::vector<operation_launch*> own{};  ///< what each launch needs of its own; may be null
};

/// Requests with equal calls on their way into one launch of their lane.
///
///     request_batch batch(memory, libraries, descriptor, call, most, operands);
///     batch.add(std::move(work), addresses);  // for each
///     batch.launch(lane, envelope);
class request_batch final : public detail::batch_closure {
 public:
  /// A batch of up to `most` launches with `operands` operands each, with the plan and the
  /// workspace of `with`. `call` must outlive it, but what it refers to need not.
  /// @throws error as `batch_descriptor::begin_batch`
  /// @throws std::bad_alloc
  request_batch(batch_memory& memory, lane_libraries& libraries,
                const launch_descriptor& descriptor, const call_storage& call, std::size_t most,
                std::size_t operands, const launch_memory& with = {})
      : memory_(memory),
        libraries_(libraries),
        descriptor_(descriptor),
        call_(call),
        operands_(operands),
        commands_(descriptor.facts(call).commands),
        with_(with),
        own_(descriptor.batches()->begin_batch(libraries, most)) {
    memory.works.launches.reserve(most);
    memory.own.reserve(most);
    memory.own.clear();
    memory.addresses.clear();
    memory.addresses.reserve(most * operands);
  }

  /// Adds a launch with operands at `addresses`, which owns `own`. At most as many as stated are
  /// added.
  void add(std::unique_ptr<detail::launch_continuation> work, std::span<void* const> addresses,
           operation_launch* own = nullptr) noexcept {
    memory_.works.launches.push_back(std::move(work));
    memory_.own.push_back(own);
    if (own != nullptr) commands_ += own->commands();
    memory_.addresses.insert(memory_.addresses.end(), addresses.begin(), addresses.end());
  }
  /// Launches and answers all that have been added.
  void launch(lane& on, const kernel_envelope& by) noexcept {
    count_ = memory_.works.launches.size();
    if (count_ == 0) return;
    const auto commands = commands_ + (own_ ? own_->commands() : 0) +
                          (with_.plan != nullptr ? with_.plan->batch_commands(count_) : 0);
    detail::launch_continuation::run_batch(memory_.works, on, by.label(), commands, own_, *this);
  }

 private:
  [[nodiscard]] std::span<void* const> addresses_of(std::size_t i) const noexcept {
    return std::span(memory_.addresses).subspan(i * operands_, operands_);
  }
  [[nodiscard]] launch_memory memory_of(std::span<void* const> addresses,
                                        operation_launch* own) const noexcept {
    auto memory = with_;
    memory.addresses = addresses;
    memory.own = own;
    return memory;
  }
  void enqueue_one(const launch_context&, std::size_t which) override {
    descriptor_.enqueue(libraries_, call_, memory_of(addresses_of(which), memory_.own[which]));
  }
  void enqueue_together(const launch_context&, std::span<const std::uint32_t> which) override {
    if (which.size() == count_) return enqueue_all(which, memory_.addresses, memory_.own);
    std::vector<void*> some;
    std::vector<operation_launch*> own;
    try {
      some.reserve(which.size() * operands_);
      own.reserve(which.size());
      for (const auto i : which) {
        const auto of = addresses_of(i);
        some.insert(some.end(), of.begin(), of.end());
        own.push_back(memory_.own[i]);
      }
    } catch (const std::bad_alloc&) {
      throw nothing_enqueued(current_error());
    }
    enqueue_all(which, some, own);
  }
  void enqueue_all(std::span<const std::uint32_t> which, std::span<void* const> addresses,
                   std::span<operation_launch* const> own) {
    parts_of_launch parts;
    for (const auto i : which) {
      auto* const one = memory_.own[i];
      if (one == nullptr || !one->precedes_batch()) continue;
      parts.enqueue([&] { one->enqueue_before_batch(addresses_of(i)); });
    }
    parts.enqueue([&] {
      auto memory = memory_of(addresses, own_.get());
      memory.members = own;
      descriptor_.batches()->enqueue_batch(libraries_, call_, memory);
    });
  }

  batch_memory& memory_;
  lane_libraries& libraries_;
  const launch_descriptor& descriptor_;
  const call_storage& call_;
  const std::size_t operands_;
  std::size_t commands_;  // of the call and of what the launches need of their own
  const launch_memory with_;
  const std::shared_ptr<operation_launch> own_;
  std::size_t count_ = 0;
};

}  // namespace sluice::operations
