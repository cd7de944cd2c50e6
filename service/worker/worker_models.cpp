// SPDX-License-Identifier: Apache-2.0
#include "service/worker/worker_models.hpp"

#include "service/worker/element_types.hpp"
#include "service/worker/warm_up_request.hpp"

#include <chrono>
#include <utility>

namespace sluice::service {
namespace {

/// The name of a model in the table.
[[nodiscard]] std::string table_name(std::uint32_t handle) {
  return std::to_string(handle);
}

/// The declaration of an input or an output for clients.
[[nodiscard]] nlohmann::json declaration_of(const model_value& value) {
  const auto type = value.type ? datatype_of(*value.type) : std::nullopt;
  if (!type) {
    throw request_error(request_status::unimplemented,
                        value.name + " has a type that the protocol does not have");
  }
  if (!value.shape) {
    throw request_error(request_status::unimplemented,
                        "the model leaves the rank of " + value.name + " open");
  }
  auto shape = nlohmann::json::array();
  for (const auto& dimension : *value.shape) shape.push_back(dimension.extent.value_or(-1));
  return {{"name", value.name}, {"datatype", to_string(*type)}, {"shape", std::move(shape)}};
}

[[nodiscard]] nlohmann::json declarations_of(const std::vector<model_value>& values) {
  auto all = nlohmann::json::array();
  for (const auto& value : values) all.push_back(declaration_of(value));
  return all;
}

[[nodiscard]] std::vector<std::string> names_of(const std::vector<model_value>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& value : values) names.push_back(value.name);
  return names;
}

/// The facts of a model whose outputs all have a type in the protocol.
[[nodiscard]] std::shared_ptr<const model_facts> facts_of(const loaded_model& loaded) {
  auto facts = std::make_shared<model_facts>();
  for (const auto& value : loaded.source->outputs()) {
    facts->output_types.push_back(*datatype_of(*value.type));
  }
  facts->path = loaded.order.source.path;
  return facts;
}

[[nodiscard]] request_priority priority_of(std::uint64_t priority) noexcept {
  return priority == 1   ? request_priority::high
         : priority <= 2 ? request_priority::normal
                         : request_priority::low;
}

/// The id of a request for `cancel_request`, which is never 0.
[[nodiscard]] std::uint64_t id_of(std::uint64_t request) noexcept {
  return request + 1;
}

[[nodiscard]] request_options options_of(const run_message& message) {
  request_options options{.id = id_of(message.number), .priority = priority_of(message.priority)};
  if (message.deadline_ns != 0) {
    options.deadline =
        timer::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(message.deadline_ns)));
  }
  return options;
}

/// Requests come from the front alone, which cancels them one by one.
[[nodiscard]] request_sender sender_of(const run_message& message) noexcept {
  return {message.tenant + 1};
}

}  // namespace

worker_models::worker_models(const std::shared_ptr<device_service>& service,
                             const std::shared_ptr<wake_event>& wake, worker_lanes& lanes,
                             worker_channel& channel, reply_sender& replies,
                             request_registry& registry)
    : lanes_(lanes),
      channel_(channel),
      replies_(replies),
      registry_(registry),
      table_(service, [wake] { wake->signal(); }) {}

nlohmann::json worker_models::add(loaded_model&& loaded) {
  const auto handle = loaded.order.handle;
  try {
    if (!loaded.source) throw request_error(request_status::unavailable, loaded.problem);
    constexpr auto most = tensor_descriptor::max_count;
    if (loaded.source->inputs().size() > most || loaded.source->outputs().size() > most) {
      throw request_error(request_status::unimplemented,
                          "the model has more than " + std::to_string(most) + " inputs or outputs");
    }
    auto answer = nlohmann::json{{"loaded", handle},
                                 {"inputs", declarations_of(loaded.source->inputs())},
                                 {"outputs", declarations_of(loaded.source->outputs())}};
    served model{.inputs = names_of(loaded.source->inputs()),
                 .outputs = names_of(loaded.source->outputs()),
                 .facts = facts_of(loaded),
                 .lanes = loaded.order.lanes};
    (void)table_.load({.name = table_name(handle),
                       .source = std::move(loaded.source),
                       .options = loaded.order.options});
    served_[handle] = std::move(model);
    return answer;
  } catch (const std::exception& e) {
    return {{"refused", handle}, {"problem", e.what()}};
  }
}

void worker_models::remove(std::uint32_t handle) {
  if (served_.erase(handle) != 0) (void)table_.unload({.name = table_name(handle)});
}

void worker_models::run(const run_message& message) noexcept {
  const auto memory =
      std::make_shared<request_memory>(replies_, registry_, message.number, sender_of(message));
  try {
    start(message, memory);
  } catch (const error& e) {
    memory->fail(e, nullptr);
  } catch (const request_error& e) {
    memory->fail(e);
  } catch (const std::exception& e) {
    memory->fail({request_status::internal, e.what()});
  }
}

void worker_models::start(const run_message& message,
                          const std::shared_ptr<request_memory>& memory) {
  const auto receipt = std::chrono::steady_clock::now();
  const auto found = served_.find(message.model);
  if (found == served_.end()) {
    throw request_error(request_status::unavailable, "the model is not served any more");
  }
  const auto& model = found->second;
  auto numbers = message.outputs;
  for (std::uint32_t i = 0; message.outputs.empty() && i < model.outputs.size(); ++i) {
    numbers.push_back(i);
  }
  run_model run{.name = table_name(message.model), .inputs = inputs_of(message, model, memory)};
  for (const auto number : message.outputs) run.outputs.push_back(model.outputs.at(number));
  auto request =
      std::make_unique<worker_request>(options_of(message), sender_of(message),
                                       worker_request::destination{.replies = &replies_,
                                                                   .lanes = &lanes_,
                                                                   .lane_count = model.lanes,
                                                                   .request = message.number,
                                                                   .numbers = std::move(numbers),
                                                                   .model = model.facts,
                                                                   .memory = memory,
                                                                   .receipt = receipt});
  table_.run(std::move(request), std::move(run));
}

void worker_models::warm_up(std::uint32_t handle, std::map<std::string, run_input> inputs,
                            const std::function<void(const error*)>& done) noexcept {
  const auto failure = detail::failure_of([&] {
    const auto found = served_.find(handle);
    if (found == served_.end()) throw error(errc::cancelled, "the model has been unloaded");
    const auto finish = [done, model = found->second.facts](const error* why) {
      if (why == nullptr) return done(nullptr);
      const error shown(why->code(), client_error(*why, model.get()).what());
      done(&shown);
    };
    run_model run{.name = table_name(handle), .inputs = std::move(inputs)};
    table_.run(std::make_unique<warm_up_request>(lanes_, found->second.lanes, finish),
               std::move(run));
  });
  if (failure) done(&*failure);
}

std::map<std::string, run_input> worker_models::inputs_of(
    const run_message& message, const served& model,
    const std::shared_ptr<request_memory>& memory) const {
  std::map<std::string, run_input> inputs;
  for (const auto& input : message.inputs) {
    const std::shared_ptr<void> elements(memory, channel_.memory().data() + input.offset);
    extents shape;
    for (const auto extent : input.shape) shape.push_back(extent);
    inputs.emplace(model.inputs.at(input.number),
                   host_tensor::external(elements, element_type_of(input.type), shape));
  }
  return inputs;
}

void worker_models::cancel(std::uint64_t request) noexcept {
  const auto sender = registry_.find(request);
  if (!sender) return;
  table_.cancel(*sender, id_of(request));
  lanes_.cancel(*sender, id_of(request));
}

}  // namespace sluice::service
