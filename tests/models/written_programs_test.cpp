// SPDX-License-Identifier: Apache-2.0
// Programs that are written as files and read again.
#include "models/export/operation_form.hpp"
#include "tests/models/model_device_test.hpp"
#include "tests/models/written_model.hpp"
#include "tests/operations/program/random_program.hpp"
#include "tests/operations/program/run_axes_steps.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sluice/models/write_model.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

void expect_same_bits(const host_tensor& found, const host_tensor& expected) {
  ASSERT_EQ(found.type(), expected.type());
  ASSERT_EQ(found.shape(), expected.shape());
  EXPECT_EQ(std::memcmp(found.data().get(), expected.data().get(), expected.bytes()), 0);
}

class written_programs : public model_device_test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "program.onnx"; }
  [[nodiscard]] const temporary_folder& folder() const { return folder_; }

  /// Writes a program, reads it and compares the results of both. Returns what was read.
  model_program expect_same(const program& what, const tensor_map& inputs,
                            const model_write_options& options = {}) {
    write_model(what, path(), options);
    auto read = read_as_written(path(), specs_of(inputs));
    model_program original{.program = what};
    for (const auto& [name, x] : inputs) original.inputs.push_back(name);
    const auto expected = run(original, inputs);
    const auto found = run(read, inputs);
    EXPECT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      expect_same_bits(found[i], expected[i]);
    }
    return read;
  }
  /// The same with inputs of stated properties, of which operators of ONNX follow.
  model_program expect_same_with_shapes(const program& what, const tensor_map& inputs) {
    model_write_options options;
    for (const auto& [name, x] : inputs) {
      auto& input = options.inputs.emplace_back(model_value{.name = name, .type = x.type()});
      input.shape.emplace();
      for (const auto extent : x.shape()) input.shape->push_back({.extent = extent});
    }
    return expect_same(what, inputs, options);
  }

 private:
  temporary_folder folder_;
};

INSTANTIATE_TEST_SUITE_P(devices, written_programs, every_device(), parameter_name);

/// The steps of a program with their operands, without the copy that makes an output row-major.
/// Constants, which have equal names in the original, have the name "c".
std::string text_of_steps(const program& what) {
  std::istringstream lines(what.text());
  std::string steps;
  for (std::string line; std::getline(lines, line);) {
    const bool is_left_out = line.find(" = constant ") != std::string::npos ||
                             line.starts_with("outputs = strided_copy(") ||
                             line.starts_with("outputs:");
    if (!is_left_out) steps += std::regex_replace(line, std::regex("\\bc [0-9]+\\b"), "c") + '\n';
  }
  return steps;
}

TEST_P(written_programs, of_each_operation_are_read_as_they_were) {
  std::set<std::string> operations;
  std::size_t standard = 0;
  for (const auto& step : all_steppings()) {
    SCOPED_TRACE(step.operation + to_string(step.shape));
    operations.insert(step.operation);
    program_builder p;
    const auto x = p.input("x");
    const auto y = step.add(p, x);
    const auto what = std::move(p).build({y});
    // Indices are 0 or 1.
    const int most = step.type == element_type::f32 ? 0 : 1;
    const tensor_map inputs{{"x", drawn_constant(step.type, step.shape, most)}};
    const auto read = expect_same(what, inputs);
    EXPECT_EQ(text_of_steps(read.program), text_of_steps(what));
    const auto with_shapes = expect_same_with_shapes(what, inputs);
    EXPECT_EQ(with_shapes.program.steps(), read.program.steps());
    standard += operators_of(path()).find("sluice.") == std::string::npos ? 1 : 0;
  }
  EXPECT_GT(operations.size(), 60U);
  EXPECT_GT(standard, operations.size() / 2);
}

