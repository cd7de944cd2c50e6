// SPDX-License-Identifier: Apache-2.0
// Files refuse what the programs refuse that they were written from.
#include "tests/models/onnx_graph.hpp"
#include "tests/models/written_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sluice/models/write_model.hpp>
#include <sluice/operations/binary.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/unary.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class written_requirements : public ::testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "program.onnx"; }
  [[nodiscard]] const temporary_folder& folder() const { return folder_; }

  /// The number of steps that the file has for an input with these properties.
  [[nodiscard]] std::size_t steps(const std::string& name, element_type type,
                                  const extents& shape) const {
    const auto spec = tensor_spec::row_major(type, shape);
    return read_as_written(path(), {{name, spec}}).program.steps();
  }
  [[nodiscard]] ::testing::AssertionResult is_refused(const std::string& text,
                                                      const std::string& name, element_type type,
                                                      const extents& shape) const {
    return throws(errc::invalid_argument, text, [&] { (void)steps(name, type, shape); });
  }

 private:
  temporary_folder folder_;
};

/// A program that requires its input to have a shape.
program doubled_matrix(const extents& shape) {
  program_builder p;
  const auto x = p.input("x", element_type::f32, shape);
  const auto doubled = p.add("doubled", add(x, x));
  return std::move(p).build({doubled});
}

TEST_F(written_requirements, of_inputs_are_declared) {
  program_builder p;
  const auto clip = p.input("clip", element_type::f32, {1, 16});
  const auto y = p.add("y", exp(clip));
  const auto what = std::move(p).build({y});
  const std::vector<model_value> declarations{
      {.name = "clip"},
      {.name = "clip", .type = element_type::f32},
      {.name = "clip", .shape = {{{.extent = 1}, {.symbol = "samples"}}}},
      {.name = "clip", .type = element_type::f32, .shape = {{{.extent = 1}, {.extent = 16}}}}};
  for (const auto& declaration : declarations) {
    write_model(what, path(), {.inputs = {declaration}});
    const auto input = model::open(path()).inputs().front();
    EXPECT_EQ(input.type, element_type::f32);
    EXPECT_EQ(to_string(input.shape.value()), "[1, 16]");
    EXPECT_EQ(steps("clip", element_type::f32, {1, 16}), 1U);
    EXPECT_TRUE(is_refused("clip: has the shape [1, 8]", "clip", element_type::f32, {1, 8}));
    EXPECT_TRUE(is_refused("clip: has the type f64", "clip", element_type::f64, {1, 16}));
  }
}

TEST_F(written_requirements, of_inputs_contradict_no_declaration) {
  program_builder p;
  const auto clip = p.input("clip", element_type::f32, {1, 16});
  const auto y = p.add("y", exp(clip));
  const auto what = std::move(p).build({y});
  const auto write = [&](const model_value& declaration) {
    write_model(what, path(), {.inputs = {declaration}});
  };
  EXPECT_TRUE(throws(errc::invalid_argument, "sound: has the type f32, but the model declares f16",
                     [&] { write({.name = "sound", .type = element_type::f16}); }));
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "sound: has the shape [1, 16], but the model declares [n, 8]", [&] {
                       write({.name = "sound",
                              .type = element_type::f32,
                              .shape = {{{.symbol = "n"}, {.extent = 8}}}});
                     }));
  EXPECT_TRUE(throws(errc::invalid_argument,
                     "sound: has the shape [1, 16], but the model declares [n]",
                     [&] { write({.name = "sound", .shape = {{{.symbol = "n"}}}}); }));
  EXPECT_EQ(folder().entries(), 0);
}

TEST_F(written_requirements, of_programs_within_are_those_of_their_inputs) {
  program_builder p;
  const auto y = p.input("y");
  const auto sum = p.add("sum", doubled_matrix({2, 3}), {y}).front();
  write_model(std::move(p).build({sum}), path());
  EXPECT_EQ(operators_of(path()), "Add");
  EXPECT_EQ(steps("y", element_type::f32, {2, 3}), 1U);
  EXPECT_TRUE(is_refused("y: has the shape [2, 4]", "y", element_type::f32, {2, 4}));
  // No input has both shapes.
  program_builder q;
  const auto x = q.input("x");
  const auto a = q.add("a", doubled_matrix({2, 3}), {x}).front();
  const auto b = q.add("b", doubled_matrix({2, 4}), {x}).front();
  const auto contradictory = std::move(q).build({a, b});
  EXPECT_TRUE(throws(errc::invalid_argument, "x: has the shape [2, 4]",
                     [&] { write_model(contradictory, path()); }));
}

