// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_message.hpp"

#include "service/grpc/infer_parameters.hpp"
#include "service/grpc/tensor_contents.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"
#include "service/protocol/tensor_size.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace sluice::service {
namespace {

[[noreturn]] void refuse(const std::string& subject, const std::string& reason,
                         request_status status = request_status::invalid_argument) {
  throw request_error(status, subject + ": " + reason);
}

/// The input or output with this name, or with this number if it has none.
[[nodiscard]] std::string subject_of(const char* kind, const std::string& name, std::size_t index) {
  return kind + (name.empty() ? ' ' + std::to_string(index) : ' ' + quoted_name(name));
}

/// What is known of an input that is being read.
struct input_description {
  std::string name{};
  std::string datatype{};
  std::vector<std::int64_t> shape{};
  std::optional<wire_reader> contents{};
  region_parameters region{};
};

class infer_reader {
 public:
  explicit infer_reader(infer_message& message) : message_(message) {}

  void read(wire_reader bytes) {
    while (bytes.next()) {
      if (bytes.type() == wire_type::bytes) {
        read_field(bytes);
      } else {
        bytes.skip();
      }
    }
    finish();
  }

 private:
  void read_field(wire_reader& bytes) {
    switch (bytes.field()) {
      case 1:
        message_.model = bytes.text();
        return;
      case 2:
        message_.version = bytes.text();
        return;
      case 3:
        message_.request.id = bytes.text();
        return;
      case 4:
        return read_request_parameter(read_parameter(bytes.bytes()));
      case 5:
        return read_input(bytes.bytes());
      case 6:
        return read_output(bytes.bytes());
      case 7:
        if (raw_.size() == max_tensors) refuse("raw_input_contents", "more than 256 tensors");
        raw_.push_back(bytes.bytes());
        return;
      default:
        bytes.skip();
    }
  }

  void read_request_parameter(const infer_parameter& parameter) {
    auto& request = message_.request;
    if (parameter.name == "timeout") {
      request.timeout_us = parameter.count();
    } else if (parameter.name == "priority") {
      request.priority = parameter.count();
    } else if (parameter.name == "binary_data_output") {
      is_binary_output_ = parameter.boolean();
    } else if (parameter.name == "sequence_id") {
      sequence_.id = parameter.identifier();
    } else if (parameter.name == "sequence_start") {
      sequence_.starts = parameter.boolean();
    } else if (parameter.name == "sequence_end") {
      sequence_.ends = parameter.boolean();
    } else if (parameter.name == "triton_enable_empty_final_response") {
      message_.wants_final_mark = parameter.boolean();
    }
  }

  void read_input(wire_reader bytes) {
    const std::size_t index = message_.request.inputs.size();
    if (index == max_tensors) refuse("request", "more than 256 inputs or outputs");
    input_description input;
    while (bytes.next()) {
      if (bytes.is(1, wire_type::bytes)) {
        input.name = bytes.text();
      } else if (bytes.is(2, wire_type::bytes)) {
        input.datatype = bytes.text();
      } else if (bytes.is(3, wire_type::bytes)) {
        for (auto extents = bytes.bytes(); extents.size() > 0;) add_extent(input, extents);
      } else if (bytes.is(3, wire_type::varint)) {
        add_extent(input, bytes);
      } else if (bytes.is(4, wire_type::bytes)) {
        input.region.take(read_parameter(bytes.bytes()));
      } else if (bytes.is(5, wire_type::bytes)) {
        if (input.contents) refuse(subject_of("input", input.name, index), "contents occurs twice");
        input.contents = bytes.bytes();
      } else {
        bytes.skip();
      }
    }
    add_input(std::move(input), index);
  }

  void add_extent(input_description& input, wire_reader& extents) const {
    const auto extent = static_cast<std::int64_t>(extents.varint());
    const auto subject = [&] {
      return subject_of("input", input.name, message_.request.inputs.size());
    };
    if (extent < 0) refuse(subject(), "shape must have integers from 0 to 2^63 - 1");
    if (input.shape.size() == max_dimensions) refuse(subject(), "shape has more than 8 dimensions");
    input.shape.push_back(extent);
  }

