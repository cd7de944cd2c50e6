// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_executables.hpp"

#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/member_copies.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

namespace sluice::operations {
namespace {

// The scratch memory of a batch, in bytes.
constexpr std::size_t max_workspace_bytes = std::size_t{512} << 20U;

constexpr auto load_copies = with_cuda<cuda::load_member_copies>();
constexpr auto gather = with_cuda<cuda::gather_members>();
constexpr auto scatter = with_cuda<cuda::scatter_members>();

std::size_t aligned(std::size_t bytes) noexcept {
  constexpr auto to = tensor_spec::max_alignment;
  return (bytes + to - 1) / to * to;
}

}  // namespace

stacked_executables::stacked_executables(const detail::program_graph& of,
                                         const program_inference& inferred, const executable& alone,
                                         lane_libraries& libraries)
    : alone_(alone), externals_(inferred.uses.size()), workspace_bytes_(alone.workspace_bytes()) {
  load_copies(libraries);
  std::size_t offset = 0;  // for one run: a multiple of it is aligned, too
  for (std::uint32_t i = 0; i < of.inputs().size(); ++i) {
    if (!of.is_per_request(i)) continue;
    inputs_.push_back({i, i, inferred.inputs[i].bytes(), offset});
    offset += aligned(inputs_.back().bytes);
  }
  const auto roots = static_cast<std::uint32_t>(of.inputs().size() + of.constants().size());
  for (const auto& stacked : inferred.stacked) {
    piece made{.count = std::size_t{2} << pieces_.size(), .externals = stacked->uses.size()};
    auto end = offset;
    for (std::uint32_t i = 0; i < of.outputs().size(); ++i) {
      made.outputs.push_back({roots + static_cast<std::uint32_t>(inferred.memory_of_output(of, i)),
                              roots + static_cast<std::uint32_t>(stacked->memory_of_output(of, i)),
                              inferred.values[of.outputs()[i]].spec().bytes(), end});
      end += aligned(made.outputs.back().bytes);
    }
    made.scratch_offset = end * made.count;
    if (made.scratch_offset > max_workspace_bytes) return;
    try {
      made.runs = std::make_unique<const executable>(of, *stacked, libraries);
    } catch (const error&) {
      return;  // it takes too much memory, for example
    }
    const auto bytes = made.scratch_offset + made.runs->workspace_bytes();
    if (bytes > max_workspace_bytes) return;
    workspace_bytes_ = std::max(workspace_bytes_, bytes);
    pieces_.push_back(std::move(made));
  }
}

stacked_executables::~stacked_executables() = default;

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
