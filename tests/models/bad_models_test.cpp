// SPDX-License-Identifier: Apache-2.0
// A model that is not valid gets one error, which names the node and the attribute.
#include "models/operator_table.hpp"
#include "models/tensor_reader.hpp"
#include "runtime/base/sanitizers.hpp"
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

namespace sluice::test {
namespace {

/// The error of a model with one node after its change.
void expect_refusal(errc code, const std::string& part,
                    const std::function<void(onnx_graph&)>& fill) {
  onnx_graph g;
  g.input("x").output("y");
  fill(g);
  try {
    (void)g.make().program_for({{"x", tensor_spec::row_major(element_type::f32, {2, 3})}});
    ADD_FAILURE() << "no error with '" << part << "'";
  } catch (const error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(bad_models, are_refused_by_node_and_attribute) {
  expect_refusal(errc::unsupported, "node 'y' (Future): sluice does not have this operator",
                 [](onnx_graph& g) { g.node("Future", {"x"}, {"y"}); });
  expect_refusal(errc::invalid_argument, "node 'y' (Neg): input 0",
                 [](onnx_graph& g) { g.node("Neg", {""}, {"y"}); });
  expect_refusal(errc::invalid_argument, "node 'y' (Neg): nothing: the input",
                 [](onnx_graph& g) { g.node("Neg", {"nothing"}, {"y"}); });
  expect_refusal(errc::invalid_argument, "node 'y' (Softmax): axis: is 2",
                 [](onnx_graph& g) { g.node("Softmax", {"x"}, {"y"}).with("axis", 2); });
  expect_refusal(errc::invalid_argument, "axis: is an attribute of another type",
                 [](onnx_graph& g) { g.node("Softmax", {"x"}, {"y"}).with("axis", 1.0); });
  expect_refusal(errc::invalid_argument, "(Reshape)", [](onnx_graph& g) {
    g.constant("shape", std::vector<std::int64_t>{4, 2}).node("Reshape", {"x", "shape"}, {"y"});
  });
  expect_refusal(errc::invalid_argument, "(Concat): ", [](onnx_graph& g) {
    g.node("Concat", {"x"}, {"y"}).with("axis", 5);
  });
  expect_refusal(errc::unsupported, "operators of the domain 'elsewhere'", [](onnx_graph& g) {
    g.node("Neg", {"x"}, {"y"});
    g.graph().mutable_node(0)->set_domain("elsewhere");
  });
  expect_refusal(errc::invalid_argument, "y: the output has no value",
                 [](onnx_graph& g) { g.node("Neg", {"x"}, {"z"}); });
  expect_refusal(errc::unsupported, "(Relu): output 1", [](onnx_graph& g) {
    g.node("Relu", {"x"}, {"y", "z"});
  });
  expect_refusal(errc::invalid_argument, "(Relu): z: has a value already", [](onnx_graph& g) {
    g.node("Neg", {"x"}, {"z"});
    g.node("Relu", {"x"}, {"z"});
    g.node("Neg", {"z"}, {"y"});
  });
  // A cycle: the first node of it has an input without a value.
  expect_refusal(errc::invalid_argument, "b: the input has no value", [](onnx_graph& g) {
    g.node("Add", {"x", "b"}, {"a"});
    g.node("Neg", {"a"}, {"b"});
    g.node("Neg", {"b"}, {"y"});
  });
}

TEST(bad_models, have_unknown_attributes) {
  expect_refusal(errc::invalid_argument,
                 "node 'y' (Softmax): colour: is no attribute of Softmax in version 17",
                 [](onnx_graph& g) { g.node("Softmax", {"x"}, {"y"}).with("colour", 1); });
  // Of the name of another operator, of an operator without any, and of an input since version 13.
  expect_refusal(errc::invalid_argument, "(Elu): gamma: is no attribute",
                 [](onnx_graph& g) { g.node("Elu", {"x"}, {"y"}).with("gamma", 1.0); });
  expect_refusal(errc::invalid_argument, "(Neg): alpha: is no attribute",
                 [](onnx_graph& g) { g.node("Neg", {"x"}, {"y"}).with("alpha", 1.0); });
  expect_refusal(errc::invalid_argument, "(Squeeze): axes: is no attribute", [](onnx_graph& g) {
    g.node("Squeeze", {"x"}, {"y"}).with("axes", std::vector<std::int64_t>{0});
  });
  // Of a node that is computed while the program is made, and of one within a graph.
  expect_refusal(errc::invalid_argument, "(Abs): beta: is no attribute", [](onnx_graph& g) {
    g.constant("c", std::vector<float>{1, 2, 3}, {3}).node("Abs", {"c"}, {"d"}).with("beta", 1.0);
    g.node("Add", {"x", "d"}, {"y"});
  });
  expect_refusal(errc::invalid_argument, std::string(200, 'a') + ": is no", [](onnx_graph& g) {
    g.node("Neg", {"x"}, {"y"}).with(std::string(1000, 'a'), 1);
  });
}

TEST(bad_models, are_not_those_with_attributes_without_effect) {
  const auto accept = [](std::int64_t opset, const std::function<void(onnx_graph&)>& fill) {
    onnx_graph g(opset);
    g.input("x").output("y");
    fill(g);
    const auto spec = tensor_spec::row_major(element_type::f32, {2, 3});
    EXPECT_NO_THROW((void)g.make().program_for({{"x", spec}}));
  };
  accept(6, [](onnx_graph& g) { g.node("Dropout", {"x"}, {"y"}).with("is_test", 1); });
  accept(1, [](onnx_graph& g) {
    g.node("Relu", {"x"}, {"y"}).with("consumed_inputs", std::vector<std::int64_t>{0});
  });
  accept(17, [](onnx_graph& g) { g.node("Dropout", {"x"}, {"y"}).with("seed", 3); });
  accept(17, [](onnx_graph& g) { g.node("Neg", {"x"}, {"y"}).with("__origin", "line 3"); });
}

TEST(bad_models, have_unknown_attribute_values) {
  const auto refuse_images = [](const char* op_type, const char* part, const auto& fill) {
    onnx_graph g(28);  // SpaceToDepth has a mode
    g.input("x").output("y");
    fill(g.node(op_type, {"x"}, {"y"}), g);
    EXPECT_TRUE(throws(errc::unsupported, part, [&] {
      const auto spec = tensor_spec::row_major(element_type::f32, {1, 4, 2, 2});
      (void)g.make().program_for({{"x", spec}});
    }));
  };
  for (const auto* op_type : {"DepthToSpace", "SpaceToDepth"}) {
    refuse_images(op_type, "mode: is 'CDR'", [](onnx_node node, onnx_graph&) {
      node.with("blocksize", 2).with("mode", "CDR");
    });
  }
  refuse_images("RoiAlign", "coordinate_transformation_mode: is 'pixel'",
                [](onnx_node node, onnx_graph& g) {
                  g.constant("rois", std::vector<float>(4), {1, 4});
                  g.constant("batch", std::vector<std::int64_t>{0});
                  g.graph().mutable_node(0)->add_input("rois");
                  g.graph().mutable_node(0)->add_input("batch");
                  node.with("coordinate_transformation_mode", "pixel");
                });
}

TEST(bad_models, have_attributes_that_do_not_fit) {
  expect_refusal(errc::invalid_argument, "(Conv): kernel_shape: is not that", [](onnx_graph& g) {
    g.constant("w", std::vector<float>(9), {1, 1, 3, 3});
    g.constant("image", std::vector<float>(25), {1, 1, 5, 5});
    g.node("Conv", {"image", "w"}, {"y"}).with("kernel_shape", std::vector<std::int64_t>{2, 3});
  });
  expect_refusal(errc::invalid_argument, "(Conv): strides: 4294967296 does not fit",
                 [](onnx_graph& g) {
                   g.constant("w", std::vector<float>(2), {1, 1, 2});
                   g.constant("signal", std::vector<float>(9), {1, 1, 9});
                   const std::vector<std::int64_t> strides{std::int64_t{1} << 32U};
                   g.node("Conv", {"signal", "w"}, {"y"})
                       .with("strides", strides)
                       .with("auto_pad", "SAME_UPPER");
                 });
  expect_refusal(errc::invalid_argument, "(RNN): hidden_size: is not", [](onnx_graph& g) {
    g.constant("z", std::vector<float>(6), {2, 1, 3});
    g.constant("w", std::vector<float>(6), {1, 2, 3})
        .constant("r", std::vector<float>(4), {1, 2, 2});
    g.node("RNN", {"z", "w", "r"}, {"y"}).with("hidden_size", 3);
  });
  expect_refusal(errc::invalid_argument, "(Range): delta: is 0", [](onnx_graph& g) {
    g.number("first", 0).number("limit", 5).number("delta", 0);
    g.node("Range", {"first", "limit", "delta"}, {"y"});
  });
  for (const auto count : {std::int64_t{-1}, std::int64_t{2}, std::int64_t{1} << 62U}) {
    expect_refusal(errc::invalid_argument, "num_scan_inputs: is", [&](onnx_graph& g) {
      onnx::GraphProto body;
      body.add_input()->set_name("a");
      for (int i = 0; i < 8; ++i) body.add_output()->set_name("a");
      g.node("Scan", {"x"}, {"y"}).with("body", body).with("num_scan_inputs", count);
    });
  }
}

TEST(bad_models, are_of_the_future) {
  expect_refusal(errc::unsupported, "test.onnx: version 29 of the operator set", [](onnx_graph& g) {
    g.message().mutable_opset_import(0)->set_version(29);
    g.node("Neg", {"x"}, {"y"});
  });
  expect_refusal(errc::unsupported, "version 99 of the format", [](onnx_graph& g) {
    g.message().set_ir_version(99);
    g.node("Neg", {"x"}, {"y"});
  });
}

TEST(bad_models, have_inputs_without_a_type_of_sluice) {
  const auto refusal = [](const std::string& part, const auto& declare) {
    onnx_graph g;
    g.input("x").output("y").node("Neg", {"x"}, {"y"});
    declare(*g.graph().mutable_input(0)->mutable_type());
    return throws(errc::unsupported, part, [&] {
      (void)g.make().program_for({{"x", tensor_spec::row_major(element_type::f32, {2})}});
    });
  };
  EXPECT_TRUE(refusal("x: has the element type STRING", [](onnx::TypeProto& type) {
    type.mutable_tensor_type()->set_elem_type(onnx::TensorProto::STRING);
  }));
  EXPECT_TRUE(refusal("x: has the element type 77", [](onnx::TypeProto& type) {
    type.mutable_tensor_type()->set_elem_type(77);
  }));
  EXPECT_TRUE(refusal("x: the input is not declared as a tensor",
                      [](onnx::TypeProto& type) { type.mutable_sequence_type(); }));
}

TEST(bad_models, nest_functions_only_so_deep) {
  // The text has the names of the outer nodes and the reason, and is cut between them.
  const auto fill = [](onnx_graph& g) {
    auto& function = *g.message().add_functions();
    function.set_domain("own");
    function.set_name("endless");
    function.add_input("a");
    function.add_output("b");
    function.add_opset_import()->set_domain("own");
    add_node(function, "endless", {"a"}, {"b"});
    function.mutable_node(0)->set_domain("own");
    g.node("endless", {"x"}, {"y"});
    g.graph().mutable_node(0)->set_domain("own");
  };
  expect_refusal(errc::unsupported, "node 'y' (endless): node 'b' (endless)", fill);
  expect_refusal(errc::unsupported, "functions are nested too deep", fill);
}

TEST(bad_models, do_not_grow_without_bound) {
  // Each function calls the next one ten times.
  expect_refusal(errc::unsupported, "too many nodes", [](onnx_graph& g) {
    for (int level = 0; level < 8; ++level) {
      auto& function = *g.message().add_functions();
      function.set_domain("own");
      function.set_name("level" + std::to_string(level));
      function.add_input("a");
      function.add_output("b0");
      function.add_opset_import()->set_version(17);
      function.add_opset_import()->set_domain("own");
      const auto next = level == 7 ? "Neg" : "level" + std::to_string(level + 1);
      for (int call = 0; call < 10; ++call) {
        add_node(function, next.c_str(), {"a"}, {("b" + std::to_string(call)).c_str()});
        if (level < 7) function.mutable_node(call)->set_domain("own");
      }
    }
    g.node("level0", {"x"}, {"y"});
    g.graph().mutable_node(0)->set_domain("own");
  });
}

TEST(bad_models, have_inputs_that_do_not_fit) {
  onnx_graph g;
  g.input("x", {2, -1}).output("y").node("Neg", {"x"}, {"y"});
  const auto network = g.make();
  const auto spec = [](element_type type, const extents& shape) {
    return std::map<std::string, tensor_spec>{{"x", tensor_spec::row_major(type, shape)}};
  };
  EXPECT_NO_THROW((void)network.program_for(spec(element_type::f32, {2, 9})));
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] { (void)network.program_for({}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
    (void)network.program_for(spec(element_type::f16, {2, 9}));
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
    (void)network.program_for(spec(element_type::f32, {3, 9}));
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x",
                     [&] { (void)network.program_for(spec(element_type::f32, {2})); }));
  auto more = spec(element_type::f32, {2, 9});
  more.emplace("z", more.at("x"));
  EXPECT_TRUE(throws(errc::invalid_argument, "z", [&] { (void)network.program_for(more); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x", [&] {
    (void)network.program_for(spec(element_type::f32, {2, 9}),
                              {{"x", host_tensor(element_type::f32, {2, 9})}});
  }));
}

TEST(bad_models, have_symbols_with_one_extent) {
  onnx_graph g;
  g.input("x", {2, -1}).input("w", {-1, 3}).output("y").node("MatMul", {"x", "w"}, {"y"});
  const auto network = g.make();
  const auto matrix = [](const extents& shape) {
    return tensor_spec::row_major(element_type::f32, shape);
  };
  EXPECT_NO_THROW((void)network.program_for({{"x", matrix({2, 9})}, {"w", matrix({9, 3})}}));
  EXPECT_TRUE(throws(errc::invalid_argument, "w", [&] {
    (void)network.program_for({{"x", matrix({2, 9})}, {"w", matrix({1, 3})}});
  }));
}

// PaddlePaddle's "?" is no symbol.
TEST(bad_models, are_not_those_with_free_extents_of_one_name) {
  onnx_graph g;
  g.input("x", {-1, -1}).output("y").node("Neg", {"x"}, {"y"});
  auto& shape = *g.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
  for (auto& dimension : *shape.mutable_dim()) dimension.set_dim_param("?");
  const auto network = g.make();
  EXPECT_EQ((*network.inputs().front().shape)[0].symbol, "");
  EXPECT_NO_THROW(
      (void)network.program_for({{"x", tensor_spec::row_major(element_type::f32, {2, 3})}}));
}

TEST(bad_models, are_no_models) {
  const std::vector<std::byte> nonsense(100, std::byte{0xff});
  EXPECT_TRUE(throws(errc::invalid_argument, "nonsense",
                     [&] { (void)model::parse(nonsense, "nonsense"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "empty", [&] { (void)model::parse({}, "empty"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "/no/such/file",
                     [&] { (void)model::open("/no/such/file.onnx"); }));
  onnx_graph g;
  g.input("x").output("y").node("Neg", {"x"}, {"y"});
  const auto whole = g.message().SerializeAsString();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    try {  // What is still a message may be a model with less in it.
      const auto part = model::parse(std::as_bytes(std::span(whole.data(), length)));
      (void)part.program_for({{"x", tensor_spec::row_major(element_type::f32, {2})}});
    } catch (const error& e) {
      EXPECT_TRUE(e.code() == errc::invalid_argument || e.code() == errc::unsupported) << e.what();
    }
  }
}

TEST(bad_tensors, allocate_nothing_on_the_word_of_a_header) {
  onnx::TensorProto tensor;
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(std::int64_t{1} << 40U);
  EXPECT_TRUE(throws(errc::invalid_argument, "w", [&] { (void)models::read_tensor(tensor); }));
  tensor.add_dims(std::int64_t{1} << 40U);
  EXPECT_THROW((void)models::read_tensor(tensor), error);  // The size overflows.
  tensor.clear_dims();
  tensor.add_dims(-1);
  EXPECT_THROW((void)models::read_tensor(tensor), error);
  tensor.clear_dims();
  tensor.add_dims(2);
  tensor.set_raw_data("1234567");
  EXPECT_TRUE(throws(errc::invalid_argument, "w", [&] { (void)models::read_tensor(tensor); }));
  tensor.set_raw_data(std::string(8, '\0'));
  EXPECT_EQ(models::read_tensor(tensor).to_vector<float>(), (std::vector<float>{0, 0}));
  tensor.set_data_type(onnx::TensorProto::STRING);
  EXPECT_THROW((void)models::read_tensor(tensor), error);
}

TEST(bad_tensors, read_no_file_outside_of_the_folder) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / "sluice_external_data";
  fs::remove_all(folder);
  fs::create_directories(folder / "model");
  const std::vector<float> numbers{1, 2, 3, 4};
  const auto write = [&](const fs::path& path) {
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(numbers.data()), 16);
  };
  write(folder / "outside");
  write(folder / "model" / "inside");
  fs::create_symlink(folder / "outside", folder / "model" / "link");
  const auto read = [&](const std::string& location, const char* offset, const char* length) {
    onnx::TensorProto tensor;
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto add = [&](const char* key, const std::string& value) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    };
    add("location", location);
    if (offset != nullptr) add("offset", offset);
    if (length != nullptr) add("length", length);
    return models::read_tensor(tensor, folder / "model").to_vector<float>();
  };
  EXPECT_EQ(read("inside", nullptr, nullptr), (std::vector<float>{1, 2}));
  EXPECT_EQ(read("inside", "8", "8"), (std::vector<float>{3, 4}));
  const std::string zero("inside\0x", 8);
  for (const auto& location : {std::string("../outside"), std::string("link"), std::string(),
                               std::string("."), std::string("nothing"), zero}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "'w'", [&] {
      (void)read(location, nullptr, nullptr);
    })) << location;
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "'w'", [&] {
    (void)read((folder / "model" / "inside").string(), nullptr, nullptr);
  }));
  for (const auto* offset : {"12", "17", "-1", "x", "18446744073709551615"}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "'w'", [&] {
      (void)read("inside", offset, nullptr);
    })) << offset;
  }
  for (const auto* length : {"4", "16", "1099511627776"}) {  // of 8 bytes
    EXPECT_TRUE(throws(errc::invalid_argument, "'w'", [&] { (void)read("inside", "0", length); }))
        << length;
  }
  fs::remove_all(folder);
}

