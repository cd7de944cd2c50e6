// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_call.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/infer_reply.hpp"
#include "service/grpc/message_buffer.hpp"

#include <boost/asio/post.hpp>

#include <exception>
#include <utility>

namespace sluice::service {

infer_call::infer_call(grpc_context& context, grpc::CallbackServerContext& call,
                       const call_admission& admission)
    : awaiting_call(context, call),
      connection_(context.connections, call.peer()),
      sender_{.tenant = admission.tenant(),
              .connection = connection_.number(),
              .deadline = call_deadline(call.deadline()),
              .trace = admission.trace()} {}

void infer_call::answer(wire_reader request) {
  auto submission = read_submission(request, message_, sender_, context());
  if (message_.regions.input_bytes() == 0) return submit(std::move(submission));
  boost::asio::post(context().copy_threads, [this, submission = std::move(submission)]() mutable {
    copy_and_submit(std::move(submission));
  });
}

void infer_call::copy_and_submit(infer_submission submission) noexcept {
  try {
    message_.regions.read_inputs(*submission.inputs);
    submit(std::move(submission));
  } catch (...) {
    finish(error_of(std::current_exception()));
  }
}

void infer_call::submit(infer_submission submission) {
  const auto run = await([this](run_result result) { receive(std::move(result)); });
  run->submit(std::move(submission.run), std::move(submission.inputs));
}

void infer_call::receive(run_result result) noexcept {
  auto* const threads = reply_threads(context(), message_, result);
  if (threads == nullptr) return reply(std::move(result));
  try {
    boost::asio::post(*threads,
                      [this, result = std::move(result)]() mutable { reply(std::move(result)); });
  } catch (...) {
    finish(error_of(std::current_exception()));
  }
}

void infer_call::reply(run_result result) noexcept {
  grpc::ByteBuffer reply;
  try {
    reply = to_byte_buffer(
        make_infer_reply(message_, std::move(result), context().options.limits.reply_bytes));
  } catch (...) {
    return finish(error_of(std::current_exception()));
  }
  finish(reply);
}

}  // namespace sluice::service
