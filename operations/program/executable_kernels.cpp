// SPDX-License-Identifier: Apache-2.0
#include "operations/program/executable.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <atomic>
#include <string>

// The generated kernels of an executable.
namespace sluice::operations {

std::string executable::not_fused() const {
  if (!fuses_) return "the program is not to be fused";
  if (steps_in_groups_ == steps_in_epilogues_ || on_host_) return {};
  switch (kernels_state_.load(std::memory_order_acquire)) {
    case kernels_state::loaded:
      return {};
    case kernels_state::none:
      return kernels_refusal_;
    default:
      return "the kernels are being compiled";
  }
}

bool executable::awaits_kernels() const noexcept {
  const auto current = kernels_state_.load(std::memory_order_acquire);
  return current == kernels_state::awaited || current == kernels_state::wanted ||
         (stacked_ && stacked_->awaits_kernels());
}

bool executable::kernels_are_settled() const noexcept {
  return std::all_of(fused_.actions.begin(), fused_.actions.end(),
                     [](const action& a) { return !a.kernel || a.kernel->is_settled(); });
}

bool executable::wants_kernels() const noexcept {
  bool wants = stacked_ && stacked_->wants_kernels();
  if (kernels_state_.load(std::memory_order_relaxed) == kernels_state::awaited &&
      kernels_are_settled()) {
    kernels_state_.store(kernels_state::wanted, std::memory_order_relaxed);
    wants = true;
  }
  return wants;
}

void executable::load_kernels(lane_libraries& libraries) const noexcept {
  if (stacked_) stacked_->load_kernels(libraries);
  if (kernels_state_.load(std::memory_order_relaxed) != kernels_state::wanted) return;
  try {
    for (const auto& a : fused_.actions) {
      if (a.kernel) a.kernel->load(libraries);
    }
    kernels_state_.store(kernels_state::loaded, std::memory_order_release);
    return;
  } catch (...) {
    try {
      kernels_refusal_ = current_error().what();
    } catch (...) {
      // There is no memory for the reason.
    }
  }
  kernels_state_.store(kernels_state::none, std::memory_order_release);
}

void executable::keep_form() noexcept {
  if (kernels_state_ != kernels_state::loaded) kernels_state_ = kernels_state::none;
}

void executable::improve(lane_libraries& libraries) const noexcept {
  load_kernels(libraries);
  make_capture(libraries);
}

}  // namespace sluice::operations
