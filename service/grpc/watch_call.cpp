// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/watch_call.hpp"

#include "service/grpc/message_buffer.hpp"

#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] serving_status serving_if(bool is_ready) noexcept {
  return is_ready ? serving_status::serving : serving_status::not_serving;
}

}  // namespace

std::optional<serving_status> health_of(std::string_view service, const model_backend& backend) {
  if (!service.empty() && service != "inference.GRPCInferenceService") return std::nullopt;
  return serving_if(backend.is_ready());
}

void watch_call::receive(wire_reader message) {
  const auto service = read_service_name(message);
  const std::scoped_lock lock(mutex_);
  if (is_over_) return drop(1);
  last_ = health_of(service, context_.backend).value_or(serving_status::service_unknown);
  send(to_byte_buffer(health_message(*last_)));
  // Not before: if it throws, the request is answered by the end of the call.
  is_open_ = true;
}

void watch_call::note_health(bool is_ready) {
  const std::scoped_lock lock(mutex_);
  const auto status = serving_if(is_ready);
  if (!is_open_ || last_ == serving_status::service_unknown || last_ == status) return;
  last_ = status;
  send(to_byte_buffer(health_message(status)));
}

void watch_call::end() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    is_over_ = true;
    if (!std::exchange(is_open_, false)) return;
  }
  drop(1);
}

}  // namespace sluice::service
