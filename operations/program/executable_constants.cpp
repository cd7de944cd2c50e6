// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

// The constants, and their copies in the orders in which steps compute with them.
namespace sluice::operations {

using detail::program_graph;

namespace {

/// Whether a step runs without a copy that could not be made for this reason.
bool is_lack_of_memory(const error& reason) noexcept {
  return reason.code() == errc::out_of_memory || reason.code() == errc::over_budget;
}

/// The sizes of the blocks of a run, in bytes: its scratch memory, its inputs and its outputs.
/// Their sum is at most `limit`.
std::vector<std::size_t> sizes_of_run(const program_inference& inferred, std::size_t scratch_bytes,
                                      std::size_t limit) {
  std::vector<std::size_t> sizes;
  const auto add = [&](std::size_t bytes) {
    sizes.push_back(std::min(bytes, limit));
    limit -= sizes.back();
  };
  add(scratch_bytes);
  for (const auto& input : inferred.inputs) add(input.bytes());
  for (const auto& output : inferred.written) add(output.spec.bytes());
  return sizes;
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

void executable::upload_constants(const program_graph& graph, const program_inference& inferred,
                                  const folding& folded, lane_libraries& libraries) {
  const auto memory_bytes = libraries.runtime().device().info().memory_bytes;
  constants_ = graph.upload_constants(libraries, inferred, folded,
                                      sizes_of_run(inferred, scratch_bytes(), memory_bytes));
}

void executable::copy_constants(const program_inference& inferred, lane_libraries& libraries) {
  if (constants_ == nullptr) return;
  // A run can do without a copy, but not without its own memory.
  constant_copying copying{
      .libraries = libraries,
      .sizes_of_run = sizes_of_run(inferred, scratch_bytes(),
                                   libraries.runtime().device().info().memory_bytes)};
  copy_constants(steps_, copying);
  copy_constants(fused_, copying);
}

void executable::copy_constants(form& steps, constant_copying& copying) {
  for (auto& entry : steps.actions) {
    if (entry.descriptor == nullptr) continue;
    naming([&] { return entry.label; }, [&] { copy_operands(steps, entry, copying); });
  }
}

void executable::copy_operands(form& steps, action& entry, constant_copying& copying) {
  for (std::size_t i = 0; i < entry.operands.size(); ++i) copy_operand(steps, entry, i, copying);
}

std::shared_ptr<const constant_copy> executable::copy_constant(constant_copy_request request,
                                                               constant_copying& copying) const {
  if (copying.lacks_memory) return constants_->find_copy(request.key);
  request.spare_sizes = copying.sizes_of_run;
  try {
    return constants_->copy(copying.libraries, std::move(request));
  } catch (...) {
    if (!is_lack_of_memory(current_error())) throw;
  }
  // Other copies would find no memory either. But steps share copies, and so do both forms.
  copying.lacks_memory = true;
  return nullptr;
}

void executable::copy_operand(form& steps, action& entry, std::size_t number,
                              constant_copying& copying) {
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
    layout = entry.descriptor->prepacked(copying.libraries.runtime().device().id().kind, entry.call,
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
  constant_copy_key key{.block = constant.number, .offset = constant.offset};
  if (packer != nullptr) key.packing = packing->order;
  auto prepacked_key = key;
  if (prepacks) {
    prepacked_key.prepacking = layout.identity;
    if (auto existing = constants_->find_copy(prepacked_key)) return use(std::move(existing), true);
  }
  std::shared_ptr<const constant_copy> packed;
  if (packer != nullptr) {
    packed =
        copy_constant({.key = std::move(key),
                       .bytes = packing->bytes,
                       .prepare = [&descriptor = *packer->descriptor](
                                      lane_libraries& libraries) { descriptor.prepare(libraries); },
                       .write = packing_of(*packer->descriptor, packer->call, packer->types)},
                      copying);
    if (!packed) return;
  }
  if (prepacks) {
    auto prepacked = copy_constant(
        {.key = std::move(prepacked_key),
         .source = packed,
         .bytes = layout.bytes,
         .write = prepacking_of_operand(*entry.descriptor, entry.call, entry.plan, number)},
        copying);
    if (prepacked) return use(std::move(prepacked), true);
  }
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
