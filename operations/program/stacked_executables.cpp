// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_executables.hpp"

#include "operations/aligned.hpp"
#include "operations/core/member_copies.hpp"
#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/executable.hpp"
#include "operations/program/program_graph.hpp"
#include "operations/program/program_launch.hpp"
#include "operations/program/program_price.hpp"
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

}  // namespace

stacked_executables::stacked_executables(std::shared_ptr<const batch_layout> layout,
                                         const executable& alone)
    : layout_(std::move(layout)), alone_(alone) {
  for (const auto* parts : {&layout_->inputs, &layout_->outputs}) {
    for (const auto& part : *parts) {
      offsets_.push_back(place_bytes_);
      place_bytes_ += aligned(part.bytes());  // a multiple of it is aligned, too
    }
  }
}
stacked_executables::~stacked_executables() = default;

void stacked_executables::add_one(const detail::program_graph& graph, lane_libraries& libraries) {
  load_copies(libraries);
  pieces_.push_back(piece_of(graph, *layout_->full_run, 1));
  pieces_.back().runs = &alone_;
  workspace_bytes_ = workspace_bytes_of_one();
  count_commands(1);
}

std::size_t stacked_executables::workspace_bytes_of_one() const noexcept {
  return place_bytes_ + alone_.scratch_bytes();
}

void stacked_executables::add(const detail::program_graph& graph, lane_libraries& libraries,
                              const plan_limits& limits) noexcept {
  try {
    load_copies(libraries);
    for (std::size_t count = 2; count <= graph.max_in_batch(); count *= 2) {
      auto new_piece = make(graph, libraries, limits, count);
      if (!new_piece) break;
      const auto bytes = place_bytes_ * count + new_piece->runs->workspace_bytes();
      pieces_.push_back(std::move(*new_piece));
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
    }
  } catch (...) {
    // A library refuses so many runs, or there is no memory. Larger batches are cut.
  }
  try {
    count_commands(graph.max_in_batch());
  } catch (...) {
    pieces_.resize(pads() ? 1 : 0);
  }
}

stacked_executables::piece stacked_executables::piece_of(const detail::program_graph& graph,
                                                         const program_inference& stacked,
                                                         std::size_t count) const {
  piece result{.count = count, .externals = stacked.uses.size()};
  for (const auto& part : layout_->outputs) {
    result.outputs.push_back(external_of_output(graph, stacked, part.number));
  }
  return result;
}

std::optional<stacked_executables::piece> stacked_executables::make(
    const detail::program_graph& graph, lane_libraries& libraries, const plan_limits& limits,
    std::size_t count) const {
  if (place_bytes_ > max_workspace_bytes / count) return std::nullopt;
  const auto kind = libraries.runtime().device().id().kind;
  const auto stacked = stacked_runs(graph, *layout_->full_run, count);
  check_steps(graph, stacked, kind);
  const auto host_bytes = alone_.bytes();  // with the pieces that there are
  const auto exceeds = [](std::size_t limit, std::size_t use_count, std::size_t more) {
    return use_count > limit || more > limit - use_count;
  };
  if (exceeds(limits.host_bytes, host_bytes, price_of_plans(graph, stacked, kind).host_bytes))
    return std::nullopt;

  auto result = piece_of(graph, stacked, count);
  result.storage = std::make_unique<const executable>(graph, stacked, libraries);
  result.runs = result.storage.get();
  const auto workspace = place_bytes_ * count + result.runs->workspace_bytes();
  const auto largest = std::max({workspace, workspace_bytes_, alone_.workspace_bytes()});
  const auto device_bytes = result.runs->device_bytes();
  if (workspace > max_workspace_bytes ||
      exceeds(limits.host_bytes, host_bytes, result.runs->bytes()) ||
      exceeds(limits.device_bytes, alone_.device_bytes(), device_bytes) ||
      exceeds(limits.device_bytes, alone_.device_bytes() + device_bytes, largest)) {
    return std::nullopt;
  }
  if (device_bytes != 0) {
    result.charge = libraries.runtime().reserve_memory(std::span(&device_bytes, 1));
  }
  return result;
}

bool stacked_executables::awaits_kernels() const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [](const piece& p) { return p.storage && p.storage->awaits_kernels(); });
}

bool stacked_executables::wants_kernels() const noexcept {
  bool wants = false;
  for (const auto& p : pieces_) wants |= p.storage && p.storage->wants_kernels();
  return wants;
}

void stacked_executables::load_kernels(lane_libraries& libraries) const noexcept {
  for (const auto& p : pieces_) {
    if (p.storage) p.storage->load_kernels(libraries);
  }
}

std::size_t stacked_executables::bytes() const noexcept {
  std::size_t sum = sizeof(*this) + layout_->full_run->bytes +
                    (offsets_.size() + most_commands_.size()) * sizeof(std::size_t);
  for (const auto& p : pieces_) {
    sum +=
        sizeof(p) + p.outputs.size() * sizeof(std::uint32_t) + (p.storage ? p.storage->bytes() : 0);
  }
  return sum;
}

