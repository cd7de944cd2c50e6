// SPDX-License-Identifier: Apache-2.0
#include "service/repository/config_text.hpp"
#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/dynamic_message.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

namespace pb = google::protobuf;
using field_type = pb::FieldDescriptorProto::Type;

struct field {
  const char* message;
  const char* name;
  int number;
  field_type type;
  const char* type_name = nullptr;  ///< of messages and enumerations
};

constexpr auto text_type = pb::FieldDescriptorProto::TYPE_STRING;
constexpr auto integer_type = pb::FieldDescriptorProto::TYPE_INT64;
constexpr auto boolean_type = pb::FieldDescriptorProto::TYPE_BOOL;
constexpr auto message_type = pb::FieldDescriptorProto::TYPE_MESSAGE;
constexpr auto enum_type = pb::FieldDescriptorProto::TYPE_ENUM;

// The keys that are supported, with the names and numbers of Triton's model configuration. All
// integers are wide here: the ranges are those of the keys, whatever the form of the config.
constexpr field single_fields[] = {
    {"ModelConfig", "name", 1, text_type},
    {"ModelConfig", "platform", 2, text_type},
    {"ModelConfig", "version_policy", 3, message_type, "ModelVersionPolicy"},
    {"ModelConfig", "max_batch_size", 4, integer_type},
    {"ModelConfig", "dynamic_batching", 11, message_type, "ModelDynamicBatching"},
    {"ModelConfig", "sequence_batching", 13, message_type, "ModelSequenceBatching"},
    {"ModelConfig", "ensemble_scheduling", 15, message_type, "ModelEnsembling"},
    {"ModelConfig", "backend", 17, text_type},
    {"ModelVersionPolicy", "latest", 1, message_type, "Latest"},
    {"ModelVersionPolicy", "all", 2, message_type, "All"},
    {"ModelVersionPolicy", "specific", 3, message_type, "Specific"},
    {"Latest", "num_versions", 1, integer_type},
    {"ModelInput", "name", 1, text_type},
    {"ModelInput", "data_type", 2, enum_type, "DataType"},
    {"ModelOutput", "name", 1, text_type},
    {"ModelOutput", "data_type", 2, enum_type, "DataType"},
    {"ModelInstanceGroup", "count", 2, integer_type},
    {"ModelInstanceGroup", "kind", 4, enum_type, "Kind"},
    {"ModelDynamicBatching", "max_queue_delay_microseconds", 2, integer_type},
    {"ModelSequenceBatching", "max_sequence_idle_microseconds", 1, integer_type},
    {"State", "input_name", 1, text_type},
    {"State", "output_name", 2, text_type},
    {"State", "data_type", 3, enum_type, "DataType"},
    {"Step", "model_name", 1, text_type},
    {"Step", "model_version", 2, integer_type},
    {"TensorNameEntry", "key", 1, text_type},
    {"TensorNameEntry", "value", 2, text_type},
    {"ModelWarmup", "name", 1, text_type},
    {"ModelWarmup", "batch_size", 2, integer_type},
    {"ModelWarmup", "count", 4, integer_type},
    {"WarmupInput", "data_type", 1, enum_type, "DataType"},
    {"WarmupInput", "zero_data", 3, boolean_type},
    {"WarmupInput", "random_data", 4, boolean_type},
    {"InputsEntry", "key", 1, text_type},
    {"InputsEntry", "value", 2, message_type, "WarmupInput"},
    {"ParametersEntry", "key", 1, text_type},
    {"ParametersEntry", "value", 2, message_type, "ModelParameter"},
    {"ModelParameter", "string_value", 1, text_type},
};

constexpr field repeated_fields[] = {
    {"ModelConfig", "input", 5, message_type, "ModelInput"},
    {"ModelConfig", "output", 6, message_type, "ModelOutput"},
    {"ModelConfig", "instance_group", 7, message_type, "ModelInstanceGroup"},
    {"ModelConfig", "parameters", 14, message_type, "ParametersEntry"},
    {"ModelConfig", "model_warmup", 16, message_type, "ModelWarmup"},
    {"Specific", "versions", 1, integer_type},
    {"ModelInput", "dims", 4, integer_type},
    {"ModelOutput", "dims", 3, integer_type},
    {"ModelDynamicBatching", "preferred_batch_size", 1, integer_type},
    {"ModelSequenceBatching", "state", 5, message_type, "State"},
    {"State", "dims", 4, integer_type},
    {"ModelEnsembling", "step", 1, message_type, "Step"},
    {"Step", "input_map", 3, message_type, "TensorNameEntry"},
    {"Step", "output_map", 4, message_type, "TensorNameEntry"},
    {"ModelWarmup", "inputs", 3, message_type, "InputsEntry"},
    {"WarmupInput", "dims", 2, integer_type},
};

constexpr const char* messages[] = {"ModelConfig",
                                    "ModelVersionPolicy",
                                    "Latest",
                                    "All",
                                    "Specific",
                                    "ModelInput",
                                    "ModelOutput",
                                    "ModelInstanceGroup",
                                    "ModelDynamicBatching",
                                    "ModelSequenceBatching",
                                    "State",
                                    "ModelEnsembling",
                                    "Step",
                                    "TensorNameEntry",
                                    "ModelWarmup",
                                    "WarmupInput",
                                    "InputsEntry",
                                    "ParametersEntry",
                                    "ModelParameter"};

// An enumerator's number is its place in the list.
constexpr const char* data_types[] = {"TYPE_INVALID", "TYPE_BOOL",   "TYPE_UINT8", "TYPE_UINT16",
                                      "TYPE_UINT32",  "TYPE_UINT64", "TYPE_INT8",  "TYPE_INT16",
                                      "TYPE_INT32",   "TYPE_INT64",  "TYPE_FP16",  "TYPE_FP32",
                                      "TYPE_FP64",    "TYPE_STRING", "TYPE_BF16"};
