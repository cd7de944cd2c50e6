// SPDX-License-Identifier: Apache-2.0
// How files of models are read: large raw data is kept out of the message.
#include "models/model_reader.hpp"

#include "runtime/base/sanitizers.hpp"
#include "tests/models/onnx_graph.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using models::min_separate_bytes;
using models::model_contents;

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

/// The message with all raw data in it.
onnx::ModelProto whole_message(const model_contents& contents) {
  auto message = contents.message;
  for (std::size_t i = 0; i < contents.raw_data.size(); ++i) {
    const auto& raw = contents.raw_data[i];
    if (!raw) continue;
    message.mutable_graph()
        ->mutable_initializer(static_cast<int>(i))
        ->set_raw_data(raw.data().get(), raw.bytes());
  }
  return message;
}

class model_reader : public testing::Test {
 protected:
  std::string random_bytes(std::size_t size) {
    std::string bytes(size, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(generator_());
    return bytes;
  }
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(generator_);
  }
  void add_initializer(onnx::GraphProto& graph, std::size_t bytes) {
    auto& tensor = *graph.add_initializer();
    tensor.set_name("w" + std::to_string(graph.initializer_size()));
    tensor.set_data_type(onnx::TensorProto::UINT8);
    tensor.add_dims(static_cast<std::int64_t>(bytes));
    tensor.set_raw_data(random_bytes(bytes));
  }
  /// A model with constants of all forms.
  onnx_graph random_model() {
    onnx_graph g;
    g.input("x").output("y").node("Relu", {"x"}, {"y"});
    for (int i = 0; i < 6; ++i) add_initializer(g.graph(), below(3 * min_separate_bytes));
    for (const auto bytes : {min_separate_bytes - 1, min_separate_bytes, std::size_t{0}}) {
      add_initializer(g.graph(), bytes);
    }
    g.constant("floats", random_values<float>(generator_, 2000), {2000});
    onnx::TensorProto inner;
    inner.set_data_type(onnx::TensorProto::UINT8);
    inner.add_dims(9000);
    inner.set_raw_data(random_bytes(9000));
    g.node("Constant", {}, {"c"}).with("value", inner);
    onnx_graph body;
    add_initializer(body.graph(), 5000);
    g.node("If", {"x"}, {"z"}).with("then_branch", body.graph());
    g.message().set_producer_name("test");
    g.message().set_doc_string(random_bytes(100));
    auto& entry = *g.message().add_metadata_props();
    entry.set_key("k");
    entry.set_value("v");
    return g;
  }
  static bool are_equal(const onnx::ModelProto& a, const onnx::ModelProto& b) {
    return google::protobuf::util::MessageDifferencer::Equals(a, b);
  }
  /// A field of a message, which states the size of its content, in bytes.
  static std::string field(char tag, const std::string& content, std::uint64_t size) {
    std::string text(1, tag);
    for (; size > 127; size >>= 7U) text += static_cast<char>((size & 127U) | 128U);
    return text + static_cast<char>(size) + content;
  }
  static std::string field(char tag, const std::string& content) {
    return field(tag, content, content.size());
  }
  // Of fields in onnx.proto.
  static constexpr char producer_name_tag = 0x12;
  static constexpr char graph_tag = 0x3A;
  static constexpr char node_tag = 0x0A;
  static constexpr char initializer_tag = 0x2A;
  static constexpr char raw_data_tag = 0x4A;

  std::mt19937_64 generator_ = make_generator();
};

