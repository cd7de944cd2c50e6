// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/streaming_call.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/message_buffer.hpp"

#include <exception>
#include <utility>

namespace sluice::service {

void streaming_call::start() {
  self_ = shared_from_this();
  const std::scoped_lock lock(mutex_);
  proceed();
}

void streaming_call::drain() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    if (!end_) end_.emplace(grpc::StatusCode::UNAVAILABLE, "the server is shutting down");
  }
  on_drain();
  const std::scoped_lock lock(mutex_);
  proceed();
}

void streaming_call::OnReadDone(bool is_read) {
  grpc::ByteBuffer buffer;
  {
    const std::scoped_lock lock(mutex_);
    buffer.Swap(&received_);
    // What arrives after the end of the call has its status as the answer.
    if (!is_read || is_finished_) {
      is_reading_ = false;
      is_input_over_ = true;
      return proceed();
    }
    ++unanswered_;
  }
  std::optional<grpc::Status> failure;
  try {
    const received_message message(buffer);
    receive(message.reader());
  } catch (...) {
    const auto error = error_of(std::current_exception());
    failure.emplace(grpc_status(error.status()), error.what());
  }
  const std::scoped_lock lock(mutex_);
  is_reading_ = false;
  if (failure) {
    --unanswered_;
    if (!end_) end_ = std::move(failure);
  }
  proceed();
}

void streaming_call::OnWriteDone(bool is_written) {
  sends_.end(call_);
  if (!is_written) hang_up();
  const std::scoped_lock lock(mutex_);
  sent_ = {};
  is_writing_ = false;
  proceed();
}

void streaming_call::OnCancel() {
  hang_up();
}

void streaming_call::hang_up() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    has_hung_up_ = true;
    if (!end_) end_.emplace(grpc::StatusCode::CANCELLED, "the client has hung up");
  }
  on_hang_up();
  const std::scoped_lock lock(mutex_);
  proceed();
}

void streaming_call::OnDone() {
  sends_.end(call_);
  const auto self = std::move(self_);
  const std::scoped_lock lock(mutex_);
  received_.Clear();
  sent_ = {};
  waiting_.clear();
}

void streaming_call::answer(const grpc::ByteBuffer& message, std::unique_ptr<byte_charge> charge) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back({message, std::move(charge)});
  --unanswered_;
  proceed();
}

void streaming_call::fail(const request_error& error) noexcept {
  const std::scoped_lock lock(mutex_);
  if (!end_) end_.emplace(grpc_status(error.status()), error.what());
  --unanswered_;
  proceed();
}

void streaming_call::drop(std::size_t requests) noexcept {
  const std::scoped_lock lock(mutex_);
  unanswered_ -= requests;
  proceed();
}

void streaming_call::hold_reading() noexcept {
  const std::scoped_lock lock(mutex_);
  is_held_ = true;
}

void streaming_call::resume_reading() noexcept {
  const std::scoped_lock lock(mutex_);
  is_held_ = false;
  proceed();
}

void streaming_call::send(const grpc::ByteBuffer& message) {
  const std::scoped_lock lock(mutex_);
  waiting_.push_back({message, nullptr});
  proceed();
}

void streaming_call::proceed() {
  if (is_finished_) return;
  if (has_hung_up_) waiting_.clear();
  if (!is_writing_ && !waiting_.empty()) {
    is_writing_ = true;
    sent_.message.Swap(&waiting_.front().message);
    sent_.charge = std::move(waiting_.front().charge);
    waiting_.pop_front();
    sends_.begin(call_);
    StartWrite(&sent_.message);
  }
  if (!end_ && !is_input_over_) {
    const std::size_t busy = unanswered_ + waiting_.size() + (is_writing_ ? 1 : 0);
    if (!is_reading_ && !is_held_ && busy < most_unanswered_) {
      is_reading_ = true;
      StartRead(&received_);
    }
    return;
  }
  if (unanswered_ > 0 || is_writing_) return;
  is_finished_ = true;
  Finish(end_.value_or(grpc::Status::OK));
}

}  // namespace sluice::service
