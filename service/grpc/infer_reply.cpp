// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_reply.hpp"

#include "service/arena/utf8_text.hpp"
#include "service/grpc/tensor_contents.hpp"
#include "service/grpc/wire_writer.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"
#include "service/protocol/tensor_size.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

// As in JSON. Their numbers may take ten times as many bytes, in the memory of the front.
constexpr std::uint64_t most_contents_bytes = std::uint64_t{16} << 20U;

[[nodiscard]] request_error too_large(const std::string& reason) {
  return {request_status::too_large, reason};
}

/// Whether the outputs stand in `raw_output_contents`. FP16 and BF16 have no other form, and a
/// message has one form for all outputs.
[[nodiscard]] bool is_raw(const inference_request& request, const run_result& result) {
  return request.wants_binary_outputs ||
         std::any_of(result.outputs.begin(), result.outputs.end(),
                     [](const result_tensor& each) { return !has_contents_field(each.type); });
}

/// An entry of a map of parameters, whose value is one field.
void append_entry(std::string& text, std::uint32_t map, std::string_view name,
                  const std::string& value) {
  std::string entry;
  append_text(entry, 1, name);
  append_bytes(entry, 2, value);
  append_bytes(text, map, entry);
}

void append_number_entry(std::string& text, std::uint32_t map, std::string_view name,
                         std::uint64_t number) {
  std::string value;
  append_number(value, 2, number);
  append_entry(text, map, name, value);
}

/// Where the output is wanted in shared memory; null if it is in the message.
[[nodiscard]] const tensor_region* region_of(const inference_request& request,
                                             const result_tensor& output) {
  const auto named = std::find_if(request.outputs.begin(), request.outputs.end(),
                                  [&](const request_output& o) { return o.name == output.name; });
  return named != request.outputs.end() && named->region ? &*named->region : nullptr;
}

void append_output(std::string& text, const result_tensor& output, const tensor_region* region,
                   bool is_raw) {
  std::string message;
  append_text(message, 1, output.name);
  append_text(message, 2, to_string(output.type));
  std::string shape;
  for (const auto extent : output.shape) append_varint(shape, static_cast<std::uint64_t>(extent));
  append_text(message, 3, shape);
  if (region != nullptr) {
    std::string name;
    append_text(name, 3, region->name);
    append_entry(message, 4, "shared_memory_region", name);
    if (region->offset > 0) {
      append_number_entry(message, 4, "shared_memory_offset", region->offset);
    }
    append_number_entry(message, 4, "shared_memory_byte_size", output.bytes.size());
  } else if (!is_raw) {
    append_bytes(message, 5, contents_message(output.type, output.bytes));
  }
  append_bytes(text, 5, message);
}

/// A parameter of the type `bool`.
void append_parameter(std::string& text, std::string_view name, bool value) {
  std::string number;
  append_number(number, 1, value ? 1 : 0);
  append_entry(text, 4, name, number);
}

}  // namespace

std::uint64_t outgoing_message::size() const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& each : parts) bytes += each.text.size() + each.bytes.size();
  return bytes;
}

outgoing_message make_infer_reply(const infer_message& request, run_result result,
                                  std::uint64_t most_bytes) {
  if (result.error) throw *std::move(result.error);
  const bool raw = is_raw(request.request, result);
  std::uint64_t bytes = 0;
  for (const auto& output : result.outputs) {
    if (tensor_bytes(output.shape, output.type) != output.bytes.size()) {
      throw request_error(request_status::internal, "output " + quoted_name(output.name) +
                                                        ": the size is not that of the shape");
    }
    if (region_of(request.request, output) == nullptr) bytes += output.bytes.size();
  }
  if (!raw && bytes > most_contents_bytes) {
    throw too_large(
        "the outputs have more than 16 MiB, which is too much for contents: ask for "
        "raw outputs with binary_data_output");
  }
  outgoing_message reply;
  reply.memory = std::move(result.memory);
  std::string* text = &reply.parts.emplace_back().text;
  append_text(*text, 1, request.model);
  append_text(*text, 2, result.version.empty() ? request.version : result.version);
  append_text(*text, 3, request.request.id);
  if (request.wants_final_mark) append_parameter(*text, "triton_final_response", true);
  for (const auto& output : result.outputs) {
    append_output(*text, output, region_of(request.request, output), raw);
  }
  for (std::size_t i = 0; raw && i < result.outputs.size(); ++i) {
    // An output in shared memory has an empty entry: clients count the entries.
    const bool is_here = region_of(request.request, result.outputs[i]) == nullptr;
    const auto output = is_here ? result.outputs[i].bytes : std::span<const std::byte>{};
    append_bytes_head(*text, 6, output.size());
    reply.parts.back().bytes = output;
    text = &reply.parts.emplace_back().text;
  }
  if (reply.size() > most_bytes) {
    throw too_large("the reply has " + std::to_string(reply.size()) + " bytes, but the limit is " +
                    std::to_string(most_bytes));
  }
  request.regions.write_outputs(result);
  return reply;
}

outgoing_message make_stream_reply(outgoing_message reply) {
  std::string head;
  append_bytes_head(head, 2, reply.size());
  reply.parts.front().text.insert(0, head);
  return reply;
}

outgoing_message make_stream_error(std::string_view id, std::string_view error) {
  std::string response;
  append_text(response, 3, id);
  outgoing_message reply;
  auto& text = reply.parts.emplace_back().text;
  append_text(text, 1, error.empty() ? "the request failed" : valid_utf8(error));
  append_bytes(text, 2, response);
  return reply;
}

}  // namespace sluice::service
