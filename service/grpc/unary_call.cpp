// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/unary_call.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/message_buffer.hpp"

#include <exception>

namespace sluice::service {

void unary_call::OnReadDone(bool is_read) {
  try {
    if (!is_read) {
      throw request_error(request_status::invalid_argument, "the call has no message");
    }
    const received_message message(request_);
    answer(message.reader());
  } catch (...) {
    finish(error_of(std::current_exception()));
  }
}

void unary_call::OnDone() {
  context_.sends.end(call_);
  delete this;
}

void unary_call::finish(const grpc::ByteBuffer& reply) {
  try {
    charge_ = charge_for(reply, context_.replies);
  } catch (...) {
    return finish(error_of(std::current_exception()));
  }
  reply_ = reply;
  context_.sends.begin(call_);
  StartWriteAndFinish(&reply_, grpc::WriteOptions(), grpc::Status::OK);
}

void unary_call::finish(const request_error& error) {
  Finish(failed_status(error, call_));
}

}  // namespace sluice::service
