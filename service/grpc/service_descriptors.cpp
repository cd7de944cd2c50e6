// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/service_descriptors.hpp"

#include <google/protobuf/compiler/parser.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <memory>
#include <stdexcept>

namespace sluice::service {
namespace {

namespace pb = google::protobuf;

struct proto_file {
  std::string_view name;
  std::string_view text;
};

constexpr proto_file proto_files[] = {
#include "proto_files.inc"
};

constexpr std::array<std::string_view, 2> names{"grpc.health.v1.Health",
                                                "inference.GRPCInferenceService"};

[[nodiscard]] std::unique_ptr<const pb::DescriptorPool> parse_files() {
  auto pool = std::make_unique<pb::DescriptorPool>();
  for (const auto& [name, text] : proto_files) {
    pb::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
    pb::io::Tokenizer tokens(&stream, nullptr);
    pb::FileDescriptorProto file;
    file.set_name(std::string(name));
    if (!pb::compiler::Parser().Parse(&tokens, &file) || pool->BuildFile(file) == nullptr) {
      throw std::logic_error(std::string(name) + " is malformed");
    }
  }
  return pool;
}

[[nodiscard]] const pb::DescriptorPool& pool_of_services() {
  static const auto pool = parse_files();
  return *pool;
}

[[nodiscard]] std::optional<std::string> encode(const pb::FileDescriptor* file) {
  if (file == nullptr) return std::nullopt;
  pb::FileDescriptorProto message;
  file->CopyTo(&message);
  return message.SerializeAsString();
}

}  // namespace

std::span<const std::string_view> service_names() noexcept {
  return names;
}

std::optional<std::string> descriptor_of_file(const std::string& name) {
  return encode(pool_of_services().FindFileByName(name));
}

std::optional<std::string> descriptor_of_symbol(const std::string& name) {
  return encode(pool_of_services().FindFileContainingSymbol(name));
}

}  // namespace sluice::service