TEST_F(written_requirements, of_results_are_nodes) {
  program_builder p;
  const auto e = p.add("e", exp(p.input("y")));
  const auto sum = p.add("sum", doubled_matrix({2, 3}), {e}).front();
  const auto what = std::move(p).build({sum});
  write_model(what, path());
  EXPECT_EQ(operators_of(path()), "Exp sluice.require Add");
  EXPECT_EQ(steps("y", element_type::f32, {2, 3}), 2U);
  EXPECT_TRUE(is_refused("node 'e.require' (require): input: has the type f32 and the shape [2, 4]",
                         "y", element_type::f32, {2, 4}));
  EXPECT_TRUE(is_refused("node 'e.require' (require): input: has the type f64", "y",
                         element_type::f64, {2, 3}));
  // The declaration of the input says as much.
  write_model(
      what, path(),
      {.inputs = {
           {.name = "y", .type = element_type::f32, .shape = {{{.extent = 2}, {.extent = 3}}}}}});
  EXPECT_EQ(operators_of(path()), "Exp Add");
  EXPECT_EQ(steps("y", element_type::f32, {2, 3}), 2U);
}

TEST_F(written_requirements, of_views_and_constants_are_nodes) {
  program_builder p;
  const auto y = p.input("y");
  const auto c = p.constant("c", host_tensor(std::vector<float>(6, 0.5F), {2, 3}));
  const auto a = p.add("a", doubled_matrix({2, 3}), {y.transposed()}).front();
  const auto b = p.add("b", doubled_matrix({2, 3}), {c}).front();
  write_model(std::move(p).build({a, b}), path());
  EXPECT_EQ(operators_of(path()), "sluice.transposed sluice.require Add sluice.require Add");
  EXPECT_NO_THROW((void)steps("y", element_type::f32, {3, 2}));
  EXPECT_TRUE(is_refused("node 'y.require' (require): input", "y", element_type::f32, {2, 3}));
}

/// The import of ONNX's operator would clamp the end, broadcast the shape, or convert the exponent.
TEST_F(written_requirements, of_views_hold_for_unknown_shapes) {
  const auto write = [&](const auto& view, const std::optional<extents>& shape = {}) {
    program_builder p;
    const auto x = p.input("x");
    const auto y = p.add("y", exp(view(x)));
    model_value declaration{.name = "x"};
    if (shape) {
      declaration.type = element_type::f32;
      declaration.shape.emplace();
      for (const auto extent : *shape) declaration.shape->push_back({.extent = extent});
    }
    write_model(std::move(p).build({y}), path(), {.inputs = {declaration}});
    return operators_of(path());
  };
  const auto slice = [](const auto& x) {
    return x.slice(0, 1, 5);
  };
  EXPECT_EQ(write(slice, extents{6, 3}), "Slice Exp");
  EXPECT_EQ(write(slice), "sluice.slice Exp");
  EXPECT_NO_THROW((void)steps("x", element_type::f32, {6, 3}));
  EXPECT_TRUE(is_refused("(slice): ", "x", element_type::f32, {4, 3}));
  const auto broadcast = [](const auto& x) {
    return x.broadcast_to({1, 3});
  };
  EXPECT_EQ(write(broadcast, extents{1, 1}), "Expand Exp");
  EXPECT_EQ(write(broadcast), "sluice.broadcast_to Exp");
  EXPECT_NO_THROW((void)steps("x", element_type::f32, {1, 1}));
  EXPECT_TRUE(is_refused("(broadcast_to): ", "x", element_type::f32, {2, 3}));
  const auto unsqueeze = [](const auto& x) {
    return x.unsqueeze(std::numeric_limits<std::size_t>::max());
  };
  EXPECT_EQ(write(unsqueeze), "sluice.unsqueeze Exp");
  EXPECT_TRUE(is_refused("(unsqueeze): axis: is -1", "x", element_type::f32, {2, 3}));
}

