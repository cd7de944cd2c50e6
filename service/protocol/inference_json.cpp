// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/inference_json.hpp"

#include "service/protocol/json_events.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"
#include "service/protocol/tensor_size.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

constexpr unsigned max_ignored_depth = 32;

/// Where in the document the parser is.
enum class place : std::uint8_t {
  document,
  request,
  request_parameters,
  inputs,
  input,
  shape,
  data,
  input_parameters,
  outputs,
  output,
  output_parameters,
  ignored,
};

enum class field : std::uint8_t {
  unknown,
  id,
  parameters,
  inputs,
  outputs,
  name,
  shape,
  datatype,
  data,
  binary_data_output,
  priority,
  timeout,
  sequence_id,
  sequence_start,
  sequence_end,
  binary_data_size,
  binary_data,
  classification,
  shared_memory_region,
  shared_memory_offset,
  shared_memory_byte_size,
};

constexpr std::array<std::string_view, 21> field_names{
    "",
    "id",
    "parameters",
    "inputs",
    "outputs",
    "name",
    "shape",
    "datatype",
    "data",
    "binary_data_output",
    "priority",
    "timeout",
    "sequence_id",
    "sequence_start",
    "sequence_end",
    "binary_data_size",
    "binary_data",
    "classification",
    "shared_memory_region",
    "shared_memory_offset",
    "shared_memory_byte_size",
};

constexpr std::array request_fields{field::id, field::inputs, field::outputs, field::parameters};
constexpr std::array request_parameters{
    field::binary_data_output, field::priority,       field::timeout,
    field::sequence_id,        field::sequence_start, field::sequence_end};
constexpr std::array input_fields{field::name, field::shape, field::datatype, field::data,
                                  field::parameters};
constexpr std::array input_parameters{field::binary_data_size, field::shared_memory_region,
                                      field::shared_memory_offset, field::shared_memory_byte_size};
constexpr std::array output_fields{field::name, field::parameters};
constexpr std::array output_parameters{field::binary_data, field::classification,
                                       field::shared_memory_region, field::shared_memory_offset,
                                       field::shared_memory_byte_size};

[[nodiscard]] std::string_view name_of(field f) noexcept {
  return field_names[static_cast<std::size_t>(f)];
}

[[nodiscard]] std::span<const field> fields_of(place object) noexcept {
  switch (object) {
    case place::request:
      return request_fields;
    case place::request_parameters:
      return request_parameters;
    case place::input:
      return input_fields;
    case place::input_parameters:
      return input_parameters;
    case place::output:
      return output_fields;
    case place::output_parameters:
      return output_parameters;
    default:
      return {};
  }
}

[[nodiscard]] field field_of(place object, std::string_view key) noexcept {
  for (const field f : fields_of(object)) {
    if (name_of(f) == key) return f;
  }
  return field::unknown;
}

[[nodiscard]] place parent_of(place p) noexcept {
  switch (p) {
    case place::request_parameters:
    case place::inputs:
    case place::outputs:
      return place::request;
    case place::input:
      return place::inputs;
    case place::shape:
    case place::data:
    case place::input_parameters:
      return place::input;
    case place::output:
      return place::outputs;
    case place::output_parameters:
      return place::output;
    default:
      return place::document;
  }
}

/// What is known of the input or output that is being read.
struct tensor_description {
  std::optional<std::string> name{};
  std::optional<std::string> datatype{};
  std::optional<std::vector<std::int64_t>> shape{};
  std::optional<std::uint64_t> elements{};  ///< in the text
  std::optional<std::uint64_t> binary_bytes{};
  std::optional<bool> is_binary{};
  std::optional<std::string> region{};
  std::optional<std::uint64_t> region_offset{};
  std::optional<std::uint64_t> region_bytes{};
  bool has_classification = false;
};

class request_reader : public json_events<request_reader> {
 public:
  /// The request, once the text is read.
  [[nodiscard]] inference_request finish() {
    if (!has(place::request, field::inputs)) refuse("inputs is missing");
    if (!sequence_.id.empty()) {
      request_.sequence = std::move(sequence_);
    } else if (sequence_.starts || sequence_.ends) {
      refuse("sequence_start and sequence_end need a sequence_id");
    }
    for (std::size_t i = 0; i < request_.outputs.size(); ++i) {
      request_.outputs[i].is_binary = binary_outputs_[i].value_or(request_.wants_binary_outputs);
    }
    return std::move(request_);
  }