std::size_t stacked_executables::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& p : pieces_) sum += p.storage ? p.storage->device_bytes() : 0;
  return sum;
}

std::size_t stacked_executables::shared_device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& p : pieces_) sum += p.storage ? p.storage->shared_device_bytes() : 0;
  return sum;
}

const stacked_executables::piece* stacked_executables::next_piece(
    std::size_t remaining) const noexcept {
  if (pieces_.empty() || remaining < pieces_.front().count) return nullptr;
  if (remaining >= pieces_.back().count) return &pieces_.back();
  // Rounded up if at most a quarter is missing.
  const auto power = std::bit_ceil(remaining);
  const auto count = 4 * remaining >= 3 * power ? power : std::bit_floor(remaining);
  return &pieces_[static_cast<std::size_t>(std::countr_zero(count / pieces_.front().count))];
}

std::size_t stacked_executables::commands(std::size_t count) const noexcept {
  return count < most_commands_.size() ? most_commands_[count] : count * alone_.commands();
}

void stacked_executables::count_commands(std::size_t max_in_batch) {
  most_commands_.assign(1, 0);
  for (std::size_t count = 1; count <= max_in_batch; ++count) {
    std::size_t sum = 0;
    for (auto remaining = count; remaining != 0;) {
      const auto* const next = next_piece(remaining);
      sum += next == nullptr
                 ? alone_.commands()
                 : layout_->inputs.size() + next->runs->step_commands() + layout_->outputs.size();
      remaining -= next == nullptr ? 1 : std::min(remaining, next->count);
    }
    most_commands_.push_back(std::max(sum, most_commands_.back()));
  }
}

void stacked_executables::enqueue(lane_libraries& libraries, members batch, void* scratch) const {
  const auto externals = layout_->externals;
  // In advance: nothing is on the stream yet.
  lists buffers;
  try {
    buffers.members.reserve(batch.externals.size() / externals);
    std::size_t capacity = 0;
    for (const auto& p : pieces_) capacity = std::max(capacity, p.externals);
    buffers.stacked.reserve(capacity);
  } catch (const std::bad_alloc&) {
    throw nothing_enqueued(current_error());
  }
  parts_of_launch parts;
  while (!batch.externals.empty()) {
    const auto remaining = batch.externals.size() / externals;
    const auto* const next = next_piece(remaining);
    const auto count = next == nullptr ? 1 : std::min(remaining, next->count);
    const members part{batch.externals.first(count * externals),
                       pads() ? batch.launches.first(count) : batch.launches};
    parts.enqueue([&] {
      if (next == nullptr) return alone_.enqueue(libraries, part.externals, scratch, nullptr);
      enqueue_piece(libraries, *next, part, scratch, buffers);
    });
    batch.externals = batch.externals.subspan(count * externals);
    if (pads()) batch.launches = batch.launches.subspan(count);
  }
}

void stacked_executables::enqueue_piece(lane_libraries& libraries, const piece& member_piece,
                                        const members& batch, void* scratch, lists& buffers) const {
  const auto externals = layout_->externals;
  const auto count = batch.externals.size() / externals;
  // The parts of an input or output; `index` counts both.
  const auto members_of = [&](const batch_layout::part& part, std::size_t index) -> const auto& {
    buffers.members.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = pads()
                           ? static_cast<const program_launch*>(batch.launches[i])->row_bytes[index]
                           : part.row_bytes;
      buffers.members.push_back({batch.externals[i * externals + part.external], row});
    }
    return buffers.members;
  };
  const auto place_of = [&](std::size_t index) -> void* {
    return static_cast<std::byte*>(scratch) + offsets_[index] * member_piece.count;
  };
  const auto shape_of = [&](const batch_layout::part& part) {
    return cuda::member_places{member_piece.count, part.rows, part.row_bytes};
  };
  const auto& inputs = layout_->inputs;
  const auto& outputs = layout_->outputs;
  auto& stacked = buffers.stacked;
  stacked.assign(member_piece.externals, nullptr);
  // Inputs that are not per request and constants are the same for all.
  std::copy_n(batch.externals.begin(), std::min(externals, member_piece.externals),
              stacked.begin());
  for (std::size_t i = 0; i < inputs.size(); ++i) stacked[inputs[i].number] = place_of(i);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    stacked[member_piece.outputs[i]] = place_of(inputs.size() + i);
  }

  parts_of_launch parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.enqueue([&] {
      try {
        gather(libraries, members_of(inputs[i], i), place_of(i), shape_of(inputs[i]));
      } catch (...) {
        throw nothing_enqueued(current_error());
      }
    });
  }
  parts.enqueue([&] {
    member_piece.runs->enqueue_steps(
        libraries, stacked, static_cast<std::byte*>(scratch) + place_bytes_ * member_piece.count,
        nullptr, nullptr);
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto index = inputs.size() + i;
    scatter(libraries, place_of(index), members_of(outputs[i], index), shape_of(outputs[i]));
  }
}

}  // namespace sluice::operations
