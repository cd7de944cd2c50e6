// SPDX-License-Identifier: Apache-2.0
#include "service/front/inference_run.hpp"

#include "service/protocol/reply_json.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

// The text is several times as large, and lies in the memory of the front.
constexpr std::size_t most_json_output_bytes = std::size_t{16} << 20U;
constexpr std::uint64_t year_us = 31'536'000'000'000;  // keeps sums of times in range

/// What the request says of an output.
struct output_form {
  bool is_binary = false;
  const tensor_region* region = nullptr;
};

[[nodiscard]] output_form form_of(const inference_request& request, const result_tensor& output) {
  const auto named = std::find_if(request.outputs.begin(), request.outputs.end(),
                                  [&](const request_output& o) { return o.name == output.name; });
  if (named == request.outputs.end()) return {.is_binary = request.wants_binary_outputs};
  if (named->region) return {.region = &*named->region};
  return {.is_binary = named->is_binary};
}

}  // namespace

std::optional<std::chrono::steady_clock::time_point> deadline_of(
    const inference_request& request, std::chrono::steady_clock::time_point begin,
    std::optional<std::chrono::steady_clock::time_point> deadline) {
  if (request.timeout_us == 0) return deadline;
  const auto asked = begin + std::chrono::microseconds(std::min(request.timeout_us, year_us));
  return std::min(asked, deadline.value_or(asked));
}

run_request make_run(const inference_request& request, const route& model,
                     std::optional<std::chrono::steady_clock::time_point> deadline,
                     std::uint64_t connection) {
  run_request run{.model = model.model,
                  .version = model.version,
                  .priority = request.priority,
                  .deadline = deadline,
                  .connection = connection,
                  .sequence = request.sequence};
  run.inputs.reserve(request.inputs.size());
  for (const auto& input : request.inputs) {
    run.inputs.push_back({.name = input.name, .type = input.type, .shape = input.shape});
  }
  run.outputs.reserve(request.outputs.size());
  for (const auto& output : request.outputs) run.outputs.push_back(output.name);
  return run;
}

std::size_t json_output_bytes(const inference_request& request, const run_result& result) {
  std::size_t bytes = 0;
  for (const auto& output : result.outputs) {
    const auto form = form_of(request, output);
    if (!form.is_binary && form.region == nullptr) bytes += output.bytes.size();
  }
  return bytes;
}

http_reply make_run_reply(const inference_request& request, const tensor_regions& regions,
                          const route& model, run_result result) {
  if (result.error) return make_error_reply(*result.error);
  if (json_output_bytes(request, result) > most_json_output_bytes) {
    return make_error_reply(
        request_error(request_status::too_large,
                      "the outputs have more than 16 MiB, which is too much for JSON: ask for "
                      "binary outputs"));
  }
  http_reply reply{};
  std::vector<reply_output> outputs;
  outputs.reserve(result.outputs.size());
  for (const auto& output : result.outputs) {
    const auto form = form_of(request, output);
    outputs.push_back({.name = output.name,
                       .type = output.type,
                       .shape = output.shape,
                       .bytes = output.bytes,
                       .is_binary = form.is_binary,
                       .region = form.region});
    if (outputs.back().is_binary) reply.binary.push_back(output.bytes);
  }
  const std::string& version = result.version.empty() ? model.version : result.version;
  try {
    reply.text =
        inference_reply_json({.model = model.model, .version = version, .id = request.id}, outputs);
    regions.write_outputs(result);
  } catch (const request_error& failure) {
    return make_error_reply(failure);
  }
  reply.memory = std::move(result.memory);
  return reply;
}

}  // namespace sluice::service
