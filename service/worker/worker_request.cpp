// SPDX-License-Identifier: Apache-2.0
#include "service/worker/worker_request.hpp"

#include "service/worker/completion_trace.hpp"
#include "service/worker/element_types.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/tensors.hpp>

#include <optional>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] request_status status_of(errc code) noexcept {
  switch (code) {
    case errc::invalid_argument:
      return request_status::invalid_argument;
    case errc::unsupported:
      return request_status::unimplemented;
    case errc::out_of_memory:
    case errc::over_budget:
    case errc::overloaded:
      return request_status::resource_exhausted;
    case errc::deadline_exceeded:
      return request_status::deadline_exceeded;
    case errc::cancelled:
      return request_status::cancelled;
    case errc::shutting_down:
    case errc::device_lost:
      return request_status::unavailable;
    default:
      return request_status::internal;
  }
}

/// Sends the results of a run.
class run_receiver final : public reply_token<host_tensors>::receiver {
 public:
  run_receiver(worker_request::destination&& answer, worker_lanes::place place,
               detail::output_choice<host_tensors>&& choice)
      : answer_(std::move(answer)), place_(std::move(place)), choice_(std::move(choice)) {}

  void succeed(host_tensors results) noexcept override {
    const auto failure = detail::failure_of([&] {
      auto chosen = choice_(std::move(results));
      worker_reply reply{.request = answer_.request,
                         .numbers = std::move(answer_.numbers),
                         .statistics = completion_trace::statistics_of_last(answer_.receipt)};
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        const auto type = datatype_of(chosen[i].type());
        if (type != answer_.model->output_types.at(reply.numbers[i])) {
          throw error(errc::library_failure,
                      "the model declares another type for an output than it has");
        }
        reply.outputs.push_back(chosen[i]);
      }
      place_.reset();
      answer_.memory.reset();
      answer_.replies->send(std::move(reply));
    });
    if (failure) fail(*failure);
  }
  void fail(const error& failure) noexcept override {
    place_.reset();
    if (auto memory = std::move(answer_.memory)) memory->fail(failure, answer_.model.get());
  }

 private:
  worker_request::destination answer_;
  std::optional<worker_lanes::place> place_;  // until the answer
  const detail::output_choice<host_tensors> choice_;
};

}  // namespace

request_error client_error(const error& failure, const model_facts* model) {
  std::string text = failure.what();
  const bool has_path = model != nullptr && !model->path.empty();
  const auto start = has_path ? text.find(model->path) : std::string::npos;
  if (start != std::string::npos) text.replace(start, model->path.size(), "model.onnx");
  return {status_of(failure.code()), text};
}

void worker_request::pass_on(detail::model_run&& run) {
  if (!answer_.replies->can_send(run.result_bytes)) {
    answer_.memory->fail(
        {request_status::too_large, "the outputs of " + std::to_string(run.result_bytes) +
                                        " bytes are larger than the memory for outputs"});
    answer_.memory.reset();
    return;
  }
  auto& lane = answer_.lanes->choose(answer_.lane_count);
  run_to_host request{.what = std::move(run.what), .inputs = std::move(run.inputs)};
  const auto client = sender;
  auto token = reply_token<host_tensors>::make<run_receiver>(
      std::move(answer_), lane.take_place(),
      detail::output_choice<host_tensors>(std::move(run.outputs), std::move(run.shapes)));
  lane.executor().submit(std::move(request), options, std::move(token), client);
}

void worker_request::send_error(const error& why) noexcept {
  if (auto memory = std::move(answer_.memory)) memory->fail(why, answer_.model.get());
}

}  // namespace sluice::service
