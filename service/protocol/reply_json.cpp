// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/reply_json.hpp"

#include "service/protocol/json_elements.hpp"
#include "service/protocol/json_string.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"
#include "service/protocol/tensor_size.hpp"

namespace sluice::service {
namespace {

void append_field(std::string& text, std::string_view field, std::string_view value) {
  text += '"';
  text += field;
  text += "\":";
  append_json_string(text, value);
}

/// Appends `"field":[...]` with a call of `append_item` for each item.
template <class Items, class Append>
void append_list(std::string& text, std::string_view field, const Items& items,
                 Append append_item) {
  text += '"';
  text += field;
  text += "\":[";
  bool is_first = true;
  for (const auto& item : items) {
    if (!is_first) text += ',';
    is_first = false;
    append_item(item);
  }
  text += ']';
}

/// Appends the fields that describe a tensor.
void append_tensor(std::string& text, std::string_view name, datatype type,
                   std::span<const std::int64_t> shape) {
  append_field(text, "name", name);
  text += ',';
  append_field(text, "datatype", to_string(type));
  text += ',';
  append_list(text, "shape", shape, [&](std::int64_t extent) { text += std::to_string(extent); });
}

void append_output(std::string& text, const reply_output& output) {
  if (tensor_bytes(output.shape, output.type) != output.bytes.size()) {
    throw request_error(request_status::internal, "output " + quoted_name(output.name) +
                                                      ": the size is not that of the shape");
  }
  text += '{';
  append_tensor(text, output.name, output.type, output.shape);
  if (output.region != nullptr) {
    text += ",\"parameters\":{";
    append_field(text, "shared_memory_region", output.region->name);
    if (output.region->offset > 0) {
      text += ",\"shared_memory_offset\":" + std::to_string(output.region->offset);
    }
    text += ",\"shared_memory_byte_size\":" + std::to_string(output.bytes.size()) + '}';
  } else if (output.is_binary) {
    text += ",\"parameters\":{\"binary_data_size\":" + std::to_string(output.bytes.size()) + '}';
  } else {
    text += ",\"data\":";
    if (!append_json_elements(text, output.type, output.bytes)) {
      throw request_error(request_status::invalid_argument,
                          "output " + quoted_name(output.name) +
                              ": a NaN or an infinity has no JSON text; ask for binary data");
    }
  }
  text += '}';
}

void append_tensors(std::string& text, std::string_view field,
                    const std::vector<tensor_metadata>& tensors) {
  append_list(text, field, tensors, [&](const tensor_metadata& tensor) {
    text += '{';
    append_tensor(text, tensor.name, tensor.type, tensor.shape);
    text += '}';
  });
}

}  // namespace

std::string inference_reply_json(const reply_header& header,
                                 std::span<const reply_output> outputs) {
  std::string text;
  text.reserve(128 + 128 * outputs.size());
  text += '{';
  append_field(text, "model_name", header.model);
  text += ',';
  append_field(text, "model_version", header.version);
  text += ',';
  if (!header.id.empty()) {
    append_field(text, "id", header.id);
    text += ',';
  }
  append_list(text, "outputs", outputs,
              [&](const reply_output& output) { append_output(text, output); });
  text += '}';
  return text;
}

std::string model_metadata_json(const model_metadata& model) {
  std::string text = "{";
  append_field(text, "name", model.name);
  text += ',';
  append_list(text, "versions", model.versions,
              [&](const std::string& version) { append_json_string(text, version); });
  text += ',';
  append_field(text, "platform", model.platform);
  text += ',';
  append_tensors(text, "inputs", model.inputs);
  text += ',';
  append_tensors(text, "outputs", model.outputs);
  text += '}';
  return text;
}

std::string server_metadata_json(std::string_view name, std::string_view version,
                                 std::span<const std::string_view> extensions) {
  std::string text = "{";
  append_field(text, "name", name);
  text += ',';
  append_field(text, "version", version);
  text += ',';
  append_list(text, "extensions", extensions,
              [&](std::string_view extension) { append_json_string(text, extension); });
  text += '}';
  return text;
}

std::string error_json(std::string_view message) {
  std::string text = "{";
  append_field(text, "error", message);
  text += '}';
  return text;
}

}  // namespace sluice::service
