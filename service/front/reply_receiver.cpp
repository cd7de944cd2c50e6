// SPDX-License-Identifier: Apache-2.0
#include "service/front/reply_receiver.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// The results of a reply in the order of the request, or nothing if the worker has sent others.
[[nodiscard]] std::optional<run_result> result_of(received_reply&& reply, const worker_run& run) {
  run_result result{.error = std::move(reply.error),
                    .memory = std::move(reply.memory),
                    .version = std::to_string(run.content->version),
                    .statistics = reply.statistics};
  if (result.error) return result;
  if (reply.outputs.size() != run.outputs.size()) return std::nullopt;
  for (const auto number : run.outputs) {
    const auto output =
        std::find_if(reply.outputs.begin(), reply.outputs.end(),
                     [number](const received_output& each) { return each.number == number; });
    if (output == reply.outputs.end()) return std::nullopt;
    const auto& declared = run.content->outputs[number];
    if (output->type != declared.type) return std::nullopt;
    result.outputs.push_back({.name = declared.name,
                              .type = output->type,
                              .shape = std::move(output->shape),
                              .bytes = output->bytes});
  }
  return result;
}

}  // namespace

bool reply_receiver::receive(worker_link& worker) {
  std::vector<received_reply> replies;
  std::exception_ptr fault;
  try {
    const std::lock_guard lock(worker.receive_mutex);
    (void)worker.channel.receive(replies);
  } catch (...) {
    fault = std::current_exception();
  }
  for (auto& reply : replies) {
    try {
      answer(std::move(reply), worker);
    } catch (...) {
      fault = std::current_exception();
    }
  }
  if (fault) std::rethrow_exception(fault);
  return !replies.empty();
}

void reply_receiver::answer(received_reply&& reply, worker_link& worker) {
  worker.runs_in_flight.fetch_sub(1, std::memory_order_relaxed);
  auto run = pending_.take(reply.number);
  if (!run || !run->done) return;
  // The answer may be followed by the next request.
  run->charge.reset();
  std::optional<run_result> result;
  try {
    result = result_of(std::move(reply), *run);
  } catch (const std::bad_alloc&) {
    run->done({.error = request_error(request_status::resource_exhausted,
                                      "the service has no memory for the reply")});
    return;
  }
  if (result) return run->done(std::move(*result));
  run->done({.error = request_error(request_status::internal,
                                    "the worker process has sent other outputs")});
  throw std::runtime_error("it has sent other outputs than those of the model");
}

}  // namespace sluice::service
