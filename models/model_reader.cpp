// SPDX-License-Identifier: Apache-2.0
#include "models/model_reader.hpp"

#include "models/element_types.hpp"

#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/extents.hpp>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

namespace sluice::models {

namespace {

using google::protobuf::MessageLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;

// The numbers of fields, in onnx.proto.
constexpr std::uint32_t graph_of_model = 7;
constexpr std::uint32_t nodes_of_graph = 1;
constexpr std::uint32_t initializers_of_graph = 5;
constexpr std::uint32_t raw_data_of_tensor = 9;

/// The forms in which a field is written.
enum wire_type : std::uint32_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

constexpr std::uint32_t tag_of(std::uint32_t field) {
  return field << 3U | delimited;
}

/// Walks through the fields of a message and of those within it. Where it meets something that the
/// classes of protobuf may understand otherwise, it gives up, and they read the whole message.
class model_walk {
 public:
  model_walk(CodedInputStream& input, model_contents& contents)
      : input_(input), contents_(contents) {}

  /// Reads the model. Returns whether it has been read.
  bool read_model() {
    std::string rest;
    bool has_graph = false;
    const bool is_read = for_each_field([&](std::uint32_t tag) {
      if (tag != tag_of(graph_of_model)) return copy_field(tag, rest);
      if (std::exchange(has_graph, true)) return false;
      return within([&] { return read_graph(*contents_.message.mutable_graph()); });
    });
    return is_read && ends_at_limit() && contents_.message.MergeFromString(rest);
  }

 private:
  bool read_graph(onnx::GraphProto& graph) {
    std::string rest;
    const bool is_read = for_each_field([&](std::uint32_t tag) {
      // One by one: a copy of all nodes could be as large as the file.
      if (tag == tag_of(nodes_of_graph)) return read_whole(*graph.add_node());
      if (tag != tag_of(initializers_of_graph)) return copy_field(tag, rest);
      return within([&] { return read_initializer(*graph.add_initializer()); });
    });
    return is_read && graph.MergeFromString(rest);
  }

  bool read_initializer(onnx::TensorProto& tensor) {
    std::string rest;
    host_tensor raw;
    const bool is_read = for_each_field([&](std::uint32_t tag) {
      if (tag != tag_of(raw_data_of_tensor)) return copy_field(tag, rest);
      int size = 0;
      if (raw || tensor.has_raw_data() || !read_size(size)) return false;
      const auto bytes = static_cast<std::size_t>(size);
      // Other fields come first, unless the file was written by hand.
      if (bytes >= min_separate_bytes && tensor.MergeFromString(rest)) {
        rest.clear();
        raw = tensor_for(tensor, bytes);
      }
      return raw ? input_.ReadRaw(raw.data().get(), size)
                 : input_.ReadString(tensor.mutable_raw_data(), size);
    });
    if (!is_read || !tensor.MergeFromString(rest)) return false;
    // Fields behind the data may have changed the type or the shape.
    if (raw && !fits(raw, tensor)) return false;
    contents_.raw_data.push_back(std::move(raw));
    return true;
  }
  [[nodiscard]] static extents shape_of(const onnx::TensorProto& tensor) {
    return extents(std::span<const std::int64_t>(tensor.dims().data(),
                                                 static_cast<std::size_t>(tensor.dims_size())));
  }
  [[nodiscard]] static bool fits(const host_tensor& raw, const onnx::TensorProto& tensor) {
    // The dimensions may be more than those of any tensor.
    return find_element_type(tensor.data_type()) == raw.type() &&
           std::equal(tensor.dims().begin(), tensor.dims().end(), raw.shape().begin(),
                      raw.shape().end()) &&
           tensor.data_location() != onnx::TensorProto::EXTERNAL;
  }
  /// A tensor for raw data; none if its bytes are not those of the elements.
  [[nodiscard]] static host_tensor tensor_for(const onnx::TensorProto& tensor, std::size_t bytes) {
    const auto type = find_element_type(tensor.data_type());
    if (!type || *type == element_type::boolean) return {};  // any byte but 0 is true
    try {
      const auto shape = shape_of(tensor);
      if (tensor_spec::row_major(*type, shape).bytes() != bytes) return {};
      return {*type, shape};
    } catch (const error&) {
      return {};  // The shape is not valid. A node that reads the tensor is refused.
    }
  }

