// SPDX-License-Identifier: Apache-2.0
#include "service/worker/worker_request.hpp"

#include "service/worker/completion_trace.hpp"
#include "service/worker/element_types.hpp"
#include "service/worker/shared_input.hpp"

#include <sluice/envelope/reply_token.hpp>
#include <sluice/operations/tensors.hpp>

#include <algorithm>
#include <optional>
#include <span>
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

/// The smallest results in bytes that the launch writes to the memory of the channel itself. For
/// smaller ones a copy takes less time.
constexpr std::size_t least_direct_bytes = std::size_t{64} << 10U;

/// Has the launch write its results to `memory`, in the order of the reply.
/// @param numbers  of the outputs of the model
void direct_results(run_to_host& request, const detail::model_run& run,
                    const std::vector<std::uint32_t>& numbers,
                    const std::shared_ptr<reply_region>& memory) {
  request.outputs.resize(request.what.outputs());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto& spec = run.results[numbers[i]];
    const std::shared_ptr<void> elements(memory, memory->tensor(i).data());
    request.outputs[run.outputs.empty() ? i : run.outputs[i]] =
        host_tensor::external(elements, spec.type, spec.shape);
  }
}

/// Memory of the channel for the results of a run; null if they are copied there afterwards.
[[nodiscard]] std::shared_ptr<reply_region> memory_for(const detail::model_run& run,
                                                       const std::vector<std::uint32_t>& numbers,
                                                       reply_sender& replies) {
  const bool is_cut = !run.shapes.empty();
  if (run.results.empty() || is_cut || run.result_bytes < least_direct_bytes) return nullptr;
  auto outputs = run.outputs;
  std::sort(outputs.begin(), outputs.end());
  // Two outputs of the model that are one of the program.
  if (std::adjacent_find(outputs.begin(), outputs.end()) != outputs.end()) return nullptr;
  std::vector<std::uint64_t> sizes;
  sizes.reserve(numbers.size());
  for (const auto number : numbers) sizes.push_back(run.results[number].bytes());
  return replies.reserve(sizes);
}

/// Sends the results of a run.
class run_receiver final : public reply_token<host_tensors>::receiver {
 public:
  /// @param memory  in which the results lie, or null
  run_receiver(worker_request::destination&& answer, worker_lanes::place place,
               detail::output_choice<host_tensors>&& choice, std::shared_ptr<reply_region> memory)
      : answer_(std::move(answer)),
        place_(std::move(place)),
        choice_(std::move(choice)),
        memory_(std::move(memory)) {}

  void succeed(host_tensors results) noexcept override {
    const auto failure = detail::failure_of([&] {
      auto chosen = choice_(std::move(results));
      worker_reply reply{.request = answer_.request,
                         .numbers = std::move(answer_.numbers),
                         .statistics = completion_trace::statistics_of_last(answer_.receipt),
                         .memory = std::move(memory_)};
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
  std::shared_ptr<reply_region> memory_;
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
  // Not before: the program may depend on the elements of an input in host memory.
  for (auto& input : run.inputs) {
    input = shared_input(answer_.lanes->service(), std::move(input));
  }
  run_to_host request{.what = std::move(run.what), .inputs = std::move(run.inputs)};
  auto memory = memory_for(run, answer_.numbers, *answer_.replies);
  if (memory) direct_results(request, run, answer_.numbers, memory);
  const auto client = sender;
  auto token = reply_token<host_tensors>::make<run_receiver>(
      std::move(answer_), lane.take_place(),
      detail::output_choice<host_tensors>(std::move(run.outputs), std::move(run.shapes)),
      std::move(memory));
  lane.executor().submit(std::move(request), options, std::move(token), client);
}

void worker_request::send_error(const error& why) noexcept {
  if (auto memory = std::move(answer_.memory)) memory->fail(why, answer_.model.get());
}

}  // namespace sluice::service
