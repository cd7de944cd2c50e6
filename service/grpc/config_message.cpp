// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/config_message.hpp"

#include "service/grpc/wire_writer.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sluice::service {
namespace {

/// The number of a type in the enumeration `DataType`.
[[nodiscard]] std::uint64_t type_number(datatype type) noexcept {
  switch (type) {
    case datatype::boolean:
      return 1;
    case datatype::uint8:
      return 2;
    case datatype::uint16:
      return 3;
    case datatype::uint32:
      return 4;
    case datatype::uint64:
      return 5;
    case datatype::int8:
      return 6;
    case datatype::int16:
      return 7;
    case datatype::int32:
      return 8;
    case datatype::int64:
      return 9;
    case datatype::fp16:
      return 10;
    case datatype::fp32:
      return 11;
    case datatype::fp64:
      return 12;
    case datatype::bf16:
      return 14;
  }
  return 0;
}

/// Appends a packed array.
template <class Number>
void append_numbers(std::string& message, std::uint32_t field, const std::vector<Number>& numbers) {
  std::string text;
  for (const auto each : numbers) append_varint(text, static_cast<std::uint64_t>(each));
  append_text(message, field, text);
}

/// Appends `ModelInput` or `ModelOutput`, which have different numbers for `dims`.
void append_config_tensors(std::string& message, std::uint32_t field,
                           const std::vector<config_tensor>& tensors, std::uint32_t dims_field) {
  for (const auto& tensor : tensors) {
    std::string text;
    append_text(text, 1, tensor.name);
    append_number(text, 2, type_number(tensor.type));
    append_numbers(text, dims_field, tensor.dims);
    append_bytes(message, field, text);
  }
}

/// `ModelVersionPolicy`.
[[nodiscard]] std::string policy_message(const version_policy& policy) {
  std::string choice;
  std::string text;
  switch (policy.kind) {
    case version_policy::choice::latest:
      append_number(choice, 1, policy.latest_count);
      append_bytes(text, 1, choice);
      break;
    case version_policy::choice::all:
      append_bytes(text, 2, choice);
      break;
    case version_policy::choice::specific:
      append_numbers(choice, 1, policy.versions);
      append_bytes(text, 3, choice);
      break;
  }
  return text;
}

/// `ModelSequenceBatching`.
[[nodiscard]] std::string sequences_message(const sequence_config& sequences) {
  std::string text;
  append_number(text, 1, static_cast<std::uint64_t>(sequences.idle_timeout.count()));
  for (const auto& each : sequences.state) {
    std::string state;
    append_text(state, 1, each.input);
    append_text(state, 2, each.output);
    append_number(state, 3, type_number(each.type));
    append_numbers(state, 4, each.dims);
    append_bytes(text, 5, state);
  }
  return text;
}

/// Appends an entry of a map from texts to texts or messages.
void append_entry(std::string& message, std::uint32_t field, std::string_view key,
                  std::string_view value) {
  std::string entry;
  append_text(entry, 1, key);
  append_bytes(entry, 2, value);
  append_bytes(message, field, entry);
}

/// `ModelEnsembling`.
[[nodiscard]] std::string chain_message(const std::vector<config_step>& steps) {
  std::string text;
  for (const auto& each : steps) {
    std::string step;
    append_text(step, 1, each.model);
    append_number(step, 2, each.version.value_or(~std::uint64_t{0}));  // -1
    for (const auto& [tensor, name] : each.inputs) append_entry(step, 3, tensor, name);
    for (const auto& [tensor, name] : each.outputs) append_entry(step, 4, tensor, name);
    append_bytes(text, 1, step);
  }
  return text;
}

void append_config_parameter(std::string& message, std::string_view key, std::string_view value) {
  std::string parameter;
  append_text(parameter, 1, value);
  append_entry(message, 14, key, parameter);
}

void append_warm_ups(std::string& message, const std::vector<warm_up>& warm_ups) {
  for (const auto& run : warm_ups) {
    std::string text;
    append_text(text, 1, run.name);
    append_number(text, 2, static_cast<std::uint64_t>(run.batch_size));
    for (const auto& input : run.inputs) {
      std::string tensor;
      append_number(tensor, 1, type_number(input.tensor.type));
      append_numbers(tensor, 2, input.tensor.dims);
      append_number(tensor, input.is_random ? 4 : 3, 1);
      append_entry(text, 3, input.tensor.name, tensor);
    }
    append_number(text, 4, static_cast<std::uint64_t>(run.count));
    append_bytes(message, 16, text);
  }
}

}  // namespace

std::string config_message(const model_config& config) {
  std::string text;
  append_text(text, 1, config.name);
  const bool is_chain = !config.steps.empty();
  append_text(text, 2, platform_of(config));
  append_bytes(text, 3, policy_message(config.versions));
  append_number(text, 4, static_cast<std::uint64_t>(config.max_batch_size));
  append_config_tensors(text, 5, config.inputs, 4);
  append_config_tensors(text, 6, config.outputs, 3);
  std::string group;  // of KIND_AUTO
  append_number(group, 2, static_cast<std::uint64_t>(config.lanes));
  append_bytes(text, 7, group);
  if (config.sequences) append_bytes(text, 13, sequences_message(*config.sequences));
  if (is_chain) append_bytes(text, 15, chain_message(config.steps));
  append_config_parameter(text, "precision", to_string(config.precision));
  append_config_parameter(text, "required", config.is_required ? "true" : "false");
  append_warm_ups(text, config.warm_ups);
  append_text(text, 17, is_chain ? "" : "sluice");
  std::string message;
  append_bytes(message, 1, text);
  return message;
}

}  // namespace sluice::service
