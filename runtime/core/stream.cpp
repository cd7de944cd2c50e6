// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/stream.hpp>

#include <utility>

namespace sluice {
namespace {

detail::timeline& required(detail::timeline* timeline) {
  if (timeline == nullptr)
    throw error(errc::stream_misuse, "stream: no stream was given; there is no default stream");
  return *timeline;
}

}  // namespace

stream_id stream_ref::id() const noexcept {
  return timeline_ == nullptr ? stream_id{} : timeline_->id();
}
device& stream_ref::device() const {
  return required(timeline_).core().device();
}
native_stream* stream_ref::native() const {
  return required(timeline_).native();
}
bool stream_ref::completed(std::uint64_t ticket) const {
  auto& t = required(timeline_);
  if (!t.completed(ticket)) return false;
  t.acquire(ticket);
  return true;
}

void stream_ref::synchronize() const {
  required(timeline_).synchronize();
}

stream::stream(std::shared_ptr<detail::runtime_core> core, detail::timeline* t) noexcept
    : core_(std::move(core)), timeline_(t) {}

stream::stream(stream&& other) noexcept
    : core_(std::move(other.core_)), timeline_(std::exchange(other.timeline_, nullptr)) {}

stream& stream::operator=(stream&& other) noexcept {
  stream temporary(std::move(other));
  std::swap(core_, temporary.core_);
  std::swap(timeline_, temporary.timeline_);
  return *this;
}

stream::~stream() {
  retire();
}

void stream::retire() noexcept {
  if (timeline_ != nullptr) timeline_->retire();
}

}  // namespace sluice
