// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_executables.hpp"

#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/member_copies.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/stacked_runs.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace sluice::operations {
namespace {

// The scratch memory of a batch, in bytes, with all inputs and outputs per request.
constexpr std::size_t max_workspace_bytes = std::size_t{512} << 20U;

constexpr auto load_copies = with_cuda<cuda::load_member_copies>();
constexpr auto gather = with_cuda<cuda::gather_members>();
constexpr auto scatter = with_cuda<cuda::scatter_members>();

std::size_t aligned(std::size_t bytes) noexcept {
  constexpr auto to = tensor_spec::max_alignment;
  return (bytes + to - 1) / to * to;
}

}  // namespace

stacked_executables::stacked_executables(std::shared_ptr<const program_inference> inferred,
                                         const executable& alone) noexcept
    : inferred_(std::move(inferred)), alone_(alone), externals_(inferred_->uses.size()) {}
stacked_executables::~stacked_executables() = default;

void stacked_executables::add(const detail::program_graph& of, lane_libraries& libraries,
                              const plan_limits& limits) noexcept {
  try {
    load_copies(libraries);
    add_inputs(of);
    for (std::size_t count = 2; count <= of.max_in_batch(); count *= 2) {
      auto made = make(of, libraries, limits, count);
      if (!made) return;
      const auto bytes = made->scratch_offset + made->runs->workspace_bytes();
      pieces_.push_back(std::move(*made));
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
    }
  } catch (...) {
    // A library refuses so many runs, or there is no memory. Larger batches are cut.
  }
}

void stacked_executables::add_inputs(const detail::program_graph& of) {
  for (std::uint32_t i = 0; i < of.inputs().size(); ++i) {
    if (!of.is_per_request(i)) continue;
    inputs_.push_back({i, i, inferred_->inputs[i].bytes(), input_bytes_});
    input_bytes_ += aligned(inputs_.back().bytes);  // a multiple of it is aligned, too
  }
}

std::optional<stacked_executables::piece> stacked_executables::make(const detail::program_graph& of,
                                                                    lane_libraries& libraries,
                                                                    const plan_limits& limits,
                                                                    std::size_t count) const {
  if (input_bytes_ > max_workspace_bytes / count) return std::nullopt;
  const auto kind = libraries.runtime().device().id().kind;
  const auto stacked = stacked_runs(of, *inferred_, count);
  check_steps(of, stacked, kind);
  const auto host_bytes = alone_.bytes();  // with the pieces that there are
  const auto exceeds = [](std::size_t limit, std::size_t used, std::size_t more) {
    return used > limit || more > limit - used;
  };
  if (exceeds(limits.host_bytes, host_bytes, bytes_of_plans(stacked, kind))) return std::nullopt;

  piece made{.count = count, .externals = stacked.uses.size()};
  const auto roots = static_cast<std::uint32_t>(of.inputs().size() + of.constants().size());
  auto end = input_bytes_;
  for (std::uint32_t i = 0; i < of.outputs().size(); ++i) {
    made.outputs.push_back({roots + static_cast<std::uint32_t>(inferred_->memory_of_output(of, i)),
                            roots + static_cast<std::uint32_t>(stacked.memory_of_output(of, i)),
                            inferred_->values[of.outputs()[i]].spec().bytes(), end});
    end += aligned(made.outputs.back().bytes);
  }
  if (end > max_workspace_bytes / count) return std::nullopt;
  made.scratch_offset = end * count;
  made.runs = std::make_unique<const executable>(of, stacked, libraries);
  const auto workspace = std::max(made.scratch_offset + made.runs->workspace_bytes(),
                                  std::max(workspace_bytes_, alone_.workspace_bytes()));
  const auto device_bytes = made.runs->device_bytes();
  if (workspace > std::max(max_workspace_bytes, alone_.workspace_bytes()) ||
      exceeds(limits.host_bytes, host_bytes, made.runs->bytes()) ||
      exceeds(limits.device_bytes, alone_.device_bytes(), device_bytes) ||
      exceeds(limits.device_bytes, alone_.device_bytes() + device_bytes, workspace)) {
    return std::nullopt;
  }
  if (device_bytes != 0) {
    made.charge = libraries.runtime().reserve_memory(std::span(&device_bytes, 1));
  }
  return made;
}

