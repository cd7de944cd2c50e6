// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_call.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/infer_reply.hpp"
#include "service/grpc/infer_submission.hpp"
#include "service/grpc/message_buffer.hpp"

#include <boost/asio/post.hpp>

#include <exception>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] request_error client_has_hung_up() {
  return {request_status::cancelled, "the client has hung up"};
}

}  // namespace

infer_call::infer_call(grpc_context& context, grpc::CallbackServerContext& call)
    : unary_call(context.sends, call),
      context_(context),
      deadline_(call_deadline(call.deadline())),
      connection_(context.connections, call.peer()) {}

void infer_call::answer(wire_reader request) {
  auto submission =
      read_submission(request, message_, context_.backend, deadline_, connection_.number());
  const auto run =
      std::make_shared<awaited_run>(context_.backend, context_.deliveries,
                                    [this](run_result result) { receive(std::move(result)); });
  {
    const std::scoped_lock lock(mutex_);
    if (is_cancelled_) throw client_has_hung_up();
    run_ = run;
  }
  run->submit(std::move(submission.run), std::move(submission.inputs));
}

void infer_call::OnCancel() {
  std::shared_ptr<awaited_run> run;
  {
    const std::scoped_lock lock(mutex_);
    is_cancelled_ = true;
    run = run_;
  }
  if (run && run->cancel()) finish(client_has_hung_up());
}

void infer_call::receive(run_result result) noexcept {
  if (is_short(result)) return reply(std::move(result));
  try {
    boost::asio::post(context_.senders,
                      [this, result = std::move(result)]() mutable { reply(std::move(result)); });
  } catch (...) {
    finish(error_of(std::current_exception()));
  }
}

void infer_call::reply(run_result result) noexcept {
  grpc::ByteBuffer reply;
  try {
    reply = to_byte_buffer(
        make_infer_reply(message_, std::move(result), context_.options.limits.reply_bytes));
  } catch (...) {
    return finish(error_of(std::current_exception()));
  }
  finish(reply);
}

}  // namespace sluice::service