TEST_F(model_reader, reads_what_protobuf_reads) {
  for (int round = 0; round < 10; ++round) {
    auto g = random_model();
    const auto bytes = g.message().SerializeAsString();
    const auto contents = models::read_model(bytes_of_text(bytes));
    ASSERT_TRUE(contents);
    EXPECT_TRUE(are_equal(whole_message(*contents), g.message()));
    ASSERT_EQ(contents->raw_data.size(), static_cast<std::size_t>(g.graph().initializer_size()));
    for (int i = 0; i < g.graph().initializer_size(); ++i) {
      const auto& tensor = contents->message.graph().initializer(i);
      const bool is_large = g.graph().initializer(i).raw_data().size() >= min_separate_bytes;
      EXPECT_EQ(static_cast<bool>(contents->raw_data[static_cast<std::size_t>(i)]), is_large);
      EXPECT_EQ(tensor.raw_data().empty(), is_large || g.graph().initializer(i).raw_data().empty());
    }
    const auto path = std::filesystem::path(testing::TempDir()) / "sluice_model_reader.onnx";
    std::ofstream(path, std::ios::binary) << bytes;
    const auto of_file = models::read_model(path);
    ASSERT_TRUE(of_file);
    EXPECT_TRUE(are_equal(whole_message(*of_file), g.message()));
    std::filesystem::remove(path);
  }
}

TEST_F(model_reader, reads_no_file_that_was_cut) {
  auto g = random_model();
  const auto bytes = g.message().SerializeAsString();
  for (int i = 0; i < 200; ++i) {
    const auto cut = bytes.substr(0, below(bytes.size()));
    onnx::ModelProto expected;
    const bool is_model = expected.ParseFromString(cut);
    const auto contents = models::read_model(bytes_of_text(cut));
    ASSERT_EQ(contents.has_value(), is_model);
    if (!is_model) continue;
    EXPECT_TRUE(are_equal(whole_message(*contents), expected));
  }
}

TEST_F(model_reader, reads_bytes_that_were_changed_as_protobuf_does) {
  auto g = random_model();
  const auto bytes = g.message().SerializeAsString();
  for (int i = 0; i < 300; ++i) {
    auto changed = bytes;
    // Most bytes are data. Those at the start and before data are structure.
    for (int k = 0; k < 3; ++k)
      changed[below(i % 2 == 0 ? 100 : changed.size())] ^= static_cast<char>(1U << below(8));
    onnx::ModelProto expected;
    const bool is_model = expected.ParseFromString(changed);
    const auto contents = models::read_model(bytes_of_text(changed));
    ASSERT_EQ(contents.has_value(), is_model);
    if (!is_model) continue;
    EXPECT_TRUE(are_equal(whole_message(*contents), expected));
  }
}

// Protobuf takes the last of several values, and joins several graphs.
TEST_F(model_reader, reads_fields_that_appear_twice_as_protobuf_does) {
  onnx_graph g;
  add_initializer(g.graph(), 2 * min_separate_bytes);
  onnx_graph other;
  add_initializer(other.graph(), 3 * min_separate_bytes);
  const auto bytes = g.message().SerializeAsString() + other.message().SerializeAsString();
  onnx::ModelProto expected;
  ASSERT_TRUE(expected.ParseFromString(bytes));
  ASSERT_EQ(expected.graph().initializer_size(), 2);
  auto contents = models::read_model(bytes_of_text(bytes));
  ASSERT_TRUE(contents);
  EXPECT_TRUE(are_equal(whole_message(*contents), expected));

  const auto tensor = g.graph().initializer(0).SerializeAsString();
  const auto twice = field(graph_tag, field(initializer_tag, tensor + tensor));
  ASSERT_TRUE(expected.ParseFromString(twice));
  contents = models::read_model(bytes_of_text(twice));
  ASSERT_TRUE(contents);
  EXPECT_TRUE(are_equal(whole_message(*contents), expected));
}