std::size_t stacked_executables::bytes() const noexcept {
  std::size_t sum = sizeof(*this) + inputs_.size() * sizeof(part);
  for (const auto& one : pieces_) {
    sum += sizeof(one) + one.outputs.size() * sizeof(part) + one.runs->bytes();
  }
  return sum;
}

std::size_t stacked_executables::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : pieces_) sum += one.runs->device_bytes();
  return sum;
}

std::size_t stacked_executables::shared_device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : pieces_) sum += one.runs->shared_device_bytes();
  return sum;
}

const stacked_executables::piece* stacked_executables::next_piece(std::size_t left) const noexcept {
  if (left < 2 || pieces_.empty()) return nullptr;
  if (left >= pieces_.back().count) return &pieces_.back();
  // Rounded up if at most a quarter is missing.
  const auto up = std::bit_ceil(left);
  const auto count = 4 * left >= 3 * up ? up : std::bit_floor(left);
  return &pieces_[static_cast<std::size_t>(std::countr_zero(count)) - 1];
}

std::size_t stacked_executables::commands(std::size_t count) const noexcept {
  std::size_t sum = 0;
  while (count != 0) {
    const auto* const next = next_piece(count);
    if (next == nullptr) {
      sum += alone_.commands();
      --count;
      continue;
    }
    sum += inputs_.size() + next->runs->commands() + next->outputs.size();
    count -= std::min(count, next->count);
  }
  return sum;
}

void stacked_executables::enqueue(lane_libraries& libraries, std::span<void* const> externals,
                                  void* scratch) const {
  // In advance: nothing is on the stream yet.
  lists with;
  try {
    with.addresses.reserve(externals.size() / externals_);
    std::size_t most = 0;
    for (const auto& one : pieces_) most = std::max(most, one.externals);
    with.stacked.reserve(most);
  } catch (const std::bad_alloc&) {
    throw nothing_enqueued(current_error());
  }
  parts_of_launch parts;
  while (!externals.empty()) {
    const auto left = externals.size() / externals_;
    const auto* const next = next_piece(left);
    const auto here =
        externals.first((next == nullptr ? 1 : std::min(left, next->count)) * externals_);
    parts.enqueue([&] {
      if (next == nullptr) return alone_.enqueue(libraries, here, scratch, nullptr);
      enqueue_piece(libraries, *next, here, scratch, with);
    });
    externals = externals.subspan(here.size());
  }
}

void stacked_executables::enqueue_piece(lane_libraries& libraries, const piece& of,
                                        std::span<void* const> externals, void* scratch,
                                        lists& with) const {
  const auto members = externals.size() / externals_;
  const auto addresses_of = [&](const part& one) -> std::span<void* const> {
    with.addresses.clear();
    for (std::size_t i = 0; i < members; ++i) {
      with.addresses.push_back(externals[i * externals_ + one.alone]);
    }
    return with.addresses;
  };
  const auto stacked_at = [&](const part& one) -> void* {
    return static_cast<std::byte*>(scratch) + one.offset * of.count;
  };
  auto& stacked = with.stacked;
  stacked.assign(of.externals, nullptr);
  // Inputs that are not per request and constants are the same for all.
  std::copy_n(externals.begin(), std::min(externals_, of.externals), stacked.begin());
  for (const auto& one : inputs_) stacked[one.stacked] = stacked_at(one);
  for (const auto& one : of.outputs) stacked[one.stacked] = stacked_at(one);

  parts_of_launch parts;
  for (const auto& one : inputs_) {
    parts.enqueue([&] {
      try {
        gather(libraries, addresses_of(one), stacked_at(one), one.bytes, of.count);
      } catch (...) {
        throw nothing_enqueued(current_error());
      }
    });
  }
  parts.enqueue([&] {
    of.runs->enqueue_steps(libraries, stacked, static_cast<std::byte*>(scratch) + of.scratch_offset,
                           nullptr);
  });
  for (const auto& one : of.outputs) {
    scatter(libraries, stacked_at(one), addresses_of(one), one.bytes);
  }
}

}  // namespace sluice::operations