TEST_P(written_programs, of_functions_are_read_as_they_were) {
  std::set<std::string> operators;
  const auto test = [&](element_type type, const auto& add_step) {
    program_builder p;
    const auto a = p.input("a");
    const auto b = p.input("b");
    const auto sum = add_step(p, a, b);
    const auto what = std::move(p).build({sum});
    const tensor_map inputs{{"a", drawn_constant(type, {3, 4}, 3)},
                            {"b", drawn_constant(type, {1, 4}, 3)}};
    try {
      const auto read = expect_same_with_shapes(what, inputs);
      EXPECT_EQ(read.program.text(), what.text());
      operators.insert(operators_of(path()));
    } catch (const error& e) {
      // It does not take the type or the parameters.
      EXPECT_NE(std::string(e.what()).find("step 'y'"), std::string::npos) << e.what();
    }
  };
  const std::vector<std::pair<std::optional<scalar>, std::optional<scalar>>> parameters{
      {}, {0.25, {}}, {0.25, 0.5}, {0.1, {}}, {scalar(2), scalar(3)}};
  for (const auto type : {element_type::f32, element_type::f16, element_type::i32, element_type::u8,
                          element_type::boolean, element_type::c64}) {
    SCOPED_TRACE(to_string(type));
    for (std::size_t i = 0; i < unary_function_count; ++i) {
      for (const auto& [alpha, beta] : parameters) {
        const auto function = static_cast<unary_function>(i);
        test(type, [&, alpha = alpha, beta = beta](auto& p, const auto& a, const auto&) {
          return p.add("y", unary{.function = function, .x = a, .alpha = alpha, .beta = beta});
        });
      }
    }
    for (std::size_t i = 0; i < binary_function_count; ++i) {
      const auto function = static_cast<binary_function>(i);
      test(type, [&](auto& p, const auto& a, const auto& b) {
        return p.add("y", binary{.function = function, .a = a, .b = b});
      });
      test(type, [&](auto& p, const auto& a, const auto&) {
        return p.add("y", binary{.function = function, .a = 2, .b = a});
      });
    }
  }
  for (const auto* const name : {"Add", "BitShift", "Elu", "Gelu", "HardSigmoid", "LeakyRelu",
                                 "Max", "Mod", "Not", "Or", "Pow", "Relu", "Selu", "Shrink", "Tanh",
                                 "sluice.add", "sluice.angle", "sluice.clip", "sluice.multiply"}) {
    EXPECT_TRUE(operators.contains(name)) << name;
  }
}

TEST_P(written_programs, keep_their_names_and_constants) {
  program_builder p;
  const auto image = p.input("image", element_type::f32, {3, 4});
  const auto weights = p.constant("weights", random_tensor({4, 2}));
  const auto product = p.add("product", gemm{.a = image, .b = weights});
  const auto scaled = p.add("scaled", affine{.x = product, .factor = 0.1, .offset = 2});
  const auto largest = p.add("largest", top_k{.x = scaled.transposed(), .k = 2});
  const auto what = std::move(p).build({scaled, largest[1], scaled});
  const tensor_map inputs{{"image", random_tensor({3, 4})}};
  const auto read = expect_same(what, inputs);
  EXPECT_EQ(read.inputs, std::vector<std::string>{"image"});
  EXPECT_EQ(read.outputs, (std::vector<std::string>{"scaled", "largest.indices", "scaled 2"}));
  EXPECT_EQ(operators_of(path()), "MatMul sluice.affine Transpose TopK Identity");
  const auto network = model::open(path());
  EXPECT_EQ(network.inputs().front().type, element_type::f32);
  EXPECT_EQ(to_string(*network.inputs().front().shape), "[3, 4]");
  EXPECT_EQ(to_string(*network.outputs()[1].shape), "[2, 2]");
  EXPECT_EQ(network.outputs()[1].type, element_type::i64);
  EXPECT_EQ(network.summary().producer, "sluice");
  EXPECT_EQ(message_of(path()).graph().initializer(0).name(), "weights");
}

TEST_P(written_programs, may_have_other_names) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", exp(x));
  const auto what = std::move(p).build({y});
  write_model(what, path(),
              {.inputs = {{.name = "signal",
                           .type = element_type::f32,
                           .shape = {{{.symbol = "batch"}, {.extent = 3}}}}},
               .outputs = {{.name = "result"}}});
  const auto network = model::open(path());
  EXPECT_EQ(network.inputs().front().name, "signal");
  EXPECT_EQ(to_string(*network.inputs().front().shape), "[batch, 3]");
  EXPECT_EQ(network.outputs().front().name, "result");
  EXPECT_EQ(operators_of(path()), "Exp");
}

/// Two steps and a view with equal names.
TEST_P(written_programs, may_have_equal_names) {
  program_builder p;
  auto x = p.input("x");
  for (int i = 0; i < 4; ++i) {
    const auto view = x.transposed();
    x = p.add("x", add(view, p.constant("x", random_tensor({3, 3}))));
  }
  const auto what = std::move(p).build({x, x.transposed()});
  const auto read = expect_same(what, {{"x", random_tensor({3, 3})}});
  EXPECT_EQ(read.outputs, (std::vector<std::string>{"x 2", "x.transposed()"}));
}