  void begin_object() {
    switch (place_) {
      case place::document:
        return enter(place::request);
      case place::inputs:
        return begin_tensor(place::input, request_.inputs.size());
      case place::outputs:
        return begin_tensor(place::output, request_.outputs.size());
      case place::request:
        return field_ == field::parameters ? enter(place::request_parameters) : ignore();
      case place::input:
        return field_ == field::parameters ? enter(place::input_parameters) : ignore();
      case place::output:
        return field_ == field::parameters ? enter(place::output_parameters) : ignore();
      case place::shape:
        refuse("shape must be an array of integers");
      case place::data:
        refuse("data must be an array of scalars or of arrays");
      default:
        return ignore();
    }
  }

  void end_of_object() {
    if (place_ == place::ignored) return end_of_ignored();
    if (place_ == place::input) end_of_input();
    if (place_ == place::output) end_of_output();
    place_ = parent_of(place_);
  }

  void begin_array() {
    switch (place_) {
      case place::document:
        refuse("the request must be an object");
      case place::inputs:
      case place::outputs:
        refuse("inputs and outputs must be arrays of objects");
      case place::request:
        if (field_ == field::inputs) return enter(place::inputs);
        if (field_ == field::outputs) return enter(place::outputs);
        return ignore();
      case place::input:
        if (field_ == field::shape) {
          tensor_.shape.emplace();
          return enter(place::shape);
        }
        if (field_ == field::data) {
          tensor_.elements = 0;
          data_depth_ = 1;
          return enter(place::data);
        }
        return ignore();
      case place::shape:
        refuse("shape must be an array of integers");
      case place::data:
        if (++data_depth_ > max_dimensions) refuse("data is nested too deeply");
        return;
      default:
        return ignore();
    }
  }

  void end_of_array() {
    if (place_ == place::ignored) return end_of_ignored();
    if (place_ == place::data && --data_depth_ > 0) return;
    place_ = parent_of(place_);
  }

  void member(std::string_view key) {
    field_ = field_of(place_, key);
    if (field_ == field::unknown) return;
    if (has(place_, field_)) refuse(std::string(name_of(field_)) + " occurs twice");
    seen_[static_cast<std::size_t>(place_)] |= 1U << static_cast<unsigned>(field_);
  }

  void scalar(const json_scalar& value) {
    switch (place_) {
      case place::document:
        refuse("the request must be an object");
      case place::inputs:
      case place::outputs:
        refuse("inputs and outputs must be arrays of objects");
      case place::data:
        ++*tensor_.elements;
        return;
      case place::shape:
        return add_extent(value);
      case place::ignored:
        return;
      default:
        return set(value);
    }
  }

  /// What the parser reads: the request, or one of its tensors.
  [[nodiscard]] std::string subject() const {
    switch (place_) {
      case place::input:
      case place::shape:
      case place::data:
      case place::input_parameters:
        return subject("input", request_.inputs.size());
      case place::output:
      case place::output_parameters:
        return subject("output", request_.outputs.size());
      default:
        return "request";
    }
  }

 private:
  [[nodiscard]] std::string subject(const char* kind, std::size_t index) const {
    return kind + (tensor_.name ? ' ' + quoted_name(*tensor_.name) : ' ' + std::to_string(index));
  }

  [[noreturn]] void refuse(const std::string& reason,
                           request_status status = request_status::invalid_argument) const {
    throw request_error(status, subject() + ": " + reason);
  }
  [[noreturn]] void refuse_type(const char* expected) const {
    refuse(std::string(name_of(field_)) + " must be " + expected);
  }

  [[nodiscard]] bool has(place object, field f) const noexcept {
    return (seen_[static_cast<std::size_t>(object)] >> static_cast<unsigned>(f) & 1U) != 0;
  }

  void enter(place p) noexcept {
    place_ = p;
    seen_[static_cast<std::size_t>(p)] = 0;
  }

  void begin_tensor(place p, std::size_t count) {
    if (count == max_tensors) refuse("more than 256 inputs or outputs");
    tensor_ = {};
    enter(p);
  }