  template <class Tensor>
  void check_name(const std::string& name, const std::string& subject,
                  const std::vector<Tensor>& tensors) const {
    if (name.empty()) refuse(subject, "name is missing");
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const Tensor& tensor) { return tensor.name == name; })) {
      refuse(subject, "the name occurs twice");
    }
  }

  void add_input(input_description input, std::size_t index) {
    const auto subject = subject_of("input", input.name, index);
    check_name(input.name, subject, message_.request.inputs);
    if (input.datatype == "BYTES") {
      refuse(subject, "the datatype BYTES is not supported", request_status::unimplemented);
    }
    if (input.datatype.empty()) refuse(subject, "datatype is missing");
    const auto type = datatype_from(input.datatype);
    if (!type) refuse(subject, "there is no datatype " + quoted_name(input.datatype));
    const auto bytes = tensor_bytes(input.shape, *type);
    if (!bytes || *bytes > max_bytes - total_bytes_) {
      refuse(subject, "the size exceeds 2^63 - 1 bytes");
    }
    total_bytes_ += *bytes;
    auto region = input.region.region(subject);
    if (region && region->bytes != *bytes) {
      refuse(subject, "shared_memory_byte_size is " + std::to_string(region->bytes) +
                          ", but shape and datatype need " + std::to_string(*bytes) + " bytes");
    }
    if (region && input.contents) refuse(subject, "has contents beside shared_memory_region");
    message_.elements.push_back(input.contents.value_or(wire_reader()));
    message_.request.inputs.push_back({.name = std::move(input.name),
                                       .type = *type,
                                       .shape = std::move(input.shape),
                                       .bytes = *bytes,
                                       .region = std::move(region)});
  }

  void read_output(wire_reader bytes) {
    const std::size_t index = message_.request.outputs.size();
    if (index == max_tensors) refuse("request", "more than 256 inputs or outputs");
    std::string name;
    bool has_classification = false;
    region_parameters region;
    while (bytes.next()) {
      if (bytes.is(1, wire_type::bytes)) {
        name = bytes.text();
      } else if (bytes.is(2, wire_type::bytes)) {
        const auto parameter = read_parameter(bytes.bytes());
        has_classification |= parameter.name == "classification";
        region.take(parameter);
      } else {
        bytes.skip();
      }
    }
    const auto subject = subject_of("output", name, index);
    check_name(name, subject, message_.request.outputs);
    if (has_classification) {
      refuse(subject, "classification is not supported", request_status::unimplemented);
    }
    message_.request.outputs.push_back({.name = std::move(name), .region = region.region(subject)});
  }

  void finish() {
    auto& request = message_.request;
    if (message_.model.empty()) refuse("request", "model_name is missing");
    if (!sequence_.id.empty()) {
      request.sequence = std::move(sequence_);
    } else if (sequence_.starts || sequence_.ends) {
      refuse("request", "sequence_start and sequence_end need a sequence_id");
    }
    // A request without elements, such as one without inputs, has them in either form.
    request.wants_binary_outputs = is_binary_output_.value_or(
        !raw_.empty() || std::all_of(message_.elements.begin(), message_.elements.end(),
                                     [](const wire_reader& each) { return each.size() == 0; }));
    for (auto& output : request.outputs) output.is_binary = request.wants_binary_outputs;
    if (raw_.empty()) return check_contents();
    take_raw();
  }

  void check_contents() const {
    for (std::size_t i = 0; i < message_.elements.size(); ++i) {
      const auto& input = message_.request.inputs[i];
      if (input.region) continue;
      // An element has a byte or more. Memory for the tensor is allocated before they are read.
      if (message_.elements[i].size() < input.bytes / size_of(input.type)) {
        refuse(subject_of("input", input.name, i),
               "contents has not as many elements as the shape needs");
      }
    }
  }

  void take_raw() {
    auto& inputs = message_.request.inputs;
    const auto count = std::count_if(inputs.begin(), inputs.end(),
                                     [](const request_input& input) { return !input.region; });
    if (raw_.size() != static_cast<std::size_t>(count)) {
      refuse("raw_input_contents", "has " + std::to_string(raw_.size()) +
                                       " tensors, but the request has " + std::to_string(count) +
                                       " inputs that are not in shared memory");
    }
    auto raw = raw_.begin();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].region) continue;
      const auto subject = [&] {
        return subject_of("input", inputs[i].name, i);
      };
      if (message_.elements[i].size() > 0) {
        refuse(subject(), "has contents beside raw_input_contents");
      }
      if (raw->size() != inputs[i].bytes) {
        refuse(subject(), "raw_input_contents has " + std::to_string(raw->size()) +
                              " bytes, but shape and datatype need " +
                              std::to_string(inputs[i].bytes));
      }
      inputs[i].is_binary = true;
      message_.elements[i] = *raw++;
    }
  }

  infer_message& message_;
  request_sequence sequence_{};
  std::optional<bool> is_binary_output_{};
  std::vector<wire_reader> raw_{};
  std::uint64_t total_bytes_ = 0;
};

}  // namespace

void parse_infer_message(wire_reader bytes, infer_message& message) {
  message = {};
  infer_reader(message).read(bytes);
}

void read_tensors(const infer_message& message, std::span<const std::span<std::byte>> tensors) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto& input = message.request.inputs[i];
    if (input.region) continue;
    wire_reader elements = message.elements[i];
    if (input.is_binary) {
      elements.copy(tensors[i]);
      continue;
    }
    try {
      read_contents(elements, input.type, tensors[i]);
    } catch (const request_error& failure) {
      refuse(subject_of("input", input.name, i), failure.what());
    }
  }
}

}  // namespace sluice::service