TEST_P(written_programs, of_constants_alone_are_not_computed_when_they_are_read) {
  program_builder p;
  const auto x = p.input("x");
  const auto c = p.constant("c", random_tensor({2, 3}));
  const auto twice = p.add("twice", add(c, c));
  const auto flat = p.add("flat", exp(twice.transposed()));
  const auto y = p.add("y", add(x, flat));
  const auto what = std::move(p).build({y});
  const auto read = expect_same_with_shapes(what, {{"x", random_tensor({3, 2})}});
  EXPECT_EQ(read.program.steps(), 3U);
  EXPECT_EQ(operators_of(path()), "Add Transpose Exp Add");
}

/// A program whose scalars are numbers of the program around it.
TEST_P(written_programs, may_contain_programs) {
  program_builder inner;
  const auto x = inner.input("x");
  const auto scaled = inner.add("scaled", affine{.x = x, .factor = inner.scalar("factor")});
  const auto scaling = std::move(inner).build({scaled});
  program_builder p;
  const auto y = p.input("y");
  const auto once = p.add("once", scaling, {y}, {0.3}).front();
  const auto again = p.add("again", scaling, {once}, {scalar(std::uint64_t{7})}).front();
  const auto what = std::move(p).build({again});
  const auto read = expect_same(what, {{"y", random_tensor({5})}});
  EXPECT_NE(read.program.text().find("again.scaled = affine(x = once.scaled)"), std::string::npos)
      << read.program.text();
}

TEST_P(written_programs, are_optimised_as_models_are) {
  program_builder p;
  const auto x = p.input("x");
  const auto first = p.add("first", exp(x));
  const auto second = p.add("second", exp(x));
  const auto sum = p.add("sum", add(first, second));
  const auto what = std::move(p).build({sum});
  const tensor_map inputs{{"x", random_tensor({4, 4})}};
  (void)expect_same(what, inputs);
  const auto optimised = model::open(path()).program_for(specs_of(inputs), {}, {.max_in_batch = 1});
  EXPECT_EQ(optimised.program.steps(), 2U);
  write_model(optimised, path());
  EXPECT_EQ(read_as_written(path(), specs_of(inputs)).program.text(), optimised.program.text());
}

/// ONNX knows no order of elements in memory: the import adds the copies again.
TEST_P(written_programs, of_models_have_no_copies_that_the_import_adds) {
  onnx_graph g;
  g.input("x", {2, 3, 4}).output("y").output("z");
  g.constant("shape", std::vector<std::int64_t>{6, 4});
  g.node("Relu", {"x"}, {"r"});
  g.node("Transpose", {"r"}, {"t"}).with("perm", std::vector<std::int64_t>{1, 0, 2});
  g.node("Reshape", {"t", "shape"}, {"y"});
  g.node("Transpose", {"r"}, {"z"}).with("perm", std::vector<std::int64_t>{2, 1, 0});
  const tensor_map inputs{{"x", random_tensor({2, 3, 4})}};
  const auto made =
      g.make().program_for(specs_of(inputs), {}, {.max_in_batch = 1, .optimize = false});
  EXPECT_EQ(made.program.steps(), 4U);
  write_model(made, path());
  EXPECT_EQ(operators_of(path()), "Relu Transpose Identity Reshape Identity Transpose Identity");
  const auto read = read_as_written(path(), specs_of(inputs));
  EXPECT_EQ(read.program.text(), made.program.text());
  EXPECT_EQ(read.outputs, made.outputs);
  // Other runtimes refuse equal names.
  std::set<std::string> names;
  const auto message = message_of(path());
  for (const auto& node : message.graph().node()) {
    EXPECT_TRUE(node.name().empty() || names.insert(node.name()).second) << node.name();
  }
}

TEST_P(written_programs, keep_numbers_that_no_real_number_equals) {
  program_builder p;
  const auto x = p.input("x");
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto y = p.add("y", maximum(x, nan));
  const auto z = p.add("z", minimum(x, -infinity));
  const auto w = p.add("w", multiply(x, -0.0));
  const auto what = std::move(p).build({y, z, w});
  (void)expect_same(what, {{"x", random_tensor({4})}});
}