  /// Skips the object or array that begins, which no known field may have.
  void ignore() {
    if (place_ != place::ignored) {
      if (field_ == field::inputs || field_ == field::outputs || field_ == field::shape ||
          field_ == field::data) {
        refuse_type("an array");
      }
      if (field_ == field::parameters) refuse_type("an object");
      if (field_ != field::unknown) refuse_type("a scalar");
      ignored_place_ = place_;
      place_ = place::ignored;
      ignored_depth_ = 0;
    }
    if (++ignored_depth_ > max_ignored_depth) refuse("unknown fields are nested too deeply");
  }
  void end_of_ignored() noexcept {
    if (--ignored_depth_ == 0) place_ = ignored_place_;
  }

  [[nodiscard]] bool boolean_in(const json_scalar& value) const {
    const auto* boolean = std::get_if<bool>(&value);
    if (boolean == nullptr) refuse_type("true or false");
    return *boolean;
  }
  [[nodiscard]] std::uint64_t unsigned_in(const json_scalar& value) const {
    const auto* number = std::get_if<std::uint64_t>(&value);
    if (number == nullptr) refuse_type("an integer from 0 to 2^64 - 1");
    return *number;
  }
  [[nodiscard]] std::string string_in(const json_scalar& value) const {
    const auto* string = std::get_if<std::string_view>(&value);
    if (string == nullptr) refuse_type("a string");
    return std::string(*string);
  }
  /// As in Triton, the integer 0 and the empty string are no sequence.
  [[nodiscard]] std::string sequence_id_in(const json_scalar& value) const {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) {
      return *number == 0 ? std::string() : std::to_string(*number);
    }
    if (!std::holds_alternative<std::string_view>(value)) {
      refuse_type("a string or an integer from 0 to 2^64 - 1");
    }
    return string_in(value);
  }

  void add_extent(const json_scalar& value) {
    const auto* extent = std::get_if<std::uint64_t>(&value);
    if (extent == nullptr || *extent > max_bytes) {
      refuse("shape must be an array of integers from 0 to 2^63 - 1");
    }
    if (tensor_.shape->size() == max_dimensions) refuse("shape has more than 8 dimensions");
    tensor_.shape->push_back(static_cast<std::int64_t>(*extent));
  }

  void set(const json_scalar& value) {
    switch (field_) {
      case field::unknown:
        return;
      case field::id:
        request_.id = string_in(value);
        return;
      case field::inputs:
      case field::outputs:
      case field::shape:
      case field::data:
        refuse_type("an array");
      case field::parameters:
        refuse_type("an object");
      case field::name:
        tensor_.name = string_in(value);
        return;
      case field::datatype:
        tensor_.datatype = string_in(value);
        return;
      case field::binary_data_output:
        request_.wants_binary_outputs = boolean_in(value);
        return;
      case field::priority:
        request_.priority = unsigned_in(value);
        return;
      case field::timeout:
        request_.timeout_us = unsigned_in(value);
        return;
      case field::sequence_id:
        sequence_.id = sequence_id_in(value);
        return;
      case field::sequence_start:
        sequence_.starts = boolean_in(value);
        return;
      case field::sequence_end:
        sequence_.ends = boolean_in(value);
        return;
      case field::binary_data_size:
        tensor_.binary_bytes = unsigned_in(value);
        return;
      case field::binary_data:
        tensor_.is_binary = boolean_in(value);
        return;
      case field::classification:
        tensor_.has_classification = true;
        return;
      case field::shared_memory_region:
        tensor_.region = string_in(value);
        return;
      case field::shared_memory_offset:
        tensor_.region_offset = unsigned_in(value);
        return;
      case field::shared_memory_byte_size:
        tensor_.region_bytes = unsigned_in(value);
        return;
    }
  }

  /// Checks the name of the tensor at its end.
  template <class Tensor>
  void check_name(const std::vector<Tensor>& tensors) const {
    if (!tensor_.name) refuse("name is missing");
    if (tensor_.name->empty()) refuse("name is empty");
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const Tensor& tensor) { return tensor.name == *tensor_.name; })) {
      refuse("the name occurs twice");
    }
  }

  /// The place of the tensor in shared memory, if it has one.
  [[nodiscard]] std::optional<tensor_region> take_region() {
    if (!tensor_.region) {
      if (tensor_.region_offset || tensor_.region_bytes) {
        refuse("shared_memory_offset and shared_memory_byte_size need a shared_memory_region");
      }
      return std::nullopt;
    }
    if (!tensor_.region_bytes) refuse("shared_memory_byte_size is missing");
    return tensor_region{.name = std::move(*tensor_.region),
                         .offset = tensor_.region_offset.value_or(0),
                         .bytes = *tensor_.region_bytes};
  }

  [[nodiscard]] datatype type_of_input() const {
    if (!tensor_.datatype) refuse("datatype is missing");
    if (*tensor_.datatype == "BYTES") {
      refuse("the datatype BYTES is not supported", request_status::unimplemented);
    }
    const auto type = datatype_from(*tensor_.datatype);
    if (!type) refuse("there is no datatype " + quoted_name(*tensor_.datatype));
    return *type;
  }

  void end_of_input() {
    check_name(request_.inputs);
    const datatype type = type_of_input();
    if (!tensor_.shape) refuse("shape is missing");
    const auto bytes = tensor_bytes(*tensor_.shape, type);
    if (!bytes || *bytes > max_bytes - total_bytes_) refuse("the size exceeds 2^63 - 1 bytes");
    total_bytes_ += *bytes;
    if (tensor_.elements && tensor_.binary_bytes) refuse("has both data and binary_data_size");
    auto region = take_region();
    if (region && (tensor_.elements || tensor_.binary_bytes)) {
      refuse("has shared_memory_region beside data or binary_data_size");
    }
    if (!region && !tensor_.elements && !tensor_.binary_bytes) {
      refuse("has neither data nor binary_data_size");
    }
    if (region && region->bytes != *bytes) {
      refuse("shared_memory_byte_size is " + std::to_string(region->bytes) +
             ", but shape and datatype need " + std::to_string(*bytes) + " bytes");
    }
    if (tensor_.binary_bytes && *tensor_.binary_bytes != *bytes) {
      refuse("binary_data_size is " + std::to_string(*tensor_.binary_bytes) +
             ", but shape and datatype need " + std::to_string(*bytes) + " bytes");
    }
    if (tensor_.elements && *tensor_.elements != *bytes / size_of(type)) {
      refuse("data has " + std::to_string(*tensor_.elements) + " elements, but the shape needs " +
             std::to_string(*bytes / size_of(type)));
    }
    request_.inputs.push_back({.name = std::move(*tensor_.name),
                               .type = type,
                               .shape = std::move(*tensor_.shape),
                               .bytes = *bytes,
                               .is_binary = tensor_.binary_bytes.has_value(),
                               .region = std::move(region)});
  }

  void end_of_output() {
    check_name(request_.outputs);
    if (tensor_.has_classification) {
      refuse("classification is not supported", request_status::unimplemented);
    }
    binary_outputs_.push_back(tensor_.is_binary);
    auto region = take_region();
    request_.outputs.push_back({.name = std::move(*tensor_.name), .region = std::move(region)});
  }

  inference_request request_{};
  std::vector<std::optional<bool>> binary_outputs_{};  ///< `binary_data` of each output
  request_sequence sequence_{};
  tensor_description tensor_{};
  std::uint64_t total_bytes_ = 0;
  std::array<std::uint32_t, 12> seen_{};  ///< for each place, its known fields so far
  place place_ = place::document;
  field field_ = field::unknown;
  place ignored_place_ = place::document;  ///< the place that an ignored value belongs to
  unsigned ignored_depth_ = 0;
  unsigned data_depth_ = 0;
};

}  // namespace

std::uint64_t binary_bytes(const inference_request& request) noexcept {
  std::uint64_t bytes = 0;
  for (const auto& input : request.inputs) {
    if (input.is_binary) bytes += input.bytes;
  }
  return bytes;
}

inference_request parse_inference_request(std::string_view text,
                                          std::optional<std::uint64_t> body_binary_bytes) {
  if (text.empty() && body_binary_bytes != 0) {
    throw request_error(request_status::unimplemented,
                        "request: a raw binary request without a JSON text is not supported");
  }
  // The parser would take a NUL for the end of the text.
  if (const auto position = text.find('\0'); position != std::string_view::npos) {
    throw request_error(request_status::invalid_argument,
                        "request: malformed JSON at byte " + std::to_string(position + 1));
  }
  request_reader reader;
  (void)nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader);
  auto request = reader.finish();
  if (body_binary_bytes && *body_binary_bytes != binary_bytes(request)) {
    throw request_error(request_status::invalid_argument,
                        "request: binary_data_size of the inputs sums up to " +
                            std::to_string(binary_bytes(request)) + ", but " +
                            std::to_string(*body_binary_bytes) + " bytes follow the JSON text");
  }
  return request;
}

}  // namespace sluice::service
