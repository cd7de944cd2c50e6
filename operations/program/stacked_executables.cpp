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

}  // namespace

member_copy_functions& member_copies() noexcept {
  static member_copy_functions functions{with_cuda<cuda::load_member_copies>(),
                                         with_cuda<cuda::gather_members>(),
                                         with_cuda<cuda::scatter_members>()};
  return functions;
}

stacked_executables::stacked_executables(const std::shared_ptr<const detail::program_graph>& graph,
                                         std::shared_ptr<const batch_layout> layout,
                                         const executable& alone)
    : batch_growth(graph->max_in_batch()),
      graph_(graph),
      layout_(std::move(layout)),
      alone_(alone),
      bytes_of_alone_(alone.bytes()),
      device_bytes_of_alone_(alone.device_bytes()),
      max_in_batch_(graph->max_in_batch()) {
  for (const auto* parts : {&layout_->inputs, &layout_->outputs}) {
    for (const auto& part : *parts) {
      offsets_.push_back(place_bytes_);
      place_bytes_ += aligned(part.bytes());  // a multiple of it is aligned, too
    }
  }
  most_commands_.reserve(max_in_batch_ + 1);  // adopting throws nothing
}
stacked_executables::~stacked_executables() = default;

void stacked_executables::add_one(const detail::program_graph& graph, lane_libraries& libraries) {
  member_copies().load(libraries);
  auto one = piece_of(graph, *layout_->full_run, 1);
  one->runs = &alone_;
  one->workspace_bytes = workspace_bytes_of_one();
  made_workspace_bytes_ = one->workspace_bytes;
  adopt(std::move(one));
  count_commands();
}

std::size_t stacked_executables::workspace_bytes_of_one() const noexcept {
  return place_bytes_ + alone_.scratch_bytes();
}

bool stacked_executables::make_size(std::size_t size, lane_libraries& libraries,
                                    const plan_limits& limits,
                                    const std::function<bool()>& is_interrupted) noexcept {
  const std::lock_guard lock(making_);
  if (made_size_ >= size) return true;
  try {
    const auto graph = graph_.lock();
    if (!graph) return false;
    libraries.runtime().device().require_usable();
    kept_.is_interrupted = is_interrupted;
    auto new_piece = make_piece(graph, libraries, limits, size);
    kept_ = {};
    if (!new_piece) return false;
    made_size_ = size;
    made_bytes_ += new_piece->storage->bytes();
    made_device_bytes_ += new_piece->storage->device_bytes();
    made_workspace_bytes_ = std::max(made_workspace_bytes_, new_piece->workspace_bytes);
    const std::lock_guard hand_over(hand_over_);
    made_[made_count_++] = std::move(new_piece);
    return true;
  } catch (...) {
    if (std::exchange(kept_.was_interrupted, false)) return true;
    // A library refuses so many runs, or there is no memory. Larger batches are cut.
    kept_ = {};
    return false;
  }
}

std::size_t stacked_executables::adopt_made() noexcept {
  {
    const std::lock_guard lock(hand_over_);
    for (auto& one : std::span(made_).first(made_count_)) adopt(std::move(one));
    made_count_ = 0;
  }
  count_commands();
  const auto all = pieces();
  return all.empty() ? 1 : all.back()->count;
}

void stacked_executables::adopt(std::unique_ptr<const piece> new_piece) noexcept {
  workspace_bytes_ = std::max(workspace_bytes_, new_piece->workspace_bytes);
  const auto count = piece_count_.load(std::memory_order_relaxed);
  pieces_[count] = std::move(new_piece);
  piece_count_.store(count + 1, std::memory_order_release);
}

std::unique_ptr<stacked_executables::piece> stacked_executables::piece_of(
    const detail::program_graph& graph, const program_inference& stacked, std::size_t count) const {
  auto result = std::make_unique<piece>();
  result->count = count;
  result->externals = stacked.uses.size();
  for (const auto& part : layout_->outputs) {
    result->outputs.push_back(external_of_output(graph, stacked, part.number));
  }
  return result;
}

std::unique_ptr<const stacked_executables::piece> stacked_executables::make_piece(
    const std::shared_ptr<const detail::program_graph>& graph, lane_libraries& libraries,
    const plan_limits& limits, std::size_t count) {
  if (place_bytes_ > max_workspace_bytes / count) return nullptr;
  member_copies().load(libraries);
  const auto kind = libraries.runtime().device().id().kind;
  const auto stacked =
      std::make_shared<const program_inference>(stacked_runs(*graph, *layout_->full_run, count));
  check_steps(*graph, *stacked, kind);
  const auto host_bytes = bytes_of_alone_ + made_bytes_;
  const auto exceeds = [](std::size_t limit, std::size_t use_count, std::size_t more) {
    return use_count > limit || more > limit - use_count;
  };
  if (exceeds(limits.host_bytes, host_bytes, price_of_plans(*graph, *stacked, kind).host_bytes))
    return nullptr;

  auto result = piece_of(*graph, *stacked, count);
  auto runs = std::make_unique<executable>(*graph, *stacked, libraries, &kept_);
  result->workspace_bytes = place_bytes_ * count + runs->workspace_bytes();
  const auto largest =
      std::max({result->workspace_bytes, made_workspace_bytes_, alone_.scratch_bytes()});
  const auto device_bytes_before = device_bytes_of_alone_ + made_device_bytes_;
  // `sets` of plans: a graph has one of its own.
  const auto fits = [&](std::size_t sets) {
    const auto device_bytes = sets * runs->device_bytes();
    return !exceeds(limits.host_bytes, host_bytes, sets * runs->bytes()) &&
           !exceeds(limits.device_bytes, device_bytes_before, device_bytes) &&
           !exceeds(limits.device_bytes, device_bytes_before + device_bytes, largest);
  };
  if (result->workspace_bytes > max_workspace_bytes || !fits(1)) return nullptr;
  const auto reserve = [&](std::size_t sets) {
    const auto device_bytes = sets * runs->device_bytes();
    if (device_bytes == 0) return;
    result->charge = libraries.runtime().reserve_memory(std::span(&device_bytes, 1));
  };
  reserve(1);
  if (graph->capture() != capture_policy::never && fits(2) &&
      program_capture::may_be_captured(*runs, place_bytes_ * count)) {
    try {
      reserve(2);
      // While requests wait, whatever the policy of the program.
      runs->allow_capture(graph, stacked, capture_policy::automatic, kind);
    } catch (const error&) {
      // The budget has no room for the plans of a graph.
    }
  }
  result->storage = std::move(runs);
  result->runs = result->storage.get();
  return result;
}

