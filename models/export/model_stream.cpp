// SPDX-License-Identifier: Apache-2.0
#include "models/export/model_stream.hpp"

#include <sluice/runtime/error.hpp>

#include <google/protobuf/io/coded_stream.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sluice::models {

namespace {

using google::protobuf::io::CodedOutputStream;

static_assert(std::endian::native == std::endian::little, "raw data is in little-endian order");

/// The tag of a field that states its length.
constexpr std::uint32_t tag_of(int field) {
  return static_cast<std::uint32_t>(field) << 3U | 2U;
}
/// The size of such a field with a content of `bytes` bytes.
std::uint64_t size_of_field(int field, std::uint64_t bytes) {
  return CodedOutputStream::VarintSize32(tag_of(field)) + CodedOutputStream::VarintSize64(bytes) +
         bytes;
}
void start_field(CodedOutputStream& coded, int field, std::uint64_t bytes) {
  coded.WriteTag(tag_of(field));
  coded.WriteVarint64(bytes);
}

std::uint64_t bytes_of(const written_constant& constant) {
  return constant.on_host ? constant.on_host.bytes() : constant.on_device.bytes();
}
/// The size of the message of a constant.
std::uint64_t size_of_tensor(const written_constant& constant) {
  return constant.header.ByteSizeLong() +
         size_of_field(onnx::TensorProto::kRawDataFieldNumber, bytes_of(constant));
}

}  // namespace

bool write_stream(google::protobuf::io::ZeroCopyOutputStream& stream,
                  const written_program& program, const constant_reader& read) {
  auto model = program.message;
  const onnx::GraphProto graph = model.graph();
  model.clear_graph();
  std::uint64_t graph_bytes = graph.ByteSizeLong();
  for (const auto& constant : program.constants) {
    graph_bytes +=
        size_of_field(onnx::GraphProto::kInitializerFieldNumber, size_of_tensor(constant));
  }
  const auto all =
      model.ByteSizeLong() + size_of_field(onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  if (all > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    throw error(errc::unsupported, "the model has " + std::to_string(all) +
                                       " bytes, but a file of ONNX has less than 2 GiB");
  }
  CodedOutputStream coded(&stream);
  model.SerializeToCodedStream(&coded);
  start_field(coded, onnx::ModelProto::kGraphFieldNumber, graph_bytes);
  graph.SerializeToCodedStream(&coded);
  for (const auto& constant : program.constants) {
    coded.Trim();  // so that an error shows
    if (coded.HadError()) return false;
    const auto elements = read(constant);
    start_field(coded, onnx::GraphProto::kInitializerFieldNumber, size_of_tensor(constant));
    constant.header.SerializeToCodedStream(&coded);
    start_field(coded, onnx::TensorProto::kRawDataFieldNumber, elements.bytes());
    coded.WriteRaw(elements.data().get(), static_cast<int>(elements.bytes()));
  }
  coded.Trim();
  return !coded.HadError();
}

}  // namespace sluice::models