constexpr const char* kinds[] = {"KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"};

/// The messages of a config. They are described here, so that the build needs no compiler of
/// protobuf.
class schema {
 public:
  schema() {
    pb::FileDescriptorProto file;
    file.set_name("model_config");
    for (const char* name : messages) file.add_message_type()->set_name(name);
    add_enum(file, "DataType", data_types);
    add_enum(file, "Kind", kinds);
    for (const auto& f : single_fields) add_field(file, f, false);
    for (const auto& f : repeated_fields) add_field(file, f, true);
    const auto* built = pool_.BuildFile(file);
    if (built == nullptr) throw std::logic_error("the description of config.pbtxt is wrong");
    config_ = factory_.GetPrototype(built->FindMessageTypeByName("ModelConfig"));
  }
  /// An empty config. The schema must outlive it.
  [[nodiscard]] std::unique_ptr<pb::Message> make_config() const {
    return std::unique_ptr<pb::Message>(config_->New());
  }

 private:
  template <std::size_t N>
  static void add_enum(pb::FileDescriptorProto& file, const char* name,
                       const char* const (&enumerators)[N]) {
    auto* type = file.add_enum_type();
    type->set_name(name);
    for (std::size_t i = 0; i < N; ++i) {
      auto* value = type->add_value();
      value->set_name(enumerators[i]);
      value->set_number(static_cast<int>(i));
    }
  }
  static void add_field(pb::FileDescriptorProto& file, const field& f, bool is_repeated) {
    for (auto& message : *file.mutable_message_type()) {
      if (message.name() != f.message) continue;
      auto* added = message.add_field();
      added->set_name(f.name);
      added->set_number(f.number);
      added->set_label(is_repeated ? pb::FieldDescriptorProto::LABEL_REPEATED
                                   : pb::FieldDescriptorProto::LABEL_OPTIONAL);
      added->set_type(f.type);
      if (f.type_name != nullptr) added->set_type_name(f.type_name);
    }
  }

  pb::DescriptorPool pool_{};
  pb::DynamicMessageFactory factory_{};
  const pb::Message* config_ = nullptr;
};

/// Keeps the first error.
class error_keeper : public pb::io::ErrorCollector {
 public:
  void AddError(int line, int /*column*/, const std::string& message) override {
    if (!text_.empty()) return;
    // Lines count from 0; an error without a place has line -1.
    text_ = "line " + std::to_string(std::int64_t{line} + 1) + ": " + printable(message);
  }
  [[nodiscard]] const std::string& text() const noexcept { return text_; }

 private:
  std::string text_{};
};

nlohmann::json tree_of(const pb::Message& message);

/// The value of a field, or one of its values if `index` is not negative.
nlohmann::json value_of(const pb::Message& message, const pb::FieldDescriptor& f, int index) {
  const auto& reader = *message.GetReflection();
  const bool is_one = index < 0;
  switch (f.cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return is_one ? reader.GetInt64(message, &f) : reader.GetRepeatedInt64(message, &f, index);
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return is_one ? reader.GetBool(message, &f) : reader.GetRepeatedBool(message, &f, index);
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return (is_one ? reader.GetEnum(message, &f) : reader.GetRepeatedEnum(message, &f, index))
          ->name();
    case pb::FieldDescriptor::CPPTYPE_MESSAGE:
      return tree_of(is_one ? reader.GetMessage(message, &f)
                            : reader.GetRepeatedMessage(message, &f, index));
    default:
      return is_one ? reader.GetString(message, &f) : reader.GetRepeatedString(message, &f, index);
  }
}

/// The entries of a map, which the text writes as messages with the fields `key` and `value`.
nlohmann::json map_of(const pb::Message& message, const pb::FieldDescriptor& f, int size) {
  auto object = nlohmann::json::object();
  for (int i = 0; i < size; ++i) {
    const auto entry = value_of(message, f, i);
    const auto key = entry.value("key", std::string());
    if (!entry.contains("value"))
      throw config_error(f.name() + "." + printable(key) + " has no value");
    if (!object.emplace(key, entry.at("value")).second)
      throw config_error("the key " + f.name() + "." + printable(key) + " occurs twice");
  }
  return object;
}

nlohmann::json tree_of(const pb::Message& message) {
  const auto& type = *message.GetDescriptor();
  const auto& reader = *message.GetReflection();
  auto object = nlohmann::json::object();
  for (int i = 0; i < type.field_count(); ++i) {
    const auto& f = *type.field(i);
    if (!f.is_repeated()) {
      if (reader.HasField(message, &f)) object[f.name()] = value_of(message, f, -1);
      continue;
    }
    const int size = reader.FieldSize(message, &f);
    if (size == 0) continue;
    if (f.message_type() != nullptr && f.message_type()->name().ends_with("Entry")) {
      object[f.name()] = map_of(message, f, size);
      continue;
    }
    auto array = nlohmann::json::array();
    for (int k = 0; k < size; ++k) array.push_back(value_of(message, f, k));
    object[f.name()] = std::move(array);
  }
  if (type.name() == "ModelParameter") return object.value("string_value", std::string());
  return object;
}

}  // namespace

nlohmann::json parse_pbtxt(std::string_view text) {
  static const schema types;
  const auto config = types.make_config();
  error_keeper errors;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&errors);
  parser.SetRecursionLimit(16);
  pb::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, config.get())) throw config_error(errors.text());
  return tree_of(*config);
}

}  // namespace sluice::service
