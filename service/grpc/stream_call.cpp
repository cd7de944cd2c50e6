// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/stream_call.hpp"

#include "service/grpc/call_status.hpp"
#include "service/grpc/infer_reply.hpp"
#include "service/grpc/message_buffer.hpp"

#include <boost/asio/post.hpp>

#include <exception>
#include <utility>

namespace sluice::service {

stream_call::stream_call(grpc_context& context, grpc::CallbackServerContext& call,
                         call_admission admission)
    : streaming_call(context.sends, call, context.options.limits.requests_of_stream),
      context_(context),
      admission_(std::move(admission)),
      connection_(context.connections, call.peer()),
      sender_{.connection = connection_.number(),
              .deadline = call_deadline(call.deadline()),
              .trace = admission_.trace()} {}

void stream_call::receive(wire_reader bytes) {
  auto sender = sender_;
  sender.tenant = admission_.admit();
  const auto message = std::make_shared<infer_message>();
  try {
    auto submission = read_submission(bytes, *message, sender, context_);
    if (message->regions.input_bytes() == 0) return submit(std::move(submission), message);
    auto self = std::static_pointer_cast<stream_call>(shared_from_this());
    // The requests of a stream are submitted in their order.
    hold_reading();
    boost::asio::post(context_.copy_threads, [self = std::move(self), message,
                                              submission = std::move(submission)]() mutable {
      self->copy_and_submit(std::move(submission), message);
    });
  } catch (...) {
    answer_failure(*message, std::current_exception());
    resume_reading();
  }
}

void stream_call::copy_and_submit(infer_submission submission,
                                  const std::shared_ptr<infer_message>& message) noexcept {
  try {
    message->regions.read_inputs(*submission.inputs);
    submit(std::move(submission), message);
  } catch (...) {
    answer_failure(*message, std::current_exception());
  }
  resume_reading();
}

void stream_call::submit(infer_submission submission,
                         const std::shared_ptr<infer_message>& message) {
  const auto self = std::static_pointer_cast<stream_call>(shared_from_this());
  std::shared_ptr<awaited_run> run;
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (is_hung_up_) throw request_error(request_status::cancelled, "the client has hung up");
    number = ++count_;
    run = std::make_shared<awaited_run>(context_.backend, context_.deliveries,
                                        [self, number, message](run_result result) {
                                          self->receive_result(number, *message, std::move(result));
                                        });
    runs_.emplace(number, run);
  }
  try {
    run->submit(std::move(submission.run), std::move(submission.inputs));
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    runs_.erase(number);
    throw;
  }
}

void stream_call::on_hang_up() noexcept {
  runs cancelled;
  {
    const std::scoped_lock lock(mutex_);
    is_hung_up_ = true;
    cancelled.swap(runs_);
  }
  std::size_t unanswered = 0;
  for (const auto& each : cancelled) {
    if (each.second->cancel()) ++unanswered;
  }
  drop(unanswered);
}

void stream_call::receive_result(std::uint64_t run, const infer_message& message,
                                 run_result result) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    runs_.erase(run);
  }
  auto* const threads = reply_threads(context_, message, result);
  if (threads == nullptr) return reply(message, std::move(result));
  try {
    auto self = std::static_pointer_cast<stream_call>(shared_from_this());
    boost::asio::post(*threads,
                      [self = std::move(self), message, result = std::move(result)]() mutable {
                        self->reply(message, std::move(result));
                      });
  } catch (...) {
    answer_failure(message, std::current_exception());
  }
}

void stream_call::reply(const infer_message& message, run_result result) noexcept {
  grpc::ByteBuffer reply;
  std::unique_ptr<byte_charge> charge;
  try {
    reply = to_byte_buffer(make_stream_reply(
        make_infer_reply(message, std::move(result), context_.options.limits.reply_bytes)));
    charge = charge_for(reply, context_.replies);
  } catch (...) {
    return answer_failure(message, std::current_exception());
  }
  answer(reply, std::move(charge));
}

void stream_call::answer_failure(const infer_message& message,
                                 const std::exception_ptr& failure) noexcept {
  grpc::ByteBuffer reply;
  std::unique_ptr<byte_charge> charge;
  try {
    reply = to_byte_buffer(make_stream_error(message.request.id, error_of(failure).what()));
    charge = charge_for(reply, context_.replies);
  } catch (...) {
    return fail(error_of(std::current_exception()));
  }
  answer(reply, std::move(charge));
}

}  // namespace sluice::service
