// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

// The prepacked copies of constants; see `prepacked_layout`.
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

}  // namespace

void executable::prepack_constants(const program_inference& inferred, lane_libraries& libraries) {
  if (constants_ == nullptr) return;
  // A run can do without a copy, but not without its own memory.
  const auto spare_bytes =
      run_bytes(inferred, scratch_bytes(), libraries.runtime().device().info().memory_bytes);
  try {
    for (auto* const steps : {&steps_, &fused_}) {
      for (auto& entry : steps->actions) {
        if (entry.descriptor == nullptr || entry.varying) continue;
        naming([&] { return entry.label; },
               [&] { prepack_operands(entry, spare_bytes, libraries); });
      }
    }
  } catch (...) {
    // The other constants would find no memory either.
    const auto reason = current_error();
    if (!lacks_memory(reason)) throw error(reason);
  }
}

void executable::prepack_operands(action& entry, std::size_t spare_bytes,
                                  lane_libraries& libraries) {
  const auto kind = libraries.runtime().device().id().kind;
  for (std::size_t i = 0; i < entry.operands.size(); ++i) {
    auto& operand = entry.operands[i];
    if (operand.memory != place::kind::constant) continue;
    auto layout = entry.descriptor->prepacked(kind, entry.call, entry.plan.get(), i);
    if (layout.bytes == 0) continue;
    auto copy = constants_->prepacked_copy(
        libraries, {*entry.descriptor, entry.call, entry.plan, i, std::move(layout), spare_bytes},
        operand.offset);
    auto position = std::find(prepacked_.begin(), prepacked_.end(), copy);
    if (position == prepacked_.end()) position = prepacked_.insert(position, std::move(copy));
    operand = {place::kind::prepacked, static_cast<std::uint32_t>(position - prepacked_.begin()),
               0};
    entry.prepacked |= std::uint64_t{1} << i;
  }
}

std::size_t executable::prepacked_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& copy : prepacked_) {
    const auto owners = static_cast<std::size_t>(copy.use_count());
    sum += (copy->bytes() + owners - 1) / owners;
  }
  return sum;
}

}  // namespace sluice::operations
