// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// The copies of constants in the orders in which steps compute with them.
namespace sluice::operations {
namespace {

/// Whether a step runs without a copy that could not be made for this reason.
bool lacks_memory(const error& reason) noexcept {
  return reason.code() == errc::out_of_memory || reason.code() == errc::over_budget;
}

/// The memory of the inputs and outputs of a run, in bytes, and `more`; at most `limit`.
std::size_t run_bytes(const program_inference& inferred, std::size_t more, std::size_t limit) {
  std::size_t sum = 0;
  const auto add = [&](std::size_t bytes) {
    sum += std::min(bytes, limit - sum);
  };
  add(more);
  for (const auto& input : inferred.inputs) add(input.bytes());
  for (const auto& output : inferred.written) add(output.spec.bytes());
  return sum;
}

/// Computes a packed copy.
auto packing_of(const operation_descriptor& descriptor, const call_storage& call,
                const std::vector<element_type>& types) {
  return [&descriptor, call, types](lane_libraries& libraries, const void* source, void* copy) {
    const std::array addresses{const_cast<void*>(source), copy};  // it is only read
    const launch_memory memory{.addresses = addresses, .types = types};
    if (libraries.runtime().device().id().kind == device_kind::host) {
      return descriptor.compute(call, memory);
    }
    descriptor.prepare(libraries);
    descriptor.enqueue(libraries, call, memory);
  };
}

/// Computes a prepacked copy of operand `number`.
auto prepacking_of_operand(const operation_descriptor& descriptor, const call_storage& call,
                           const std::shared_ptr<const operation_plan>& plan, std::size_t number) {
  return
      [&descriptor, call, plan, number](lane_libraries& libraries, const void* source, void* copy) {
        descriptor.prepack(libraries, call,
                           {.number = number, .source = source, .copy = copy, .plan = plan.get()});
      };
}

}  // namespace

void executable::copy_constants(const program_inference& inferred, lane_libraries& libraries) {
  if (constants_ == nullptr) return;
  // A run can do without a copy, but not without its own memory.
  const auto spare_bytes =
      run_bytes(inferred, scratch_bytes(), libraries.runtime().device().info().memory_bytes);
  try {
    copy_constants(steps_, spare_bytes, libraries);
    copy_constants(fused_, spare_bytes, libraries);
  } catch (...) {
    // The other constants would find no memory either.
    const auto reason = current_error();
    if (!lacks_memory(reason)) throw error(reason);
  }
}

void executable::copy_constants(form& steps, std::size_t spare_bytes, lane_libraries& libraries) {
  for (auto& entry : steps.actions) {
    if (entry.descriptor == nullptr) continue;
    naming([&] { return entry.label; },
           [&] { copy_operands(steps, entry, spare_bytes, libraries); });
  }
}

void executable::copy_operands(form& steps, action& entry, std::size_t spare_bytes,
                               lane_libraries& libraries) {
  for (std::size_t i = 0; i < entry.operands.size(); ++i) {
    copy_operand(steps, entry, i, spare_bytes, libraries);
  }
}

void executable::copy_operand(form& steps, action& entry, std::size_t number,
                              std::size_t spare_bytes, lane_libraries& libraries) {
  auto& operand = entry.operands[number];
  const auto packing =
      std::find_if(entry.packings.begin(), entry.packings.end(),
                   [&](const constant_packing& each) { return each.operand == number; });
  action* const packer =
      packing == entry.packings.end() ? nullptr : &steps.actions[packing->action];
  const auto constant = packer != nullptr ? packer->operands.front() : operand;
  if (constant.memory != place::kind::constant) return;
  prepacked_layout layout;
  if (!entry.varying) {
    layout = entry.descriptor->prepacked(libraries.runtime().device().id().kind, entry.call,
                                         entry.plan.get(), number);
  }
  const bool prepacks = layout.bytes != 0;
  const auto use = [&](std::shared_ptr<const constant_copy> copy, bool is_prepacked) {
    auto position = std::find(copies_.begin(), copies_.end(), copy);
    if (position == copies_.end()) position = copies_.insert(position, std::move(copy));
    operand = {place::kind::constant_copy, static_cast<std::uint32_t>(position - copies_.begin()),
               0};
    if (packer != nullptr) packer->is_left_out = true;
    if (is_prepacked) entry.prepacked |= std::uint64_t{1} << number;
  };
  constant_copy_key key{.offset = constant.offset};
  if (packer != nullptr) key.packing = packing->order;
  auto prepacked_key = key;
  if (prepacks) {
    prepacked_key.prepacking = layout.identity;
    if (auto existing = constants_->find_copy(prepacked_key)) return use(std::move(existing), true);
  }
  std::shared_ptr<const constant_copy> packed;
  if (packer != nullptr) {
    packed = constants_->copy(
        libraries, {.key = std::move(key),
                    .bytes = packing->bytes,
                    .spare_bytes = spare_bytes,
                    .write = packing_of(*packer->descriptor, packer->call, packer->types)});
    if (!packed) return;
  }
  std::shared_ptr<const constant_copy> prepacked;
  try {
    if (prepacks) {
      prepacked = constants_->copy(
          libraries,
          {.key = std::move(prepacked_key),
           .source = packed,
           .bytes = layout.bytes,
           .spare_bytes = spare_bytes,
           .write = prepacking_of_operand(*entry.descriptor, entry.call, entry.plan, number)});
    }
  } catch (...) {
    if (packed) use(std::move(packed), false);
    throw;
  }
  if (prepacked) return use(std::move(prepacked), true);
  if (packed) use(std::move(packed), false);
}

void executable::form::erase_left_out() {
  std::uint32_t steps_without_action = 0;
  for (auto& entry : actions) {
    if (entry.is_left_out) {
      // The step follows.
      steps_without_action += entry.steps_without_action;
      commands -= entry.descriptor->facts(entry.call).commands;
    } else {
      entry.steps_without_action += std::exchange(steps_without_action, 0);
    }
  }
  std::erase_if(actions, [](const action& entry) { return entry.is_left_out; });
}

std::size_t executable::copied_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& copy : copies_) {
    const auto owners = static_cast<std::size_t>(copy.use_count());
    sum += (copy->bytes() + owners - 1) / owners;
  }
  return sum;
}

}  // namespace sluice::operations