TEST_F(model_reader, takes_no_large_size_for_a_small_one) {
  const auto data = random_bytes(2 * min_separate_bytes);
  onnx::TensorProto declaration;
  declaration.set_data_type(onnx::TensorProto::UINT8);
  declaration.add_dims(static_cast<std::int64_t>(data.size()));
  const auto start = declaration.SerializeAsString();
  const auto tensor = start + field(raw_data_tag, data);
  const auto graph = field(initializer_tag, tensor);
  onnx::NodeProto relu;
  relu.set_op_type("Relu");
  const auto node = relu.SerializeAsString();
  // The low bits are those of the size.
  for (const auto more : {std::uint64_t{0}, std::uint64_t{1} << 32U, std::uint64_t{3} << 40U,
                          std::uint64_t{1} << 63U}) {
    const std::vector<std::string> files{
        field(graph_tag,
              field(initializer_tag, start + field(raw_data_tag, data, data.size() + more))),
        field(graph_tag, field(initializer_tag, tensor, tensor.size() + more)),
        field(graph_tag, field(node_tag, node, node.size() + more)),
        field(graph_tag, graph, graph.size() + more),
        field(producer_name_tag, "abc", 3 + more) + field(graph_tag, graph)};
    for (const auto& bytes : files) {
      onnx::ModelProto expected;
      EXPECT_EQ(expected.ParseFromString(bytes), more == 0);
      const auto contents = models::read_model(bytes_of_text(bytes));
      ASSERT_EQ(contents.has_value(), more == 0);
      if (!contents) continue;
      EXPECT_TRUE(are_equal(whole_message(*contents), expected));
    }
  }
}

// The dimensions behind the data are more than a tensor may have.
TEST_F(model_reader, reads_shapes_of_many_dimensions_as_protobuf_does) {
  onnx_graph g;
  add_initializer(g.graph(), 2 * min_separate_bytes);
  auto tensor = g.graph().initializer(0).SerializeAsString();
  for (int i = 0; i < 9; ++i) tensor += "\x08\x01";  // a dimension of one
  const auto bytes = field(graph_tag, field(initializer_tag, tensor));
  onnx::ModelProto expected;
  ASSERT_TRUE(expected.ParseFromString(bytes));
  ASSERT_EQ(expected.graph().initializer(0).dims_size(), 10);
  const auto contents = models::read_model(bytes_of_text(bytes));
  ASSERT_TRUE(contents);
  EXPECT_TRUE(are_equal(whole_message(*contents), expected));
}

#if !defined(SLUICE_ADDRESS_SANITIZER) && !defined(SLUICE_THREAD_SANITIZER)
/// A number of /proc/self/status, in bytes.
std::size_t status_of_process(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":", 0) == 0) return std::stoul(line.substr(name.size() + 1)) << 10U;
  }
  return 0;
}

TEST_F(model_reader, takes_the_memory_of_the_file) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20U;
  const auto path = std::filesystem::path(testing::TempDir()) / "sluice_large_model.onnx";
  std::size_t file_bytes = 0;
  {
    onnx_graph g;
    g.input("x").output("y").node("Add", {"x", "w1"}, {"y"});
    for (int i = 0; i < 12; ++i) {
      auto& tensor = *g.graph().add_initializer();
      tensor.set_name("w" + std::to_string(i));
      tensor.set_data_type(onnx::TensorProto::FLOAT);
      tensor.add_dims(4 * mebibyte);
      tensor.set_raw_data(std::string(16 * mebibyte, static_cast<char>(i)));
    }
    std::ofstream file(path, std::ios::binary);
    ASSERT_TRUE(g.message().SerializeToOstream(&file));
    file_bytes = static_cast<std::size_t>(file.tellp());
  }
  // The peak becomes what the process has now.
  std::ofstream peak("/proc/self/clear_refs");
  peak << "5" << std::flush;
  if (!peak || status_of_process("VmHWM") == 0) GTEST_SKIP() << "the peak cannot be measured";
  const auto before = status_of_process("VmRSS");
  {
    const auto network = model::open(path);
    const auto spec = tensor_spec::row_major(element_type::f32, {4 * mebibyte});
    const auto made = network.program_for({{"x", spec}});
    EXPECT_LE(status_of_process("VmHWM"), before + file_bytes + 64 * mebibyte);
  }
  std::filesystem::remove(path);
}
#endif

}  // namespace
}  // namespace sluice::test