TEST(refused_programs, are_not_written) {
  const temporary_folder folder;
  const auto path = folder / "program.onnx";
  EXPECT_TRUE(
      throws(errc::invalid_argument, "program: is empty", [&] { write_model(program(), path); }));
  const auto build = [](auto&& add_step) {
    program_builder p;
    const auto x = p.input("x");
    return std::move(p).build({add_step(p, x)});
  };
  const auto doubled = build([](auto& p, const auto& x) { return p.add("doubled", add(x, x)); });
  EXPECT_TRUE(throws(errc::invalid_argument, "inputs: are 2, but the program has 1", [&] {
    write_model(doubled, path, {.inputs = {{.name = "a"}, {.name = "b"}}});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs: one has no name",
                     [&] { write_model(doubled, path, {.outputs = {{}}}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "no folder",
                     [&] { write_model(doubled, folder / "no folder/program.onnx"); }));
  // A device without room.
  if (std::filesystem::exists("/dev/full")) {
    EXPECT_TRUE(throws(errc::library_failure, "/dev/full: cannot be written: No space left",
                       [&] { write_model(doubled, "/dev/full"); }));
    EXPECT_TRUE(std::filesystem::exists("/dev/full"));
  }
  const auto scaled = build([](auto& p, const auto& x) {
    return p.add("scaled", affine{.x = x, .factor = p.scalar("volume")});
  });
  EXPECT_TRUE(throws(errc::unsupported, "scalar 'volume'", [&] { write_model(scaled, path); }));
  // The shapes do not fit.
  const auto product =
      build([](auto& p, const auto& x) { return p.add("product", gemm{.a = x, .b = x}); });
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'product'", [&] {
    write_model(
        product, path,
        {.inputs = {
             {.name = "x", .type = element_type::f32, .shape = {{{.extent = 2}, {.extent = 3}}}}}});
  }));
  EXPECT_EQ(folder.entries(), 0);
}

/// An operation that sluice does not have, with a name that one of sluice has.
struct own_negation {
  operand x{};
  operand y{};
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &own_negation::x), output("y", &own_negation::y));
  }
};
struct own_negation_call {};
const operation_descriptor& descriptor_of(operation_type<own_negation>) {
  static const typed_operation_descriptor<own_negation, own_negation_call> descriptor(
      {.name = "negate",
       .infer = [](const own_negation& op, inference& inference) -> own_negation_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
         return {};
       },
       .host = {.library = "own"},
       .compute =
           [](const own_negation_call&, const launch_of<own_negation>&) {
           }});
  return descriptor;
}

class written_constants : public programs {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "program.onnx"; }
  [[nodiscard]] const temporary_folder& folder() const { return folder_; }

 private:
  temporary_folder folder_;
};
INSTANTIATE_TEST_SUITE_P(devices, written_constants, every_device(), parameter_name);

TEST_P(written_constants, of_random_programs_are_downloaded) {
  auto generator = make_generator();
  for (int i = 0; i < 20; ++i) {
    const random_program tested(*this, generator, 12, {.capture = capture_policy::at_prepare});
    const bool states_shapes = i % 2 == 0;
    model_write_options options{.service = service()};
    spec_map specs;
    for (std::size_t j = 0; j < tested.inputs().size(); ++j) {
      const auto& x = tested.inputs()[j];
      const auto name = "input" + std::to_string(j);
      specs.emplace(name, tensor_spec::row_major(x.type(), x.shape()));
      if (!states_shapes) continue;
      auto& input = options.inputs.emplace_back(model_value{.name = name, .type = x.type()});
      input.shape.emplace();
      for (const auto extent : x.shape()) input.shape->push_back({.extent = extent});
    }
    write_model(tested.get(), path(), options);
    const auto read = read_as_written(path(), specs);
    const std::vector<operand> inputs(tested.inputs().begin(), tested.inputs().end());
    const auto expected =
        results_of({tested.get(), {tested.inputs().begin(), tested.inputs().end()}});
    const auto found = results_of({read.program, {tested.inputs().begin(), tested.inputs().end()}});
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t j = 0; j < found.size(); ++j) {
      EXPECT_EQ(bits(found[j]), bits(expected[j])) << tested.get().text() << read.program.text();
    }
  }
  EXPECT_EQ(folder().entries(), 1);
}

/// The writer waits for what writes the constant, and packs a view.
TEST_P(written_constants, in_any_order_are_those_of_the_last_launch) {
  const auto base = numbers({4, 6});
  const auto constant = base.transposed().slice(0, 1, 6, 2);
  program_builder p;
  const auto y = p.add("y", multiply(p.input("x"), constant));
  const auto what = std::move(p).build({y});
  (void)alone(affine{.x = base, .factor = 2, .y = base});
  write_model(what, path(), {.service = service()});
  const auto message = message_of(path());
  ASSERT_EQ(message.graph().initializer_size(), 1);
  const auto& written = message.graph().initializer(0);
  EXPECT_EQ(written.name(), "y.b");
  const auto expected = get(constant);
  ASSERT_EQ(written.raw_data().size(), expected.bytes());
  EXPECT_EQ(std::memcmp(written.raw_data().data(), expected.data().get(), expected.bytes()), 0);
}