#ifndef SLUICE_ADDRESS_SANITIZER  // which aborts when an allocation fails
TEST(bad_tensors, are_too_large_for_memory) {
  namespace fs = std::filesystem;
  const auto folder = fs::path(testing::TempDir()) / "sluice_large_data";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::ofstream(folder / "sparse").put('0');
  std::error_code failure;
  const auto bytes = std::uint64_t{1} << 42U;
  fs::resize_file(folder / "sparse", bytes, failure);  // takes no space on the disk
  if (failure) GTEST_SKIP() << "no files of 4 TB";
  onnx_graph g;
  g.input("x").output("y").node("Add", {"x", "w"}, {"y"});
  auto& tensor = *g.graph().add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(static_cast<std::int64_t>(bytes / 4));
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *tensor.add_external_data();
  location.set_key("location");
  location.set_value("sparse");
  std::ofstream(folder / "large.onnx", std::ios::binary) << g.message().SerializeAsString();
  EXPECT_TRUE(throws(errc::out_of_memory, "large.onnx: tensor 'w'", [&] {
    const auto spec = tensor_spec::row_major(element_type::f32, {2});
    (void)model::open(folder / "large.onnx").program_for({{"x", spec}});
  }));
  fs::remove_all(folder);
}
#endif

TEST(operator_table, knows_versions) {
  EXPECT_NE(models::find_operator("Relu", 7), nullptr);
  EXPECT_EQ(models::find_operator("Attention", 22), nullptr);
  EXPECT_NE(models::find_operator("Attention", 23), nullptr);
  EXPECT_NE(models::find_operator("Resize", 10), models::find_operator("Resize", 13));
  EXPECT_EQ(models::find_operator("relu", 17), nullptr);
}

}  // namespace
}  // namespace sluice::test
