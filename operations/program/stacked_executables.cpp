// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_executables.hpp"

#include "operations/aligned.hpp"
#include "operations/core/member_copies.hpp"
#include "operations/cuda_build.hpp"
#include "operations/parts_of_launch.hpp"
#include "operations/program/executable.hpp"
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

}  // namespace

stacked_executables::stacked_executables(std::shared_ptr<const batch_layout> layout,
                                         const executable& alone)
    : layout_(std::move(layout)), alone_(alone) {
  for (const auto* all : {&layout_->inputs, &layout_->outputs}) {
    for (const auto& one : *all) {
      offsets_.push_back(place_bytes_);
      place_bytes_ += aligned(one.bytes());  // a multiple of it is aligned, too
    }
  }
}
stacked_executables::~stacked_executables() = default;

void stacked_executables::add_one(const detail::program_graph& of, lane_libraries& libraries) {
  load_copies(libraries);
  pieces_.push_back(piece_of(of, *layout_->one, 1));
  pieces_.back().runs = &alone_;
  workspace_bytes_ = workspace_bytes_of_one();
  count_commands(1);
}

std::size_t stacked_executables::workspace_bytes_of_one() const noexcept {
  return place_bytes_ + alone_.scratch_bytes();
}

void stacked_executables::add(const detail::program_graph& of, lane_libraries& libraries,
                              const plan_limits& limits) noexcept {
  try {
    load_copies(libraries);
    for (std::size_t count = 2; count <= of.max_in_batch(); count *= 2) {
      auto made = make(of, libraries, limits, count);
      if (!made) break;
      const auto bytes = place_bytes_ * count + made->runs->workspace_bytes();
      pieces_.push_back(std::move(*made));
      workspace_bytes_ = std::max(workspace_bytes_, bytes);
    }
  } catch (...) {
    // A library refuses so many runs, or there is no memory. Larger batches are cut.
  }
  try {
    count_commands(of.max_in_batch());
  } catch (...) {
    pieces_.resize(pads() ? 1 : 0);
  }
}

stacked_executables::piece stacked_executables::piece_of(const detail::program_graph& of,
                                                         const program_inference& stacked,
                                                         std::size_t count) const {
  piece made{.count = count, .externals = stacked.uses.size()};
  for (const auto& one : layout_->outputs) {
    made.outputs.push_back(external_of_output(of, stacked, one.number));
  }
  return made;
}

std::optional<stacked_executables::piece> stacked_executables::make(const detail::program_graph& of,
                                                                    lane_libraries& libraries,
                                                                    const plan_limits& limits,
                                                                    std::size_t count) const {
  if (place_bytes_ > max_workspace_bytes / count) return std::nullopt;
  const auto kind = libraries.runtime().device().id().kind;
  const auto stacked = stacked_runs(of, *layout_->one, count);
  check_steps(of, stacked, kind);
  const auto host_bytes = alone_.bytes();  // with the pieces that there are
  const auto exceeds = [](std::size_t limit, std::size_t used, std::size_t more) {
    return used > limit || more > limit - used;
  };
  if (exceeds(limits.host_bytes, host_bytes, price_of_plans(stacked, kind).host_bytes))
    return std::nullopt;

  auto made = piece_of(of, stacked, count);
  made.own = std::make_unique<const executable>(of, stacked, libraries);
  made.runs = made.own.get();
  const auto workspace = place_bytes_ * count + made.runs->workspace_bytes();
  const auto largest = std::max({workspace, workspace_bytes_, alone_.workspace_bytes()});
  const auto device_bytes = made.runs->device_bytes();
  if (workspace > max_workspace_bytes ||
      exceeds(limits.host_bytes, host_bytes, made.runs->bytes()) ||
      exceeds(limits.device_bytes, alone_.device_bytes(), device_bytes) ||
      exceeds(limits.device_bytes, alone_.device_bytes() + device_bytes, largest)) {
    return std::nullopt;
  }
  if (device_bytes != 0) {
    made.charge = libraries.runtime().reserve_memory(std::span(&device_bytes, 1));
  }
  return made;
}

std::size_t stacked_executables::bytes() const noexcept {
  std::size_t sum = sizeof(*this) + layout_->one->bytes +
                    (offsets_.size() + most_commands_.size()) * sizeof(std::size_t);
  for (const auto& one : pieces_) {
    sum +=
        sizeof(one) + one.outputs.size() * sizeof(std::uint32_t) + (one.own ? one.own->bytes() : 0);
  }
  return sum;
}