  bool read_whole(MessageLite& message) {
    return within([&] {
      return message.MergePartialFromCodedStream(&input_) && input_.ConsumedEntireMessage();
    });
  }

  /// Calls `read` for each field, after its tag, until the end of the message.
  template <class Read>
  bool for_each_field(const Read& read) {
    while (const auto tag = input_.ReadTag()) {
      if (!read(tag)) return false;
    }
    return input_.ConsumedEntireMessage();
  }
  /// Calls `read` for the message that follows.
  template <class Read>
  bool within(const Read& read) {
    int size = 0;
    if (!read_size(size)) return false;
    const auto limit = input_.PushLimit(size);
    const bool is_read = read() && ends_at_limit();
    input_.PopLimit(limit);
    return is_read;
  }
  /// Whether the message has been read to its end. A file that is cut meanwhile ends before.
  bool ends_at_limit() { return input_.BytesUntilLimit() == 0; }
  /// Reads the size of a field that the message has room for, in bytes.
  bool read_size(int& size) {
    return input_.ReadVarintSizeAsInt(&size) && size <= input_.BytesUntilLimit();
  }
  /// Appends a field to a message.
  bool copy_field(std::uint32_t tag, std::string& message) {
    StringOutputStream stream(&message);
    CodedOutputStream output(&stream);
    output.WriteTag(tag);
    switch (tag & 7U) {
      case wire_type::varint: {
        std::uint64_t number = 0;
        if (!input_.ReadVarint64(&number)) return false;
        output.WriteVarint64(number);
        return true;
      }
      case wire_type::fixed64: {
        std::uint64_t number = 0;
        if (!input_.ReadLittleEndian64(&number)) return false;
        output.WriteLittleEndian64(number);
        return true;
      }
      case wire_type::fixed32: {
        std::uint32_t number = 0;
        if (!input_.ReadLittleEndian32(&number)) return false;
        output.WriteLittleEndian32(number);
        return true;
      }
      case wire_type::delimited: {
        int size = 0;
        std::string bytes;
        if (!read_size(size) || !input_.ReadString(&bytes, size)) return false;
        output.WriteVarint32(static_cast<std::uint32_t>(size));
        output.WriteString(bytes);
        return true;
      }
      default:
        return false;
    }
  }

  CodedInputStream& input_;
  model_contents& contents_;
};

/// Reads a model of `size` bytes from a stream.
std::optional<model_contents> walk(google::protobuf::io::ZeroCopyInputStream& stream,
                                   std::uintmax_t size) {
  if (size > static_cast<std::uintmax_t>(std::numeric_limits<int>::max())) return std::nullopt;
  CodedInputStream input(&stream);
  const auto limit = input.PushLimit(static_cast<int>(size));
  model_contents contents;
  const bool is_read = model_walk(input, contents).read_model();
  input.PopLimit(limit);
  return is_read ? std::optional(std::move(contents)) : std::nullopt;
}

}  // namespace

std::optional<model_contents> read_model(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw invalid_argument(path.string(), "cannot be opened");
  std::error_code failure;
  const auto size = std::filesystem::file_size(path, failure);
  // Special files have content, but state no size.
  if (!failure && size != 0) {
    constexpr int block_bytes = 1 << 18;
    google::protobuf::io::IstreamInputStream stream(&file, block_bytes);
    if (auto contents = walk(stream, size)) return contents;
    file.clear();
    file.seekg(0);
  }
  model_contents contents;
  if (!contents.message.ParseFromIstream(&file)) return std::nullopt;
  return contents;
}

std::optional<model_contents> read_model(std::span<const std::byte> bytes) {
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) return std::nullopt;
  const auto size = static_cast<int>(bytes.size());
  google::protobuf::io::ArrayInputStream stream(bytes.data(), size);
  if (auto contents = walk(stream, bytes.size())) return contents;
  model_contents contents;
  if (!contents.message.ParseFromArray(bytes.data(), size)) return std::nullopt;
  return contents;
}

}  // namespace sluice::models