TEST_P(written_constants, on_the_device_need_its_service) {
  const auto constant = numbers({3});
  program_builder p;
  const auto y = p.add("y", multiply(p.input("x"), constant));
  const auto what = std::move(p).build({y});
  EXPECT_TRUE(throws(errc::invalid_argument, "service: is not given, but the constant 'y.b' lies",
                     [&] { write_model(what, path()); }));
  // More than a file may have, without as much memory.
  const auto huge = small(1).broadcast_to({1 << 16, 1 << 14});
  program_builder q;
  const auto z = q.add("z", multiply(q.input("x"), huge));
  const auto large = std::move(q).build({z});
  EXPECT_TRUE(throws(errc::unsupported, "bytes, but a file of ONNX has less than 2 GiB",
                     [&] { write_model(large, path(), {.service = service()}); }));
  EXPECT_EQ(folder().entries(), 0);
}

TEST_P(written_constants, of_own_operations_are_refused_by_name) {
  program_builder p;
  const auto opposite = p.add("opposite", own_negation{.x = p.input("x")});
  const auto what = std::move(p).build({opposite});
  EXPECT_TRUE(throws(errc::unsupported, "step 'opposite': the operation 'negate' is not one of",
                     [&] { write_model(what, path()); }));
  EXPECT_EQ(folder().entries(), 0);
}

/// The error of a node of the domain of sluice.
void expect_refused_node(const std::string& text, const std::function<void(onnx::NodeProto&)>& fill,
                         std::int64_t version = 1) {
  onnx_graph g;
  g.input("x").output("y");
  auto& own_operators = *g.message().add_opset_import();
  own_operators.set_domain("sluice");
  own_operators.set_version(version);
  g.node("softmax", {"x"}, {"y"});
  auto& node = *g.graph().mutable_node(0);
  node.set_domain("sluice");
  fill(node);
  try {
    (void)g.make().program_for({{"x", tensor_spec::row_major(element_type::f32, {2, 3})}});
    ADD_FAILURE() << "no error with '" << text << "'";
  } catch (const error& e) {
    EXPECT_NE(std::string(e.what()).find("test.onnx: node 'y' (" + text), std::string::npos)
        << e.what();
  }
}

TEST(nodes_of_sluice, are_refused_by_node_and_attribute) {
  const auto with = [](const std::string& op_type, const char* name, auto value) {
    return [=](onnx::NodeProto& node) {
      node.set_op_type(op_type);
      if (name != nullptr) onnx_node(node).with(name, value);
    };
  };
  const std::vector<std::int64_t> sevens{7, 7};
  expect_refused_node(
      "softmax): version 2 of the domain 'sluice'", [](auto&) {}, 2);
  expect_refused_node("future): sluice does not have", with("future", nullptr, 0));
  expect_refused_node("softmax): axis: is an attribute of another type",
                      with("softmax", "axis", "last"));
  expect_refused_node("softmax): axis", with("softmax", "axis", 7));
  expect_refused_node("softmax): sum: is no attribute", with("softmax", "sum", 7));
  expect_refused_node("reshape): shape: the attribute", with("reshape", nullptr, 0));
  expect_refused_node("reshape): ", with("reshape", "shape", sevens));
  expect_refused_node("permute): ", with("permute", "axes", sevens));
  expect_refused_node("select): axis: is 7, but must be from 0 to 1", with("select", "axis", 7));
  expect_refused_node("unsqueeze): axis: is -1, but", with("unsqueeze", "axis", -1));
  expect_refused_node("unsqueeze): axis: is 3, but", with("unsqueeze", "axis", 3));
  expect_refused_node("reinterpret): type: is 'f33', which is none of",
                      with("reinterpret", "type", "f33"));
  expect_refused_node("transposed): inputs: are not one", [](auto& node) {
    node.set_op_type("transposed");
    node.add_input("x");
  });
  expect_refused_node("softmax): input 2: is not one", [](auto& node) {
    node.add_input("");
    node.add_input("x");
  });
  expect_refused_node("softmax): y: is given, but the operation does not read it",
                      [](auto& node) { node.add_input("x"); });
  expect_refused_node("add): b: is an input and an attribute", [](auto& node) {
    node.set_op_type("add");
    node.add_input("x");
    onnx_node(node).with("b", 2);
  });
  expect_refused_node("concatenate): input 0", [](auto& node) {
    node.set_op_type("concatenate");
    node.clear_input();
  });
  expect_refused_node("slice): ", [&](auto& node) {
    node.set_op_type("slice");
    const auto least = std::numeric_limits<std::int64_t>::min();
    onnx_node(node).with("axis", 0).with("first", least).with("step", least).with("last", 9);
  });
}

}  // namespace
}  // namespace sluice::test
