// SPDX-License-Identifier: Apache-2.0
#include "envelope/timestamp_reader.hpp"
#include "runtime/seam.hpp"

#include <sluice/envelope/launch_timing.hpp>

#include <new>
#include <utility>

namespace sluice::detail {

launch_timing::launch_timing() noexcept = default;
launch_timing::launch_timing(std::unique_ptr<timed_launch> launch) noexcept
    : launch_(std::move(launch)) {}
launch_timing::launch_timing(launch_timing&& other) noexcept = default;
launch_timing& launch_timing::operator=(launch_timing&& other) noexcept = default;
launch_timing::~launch_timing() = default;

void launch_timing::take_pair() noexcept {
  if (launch_->pair == nullptr) launch_->take_pair();
}

void launch_timing::set_info(const kernel_info& info) noexcept {
  launch_->info = info;
}

void launch_timing::record_begin(stream_ref stream) noexcept {
  if (launch_->pair == nullptr) return;
  launch_->begun = stream.device().record_timestamp(launch_->pair->begin, stream.native());
}

void launch_timing::record_end(stream_ref stream) noexcept {
  if (launch_->pair == nullptr) return;
  launch_->ended = stream.device().record_timestamp(launch_->pair->end, stream.native());
}

void launch_timing::begin_with(const launch_timing& first) noexcept {
  if (!launch_) return;
  if (!first.launch_) return forget();
  launch_->share(*first.launch_);
  launch_->begun = first.launch_->begun;
}

void launch_timing::end_with(const launch_timing& first) noexcept {
  if (launch_ && first.launch_) launch_->ended = first.launch_->ended;
}

void launch_timing::forget() noexcept {
  if (!launch_) return;
  launch_->give_back();
  launch_->begun = launch_->ended = false;
}

void launch_timing::complete(std::shared_ptr<kernel_trace> trace, const kernel_info& info,
                             const kernel_times& times) noexcept {
  if (launch_ == nullptr) {
    call_trace(trace.get(), [&](kernel_trace& t) { t.after_timestamps(info, times); });
    return;
  }
  launch_->trace = std::move(trace);
  launch_->times = times;
  // The launch keeps the reader alive. `hand_over` may end both, and uses neither of them then.
  auto& reader = *launch_->reader;
  reader.hand_over(std::move(launch_));
}

launch_timestamps::launch_timestamps(device_runtime& runtime)
    : reader_(std::make_shared<timestamp_reader>(runtime_core::of(runtime)->shared_device())) {}

launch_timestamps::~launch_timestamps() {
  if (reader_->device().inherited()) {
    // The thread belongs to the parent, and so do the locks that it may have held.
    leave_to_parent(new (std::nothrow) std::shared_ptr<timestamp_reader>(std::move(reader_)));
    return;
  }
  reader_->stop();
}

launch_timing launch_timestamps::prepare(recycled_memory& memory) noexcept {
  try {
    return launch_timing(reader_->make(memory));
  } catch (...) {
    return {};
  }
}

}  // namespace sluice::detail
