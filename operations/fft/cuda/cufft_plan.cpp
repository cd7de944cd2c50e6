// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/cuda/cufft_plan.hpp"

#include "operations/aligned.hpp"
#include "operations/core/member_copies.hpp"
#include "operations/fft/scale_kernel.hpp"
#include "operations/parts_of_launch.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cstdint>

namespace sluice::cuda {
namespace {

using operations::aligned;
using operations::fft_key;
using operations::fft_kind;

/// The memory that cuFFT holds for a plan, in the process and on the device.
constexpr std::size_t plan_bytes = std::size_t{1} << 20U;

fft_key stacked(fft_key key, std::size_t count) {
  key.batch *= static_cast<std::int64_t>(count);
  key.input_distance = key.input_row();
  key.output_distance = key.output_row();
  return key;
}

template <class Real>
void scale_rows(const fft_key& key, double factor, void* y, native_stream* stream) {
  const auto numbers = key.kind == fft_kind::c2r ? 1 : 2;
  const auto size = [](std::int64_t n) {
    return static_cast<std::size_t>(n);
  };
  check(static_cast<cudaError_t>(operations::launch_scale(
      static_cast<Real*>(y), size(numbers * key.output_row()), size(key.batch),
      size(numbers * key.output_distance), static_cast<Real>(factor), stream)));
}

void enqueue_scaled(const cufft_transform& transform, double scale, void* workspace, void* x,
                    void* y, native_stream* stream) {
  transform.enqueue(workspace, x, y);
  if (scale == 1) return;
  if (transform.key().is_double == 0) {
    scale_rows<float>(transform.key(), scale, y, stream);
  } else {
    scale_rows<double>(transform.key(), scale, y, stream);
  }
}

}  // namespace

cufft_plan::piece::piece(const fft_key& single_key, std::size_t most_launches,
                         lane_libraries& libraries)
    : capacity(most_launches),
      transform(stacked(single_key, capacity), libraries.runtime().device(), libraries.stream()) {
  transform.warm_up(libraries);
}

cufft_plan::cufft_plan(const fft_key& key, lane_libraries& libraries)
    : single_(key, libraries.runtime().device(), libraries.stream()),
      batch_workspace_bytes_(single_.workspace_bytes()) {
  single_.warm_up(libraries);
  count_commands();
}
cufft_plan::~cufft_plan() = default;

std::size_t cufft_plan::bytes() const noexcept {
  return plan_bytes * (1 + pieces_.size());
}
// The pieces have reserved theirs.
std::size_t cufft_plan::device_bytes() const noexcept {
  return plan_bytes * (1 + pieces_.size());
}

std::size_t cufft_plan::bytes_of_input() const noexcept {
  return static_cast<std::size_t>(single_.key().batch * single_.key().input_row_bytes());
}
std::size_t cufft_plan::bytes_of_output() const noexcept {
  return static_cast<std::size_t>(single_.key().batch * single_.key().output_row_bytes());
}

void cufft_plan::add_batches(lane_libraries& libraries, const plan_limits& limits) const noexcept {
  try {
    if (operations::most_in_batch(single_.key()) == 0) return;
    const detail::library_call library_scope(libraries.runtime().device().id());
    const current_device_scope current(libraries.runtime().device());
    load_member_copies(libraries);
    for (const std::size_t capacity : {std::size_t{8}, operations::most_transforms}) {
      add(capacity, libraries, limits);
    }
  } catch (...) {
    // There is no memory. Launches are made with the transforms that there are.
  }
  count_commands();
}

void cufft_plan::add(std::size_t capacity, lane_libraries& libraries,
                     const plan_limits& limits) const {
  const auto fits = [](std::size_t limit, std::size_t use_count, std::size_t more) {
    return use_count <= limit && more <= limit - use_count;
  };
  if (!fits(limits.host_bytes, bytes(), plan_bytes)) return;
  pieces_.emplace_back(single_.key(), capacity, libraries);
  try {
    const auto places =
        aligned(capacity * bytes_of_input()) + aligned(capacity * bytes_of_output());
    const auto workspace =
        std::max(batch_workspace_bytes_, places + pieces_.back().transform.workspace_bytes());
    if (!fits(limits.device_bytes, device_bytes(), workspace)) {
      pieces_.pop_back();
      return;
    }
    pieces_.back().charge = libraries.runtime().reserve_memory(std::span(&plan_bytes, 1));
    batch_workspace_bytes_ = workspace;
  } catch (...) {
    pieces_.pop_back();
    throw;
  }
}

const cufft_plan::piece* cufft_plan::next_piece(std::size_t remaining) const noexcept {
  const piece* result = nullptr;
  // One that is at most half empty.
  for (const auto& p : pieces_) {
    if (2 * remaining > p.capacity) result = &p;
  }
  return result;
}

void cufft_plan::count_commands() const noexcept {
  for (std::size_t count = 1; count < most_commands_.size(); ++count) {
    std::size_t sum = 0;
    for (auto remaining = count; remaining != 0;) {
      const auto* const next = next_piece(remaining);
      sum += next == nullptr ? commands_of_transform + 1 : commands_of_transform + 3;
      remaining -= next == nullptr ? 1 : std::min(remaining, next->capacity);
    }
    most_commands_[count] = std::max(sum, most_commands_[count - 1]);
  }
}

void cufft_plan::enqueue(lane_libraries& libraries, double scale, void* workspace,
                         member operands) const {
  const current_device_scope current(libraries.runtime().device());
  enqueue_scaled(single_, scale, workspace, operands.x, operands.y, libraries.stream().native());
}

void cufft_plan::enqueue_batch(lane_libraries& libraries, double scale, void* workspace,
                               std::span<const member> members) const {
  operations::parts_of_launch parts;
  while (!members.empty()) {
    const auto* const member_piece = next_piece(members.size());
    const auto count =
        member_piece == nullptr ? 1 : std::min(members.size(), member_piece->capacity);
    const auto part = members.first(count);
    parts.enqueue([&] {
      if (member_piece == nullptr) return enqueue(libraries, scale, workspace, part.front());
      enqueue_piece(libraries, scale, static_cast<std::byte*>(workspace), *member_piece, part);
    });
    members = members.subspan(count);
  }
}

void cufft_plan::enqueue_piece(lane_libraries& libraries, double scale, std::byte* scratch,
                               const piece& member_piece, std::span<const member> members) const {
  std::array<member_row, operations::most_transforms> rows{};
  const auto rows_of = [&](void* member::*operand, std::size_t bytes) {
    for (std::size_t i = 0; i < members.size(); ++i) rows[i] = {members[i].*operand, bytes};
    return std::span<const member_row>(rows.data(), members.size());
  };
  const auto places = [&](std::size_t bytes) {
    return member_places{.count = member_piece.capacity, .rows = 1, .row_bytes = bytes};
  };
  auto* const x = scratch;
  auto* const y = x + aligned(member_piece.capacity * bytes_of_input());
  auto* const workspace = y + aligned(member_piece.capacity * bytes_of_output());
  try {
    gather_members(libraries, rows_of(&member::x, bytes_of_input()), x, places(bytes_of_input()));
  } catch (...) {
    throw nothing_enqueued(current_error());
  }
  const current_device_scope current(libraries.runtime().device());
  enqueue_scaled(member_piece.transform, scale, workspace, x, y, libraries.stream().native());
  scatter_members(libraries, y, rows_of(&member::y, bytes_of_output()), places(bytes_of_output()));
}

}  // namespace sluice::cuda