std::size_t stacked_executables::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : pieces_) sum += one.own ? one.own->device_bytes() : 0;
  return sum;
}

std::size_t stacked_executables::shared_device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& one : pieces_) sum += one.own ? one.own->shared_device_bytes() : 0;
  return sum;
}

const stacked_executables::piece* stacked_executables::next_piece(std::size_t left) const noexcept {
  if (pieces_.empty() || left < pieces_.front().count) return nullptr;
  if (left >= pieces_.back().count) return &pieces_.back();
  // Rounded up if at most a quarter is missing.
  const auto up = std::bit_ceil(left);
  const auto count = 4 * left >= 3 * up ? up : std::bit_floor(left);
  return &pieces_[static_cast<std::size_t>(std::countr_zero(count / pieces_.front().count))];
}

std::size_t stacked_executables::commands(std::size_t count) const noexcept {
  return count < most_commands_.size() ? most_commands_[count] : count * alone_.commands();
}

void stacked_executables::count_commands(std::size_t max_in_batch) {
  most_commands_.assign(1, 0);
  for (std::size_t count = 1; count <= max_in_batch; ++count) {
    std::size_t sum = 0;
    for (auto left = count; left != 0;) {
      const auto* const next = next_piece(left);
      sum += next == nullptr
                 ? alone_.commands()
                 : layout_->inputs.size() + next->runs->step_commands() + layout_->outputs.size();
      left -= next == nullptr ? 1 : std::min(left, next->count);
    }
    most_commands_.push_back(std::max(sum, most_commands_.back()));
  }
}

void stacked_executables::enqueue(lane_libraries& libraries, members all, void* scratch) const {
  const auto externals = layout_->externals;
  // In advance: nothing is on the stream yet.
  lists with;
  try {
    with.members.reserve(all.externals.size() / externals);
    std::size_t most = 0;
    for (const auto& one : pieces_) most = std::max(most, one.externals);
    with.stacked.reserve(most);
  } catch (const std::bad_alloc&) {
    throw nothing_enqueued(current_error());
  }
  parts_of_launch parts;
  while (!all.externals.empty()) {
    const auto left = all.externals.size() / externals;
    const auto* const next = next_piece(left);
    const auto count = next == nullptr ? 1 : std::min(left, next->count);
    const members here{all.externals.first(count * externals),
                       pads() ? all.own.first(count) : all.own};
    parts.enqueue([&] {
      if (next == nullptr) return alone_.enqueue(libraries, here.externals, scratch, nullptr);
      enqueue_piece(libraries, *next, here, scratch, with);
    });
    all.externals = all.externals.subspan(count * externals);
    if (pads()) all.own = all.own.subspan(count);
  }
}

void stacked_executables::enqueue_piece(lane_libraries& libraries, const piece& of,
                                        const members& all, void* scratch, lists& with) const {
  const auto externals = layout_->externals;
  const auto count = all.externals.size() / externals;
  // The parts of an input or output; `which` counts both.
  const auto members_of = [&](const batch_layout::part& one, std::size_t which) -> const auto& {
    with.members.clear();
    for (std::size_t i = 0; i < count; ++i) {
      const auto row =
          pads() ? static_cast<const program_launch*>(all.own[i])->row_bytes[which] : one.row_bytes;
      with.members.push_back({all.externals[i * externals + one.external], row});
    }
    return with.members;
  };
  const auto place_of = [&](std::size_t which) -> void* {
    return static_cast<std::byte*>(scratch) + offsets_[which] * of.count;
  };
  const auto shape_of = [&](const batch_layout::part& one) {
    return cuda::member_places{of.count, one.rows, one.row_bytes};
  };
  const auto& inputs = layout_->inputs;
  const auto& outputs = layout_->outputs;
  auto& stacked = with.stacked;
  stacked.assign(of.externals, nullptr);
  // Inputs that are not per request and constants are the same for all.
  std::copy_n(all.externals.begin(), std::min(externals, of.externals), stacked.begin());
  for (std::size_t i = 0; i < inputs.size(); ++i) stacked[inputs[i].number] = place_of(i);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    stacked[of.outputs[i]] = place_of(inputs.size() + i);
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
    of.runs->enqueue_steps(libraries, stacked,
                           static_cast<std::byte*>(scratch) + place_bytes_ * of.count, nullptr);
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto which = inputs.size() + i;
    scatter(libraries, place_of(which), members_of(outputs[i], which), shape_of(outputs[i]));
  }
}

}  // namespace sluice::operations