TEST_F(written_requirements, of_exponents_hold_for_unknown_types) {
  program_builder p;
  const auto x = p.input("x");
  const auto exponent = p.constant("exponent", host_tensor(std::vector<double>{2, 3}, {2}));
  const auto y = p.add("y", power(x, exponent));
  const auto what = std::move(p).build({y});
  write_model(what, path());
  EXPECT_EQ(operators_of(path()), "sluice.power");
  EXPECT_EQ(steps("x", element_type::f64, {2}), 1U);
  EXPECT_TRUE(is_refused("(power): ", "x", element_type::f32, {2}));
  write_model(what, path(),
              {.inputs = {{.name = "x", .type = element_type::f64, .shape = {{{.extent = 2}}}}}});
  EXPECT_EQ(operators_of(path()), "Pow");
}

TEST_F(written_requirements, of_names_are_those_of_files) {
  program_builder p;
  const auto x = p.input("x");
  const auto y = p.add("y", exp(x));
  const auto what = std::move(p).build({y});
  // A run by name takes an input for the output.
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs: 'x' is the name of an input",
                     [&] { write_model(what, path(), {.outputs = {{.name = "x"}}}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "outputs: 'y' is the name of an input", [&] {
    write_model(what, path(), {.inputs = {{.name = "y"}}, .outputs = {{.name = "y"}}});
  }));
  for (const std::string name :
       {"\xff", "a\x80", "\xc3", "\xc0\x80", "\xed\xa0\x80", "\xe0\x9f\xbf", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xe2\x82", "\xc3x"}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "?: the name is not UTF-8",
                       [&] { write_model(what, path(), {.inputs = {{.name = name + '\xff'}}}); }));
    EXPECT_TRUE(throws(errc::invalid_argument, "the name is not UTF-8",
                       [&] { write_model(what, path(), {.outputs = {{.name = name}}}); }));
    EXPECT_TRUE(throws(errc::invalid_argument, "the name is not UTF-8", [&] {
      write_model(
          what, path(),
          {.inputs = {{.name = "x", .type = element_type::f32, .shape = {{{.symbol = name}}}}}});
    }));
    program_builder q;
    const auto step = q.add(name, exp(q.input("x")));
    const auto z = q.add("z", exp(step));
    const auto refused = std::move(q).build({z});
    EXPECT_TRUE(throws(errc::invalid_argument, "the name is not UTF-8",
                       [&] { write_model(refused, path()); }));
  }
  EXPECT_EQ(folder().entries(), 0);
  for (const std::string name :
       {"größe", "\xe2\x82\xac", "\xf0\x9f\x8e\xb5", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    write_model(what, path(), {.inputs = {{.name = name}}});
    EXPECT_EQ(model::open(path()).inputs().front().name, name);
  }
}

/// The import cuts names.
TEST_F(written_requirements, of_names_hold_for_long_ones) {
  std::string name = "x";
  for (int i = 0; i < 200; ++i) name += "é";
  onnx_graph g;
  g.input("x", {2}).output("y");
  g.node("Exp", {"x"}, {name.c_str()});
  g.node("Exp", {name.c_str()}, {"y"});
  const spec_map specs{{"x", tensor_spec::row_major(element_type::f32, {2})}};
  write_model(g.make().program_for(specs), path());
  EXPECT_EQ(message_of(path()).graph().node(0).output(0), name.substr(0, 255));
  EXPECT_EQ(read_as_written(path(), specs).program.steps(), 2U);
}

/// A shape that is a sum is known only if nodes are computed.
TEST(stated_steps, are_those_of_files_with_the_key_and_its_value) {
  const auto output_shape = [](const char* key, const char* state) {
    onnx_graph g;
    g.input("x", {2, 3}).output("y");
    g.constant("a", std::vector<std::int64_t>{2, 1});
    g.constant("b", std::vector<std::int64_t>{4, 0});
    g.node("Add", {"a", "b"}, {"shape"});
    g.node("Reshape", {"x", "shape"}, {"y"});
    auto& entry = *g.message().add_metadata_props();
    entry.set_key(key);
    entry.set_value(state);
    const auto x = tensor_spec::row_major(element_type::f32, {2, 3});
    return g.make().program_for({{"x", x}}).results.front().shape;
  };
  const extents expected{6, 1};
  EXPECT_EQ(output_shape("sluice.steps", "0"), expected);
  EXPECT_EQ(output_shape("sluice.steps", ""), expected);
  EXPECT_EQ(output_shape("steps", "1"), expected);
  const auto failure = error_of([&] { return output_shape("sluice.steps", "1"); });
  ASSERT_TRUE(failure);
  EXPECT_NE(std::string(failure->what()).find("the key 'sluice.steps'"), std::string::npos)
      << failure->what();
}

}  // namespace
}  // namespace sluice::test