bool stacked_executables::awaits_kernels() const noexcept {
  const auto all = pieces();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& p) { return p->storage && p->storage->awaits_kernels(); });
}

bool stacked_executables::wants_kernels() const noexcept {
  bool wants = false;
  for (const auto& p : pieces()) wants |= p->storage && p->storage->wants_kernels();
  return wants;
}

void stacked_executables::load_kernels(lane_libraries& libraries) const noexcept {
  for (const auto& p : pieces()) {
    if (p->storage) p->storage->load_kernels(libraries);
  }
}

bool stacked_executables::awaits_capture() const noexcept {
  const auto all = pieces();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& p) { return p->storage && p->storage->awaits_capture(); });
}

bool stacked_executables::wants_capture() const noexcept {
  const auto all = pieces();
  return std::any_of(all.begin(), all.end(),
                     [](const auto& p) { return p->storage && p->storage->wants_capture(); });
}

void stacked_executables::make_capture(lane_libraries& libraries) const noexcept {
  for (const auto& p : pieces()) {
    if (p->storage) p->storage->make_capture(libraries);
  }
}

std::size_t stacked_executables::bytes() const noexcept {
  std::size_t sum = sizeof(*this) + layout_->full_run->bytes +
                    (offsets_.size() + max_in_batch_ + 1) * sizeof(std::size_t);
  for (const auto& p : pieces()) {
    sum += sizeof(*p) + p->outputs.size() * sizeof(std::uint32_t) +
           (p->storage ? p->storage->bytes() : 0);
  }
  return sum;
}

std::size_t stacked_executables::device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& p : pieces()) sum += p->storage ? p->storage->device_bytes() : 0;
  return sum;
}

std::size_t stacked_executables::shared_device_bytes() const noexcept {
  std::size_t sum = 0;
  for (const auto& p : pieces()) sum += p->storage ? p->storage->shared_device_bytes() : 0;
  return sum;
}

const stacked_executables::piece* stacked_executables::next_piece(
    std::size_t remaining) const noexcept {
  const auto all = pieces();
  if (all.empty() || remaining < all.front()->count) return nullptr;
  if (remaining >= all.back()->count) return all.back().get();
  // Rounded up if at most a quarter is missing.
  const auto power = std::bit_ceil(remaining);
  const auto count = 4 * remaining >= 3 * power ? power : std::bit_floor(remaining);
  return all[static_cast<std::size_t>(std::countr_zero(count / all.front()->count))].get();
}

std::size_t stacked_executables::commands_of(const piece& runs) noexcept {
  return runs.storage != nullptr ? runs.storage->commands() : runs.runs->step_commands();
}

std::size_t stacked_executables::commands(std::size_t count) const noexcept {
  return count < most_commands_.size() ? most_commands_[count] : count * alone_.commands();
}

void stacked_executables::count_commands() noexcept {
  most_commands_.assign(1, 0);
  for (std::size_t count = 1; count <= max_in_batch_; ++count) {
    std::size_t sum = 0;
    for (auto remaining = count; remaining != 0;) {
      const auto* const next = next_piece(remaining);
      sum += next == nullptr
                 ? alone_.commands()
                 : layout_->inputs.size() + commands_of(*next) + layout_->outputs.size();
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
    for (const auto& p : pieces()) capacity = std::max(capacity, p->externals);
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
    return cuda::member_places{member_piece.count, part.rows, part.row_bytes, part.interleaves};
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
        member_copies().gather(libraries, members_of(inputs[i], i), place_of(i),
                               shape_of(inputs[i]));
      } catch (...) {
        throw nothing_enqueued(current_error());
      }
    });
  }
  parts.enqueue([&] {
    auto* const steps_scratch =
        static_cast<std::byte*>(scratch) + place_bytes_ * member_piece.count;
    // One padded run is never captured.
    if (member_piece.storage == nullptr)
      return member_piece.runs->enqueue_steps(libraries, stacked, steps_scratch, nullptr, nullptr);
    member_piece.storage->enqueue(libraries, stacked, steps_scratch, nullptr);
  });
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto index = inputs.size() + i;
    member_copies().scatter(libraries, place_of(index), members_of(outputs[i], index),
                            shape_of(outputs[i]));
  }
}

}  // namespace sluice::operations
