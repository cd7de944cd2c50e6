// SPDX-License-Identifier: Apache-2.0
// Sources whose programs are not what they state.
#include "tests/actors/models/waiting_model_requests.hpp"
#include "tests/support/expect_error.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using names = std::vector<std::string>;

/// The program 2 · x and x + 1, or the first of them.
program program_of(std::size_t outputs) {
  program_builder p;
  const auto x = p.input("x");
  std::vector<program_value> results{p.add("product", multiply(x, 2.0))};
  if (outputs == 2) results.push_back(p.add("sum", add(x, 1.0)));
  return std::move(p).build(results);
}

/// A model with the input x and the outputs `outputs`. A function makes its programs.
class faulty_source final : public model_source {
 public:
  using function = std::function<model_program(const std::map<std::string, host_tensor>& values)>;

  faulty_source(const names& outputs, function make) : make_(std::move(make)) {
    for (const auto& name : outputs) outputs_.push_back({.name = name});
  }
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return outputs_;
  }
  [[nodiscard]] model_program program_for(const std::map<std::string, tensor_spec>& /*specs*/,
                                          const std::map<std::string, host_tensor>& values,
                                          const model_options& /*options*/) const override {
    return make_(values);
  }

 private:
  const std::vector<model_value> inputs_{{.name = "x"}};
  std::vector<model_value> outputs_;
  const function make_;
};

class faulty_sources : public waiting_model_requests {
 protected:
  /// Expects that each request to a model makes a program anew, and fails because of `words`.
  void expect_failures(const std::string& words, const names& outputs,
                       const faulty_source::function& make) {
    SCOPED_TRACE(words);
    int begun = 0;
    const auto source = std::make_shared<faulty_source>(outputs, [&](const auto& values) {
      ++begun;
      return make(values);
    });
    (void)s().ask<model_description>(models(), load_model{.name = "faulty", .source = source});
    for (int i = 1; i <= 2; ++i) {
      const auto reply =
          send(run_model_to_host{.name = "faulty", .inputs = {{"x", ones(3)}}})->wait().front();
      ASSERT_TRUE(failed_with(reply, errc::library_failure));
      EXPECT_NE(std::string(reply.failure->what()).find(words), std::string::npos)
          << reply.failure->what();
      EXPECT_EQ(begun, i);
    }
    EXPECT_EQ(s().ask<model_description>(models(), describe_model{"faulty"}).programs, 0U);
  }
  void expect_failures(const std::string& words, const names& outputs, const model_program& made) {
    expect_failures(words, outputs, [made](const auto&) { return made; });
  }
};

TEST_F(faulty_sources, state_other_results) {
  const auto expect = [&](const std::string& words, std::vector<tensor_spec> results) {
    expect_failures(words, {"y"},
                    {.program = program_of(1),
                     .inputs = {"x"},
                     .outputs = {"y"},
                     .results = std::move(results)});
  };
  const auto of = [](element_type type, const extents& shape) {
    return tensor_spec::row_major(type, shape);
  };
  expect("\"y\": the source states a result of f32[2], but the program has one of f32[3]",
         {of(element_type::f32, {2})});
  expect("states a result of f16[3]", {of(element_type::f16, {3})});
  expect("states 2 results of a program that has 1",
         {of(element_type::f32, {3}), of(element_type::f32, {3})});
}

TEST_F(faulty_sources, have_no_program) {
  expect_failures("no program", {"y"}, {.inputs = {"x"}, .outputs = {"y"}});
  expect_failures("no program", {"y"}, model_program{});
}

TEST_F(faulty_sources, have_no_outputs) {
  const auto source = std::make_shared<faulty_source>(names{}, [](const auto&) {
    return model_program{.program = program_of(1), .inputs = {"x"}};
  });
  const load_model request{.name = "faulty", .source = source};
  EXPECT_TRUE(throws(errc::invalid_argument, "source: has no outputs",
                     [&] { (void)s().ask<model_description>(models(), request); }));
}

TEST_F(faulty_sources, state_other_numbers_of_inputs_and_outputs) {
  expect_failures("2 outputs of a program that has 1", {"y", "z"},
                  {.program = program_of(1), .inputs = {"x"}, .outputs = {"y", "z"}});
  expect_failures("2 outputs of a program that has 1", {"y"},
                  {.program = program_of(1), .inputs = {"x"}, .outputs = {"hidden", "y"}});
  expect_failures("1 outputs of a program that has 2", {"y"},
                  {.program = program_of(2), .inputs = {"x"}, .outputs = {"y"}});
  expect_failures("0 inputs of a program that has 1", {"y"},
                  {.program = program_of(1), .inputs = {}, .outputs = {"y"}});
  expect_failures("2 inputs of a program that has 1", {"y"},
                  {.program = program_of(1), .inputs = {"x", "x"}, .outputs = {"y"}});
}

TEST_F(faulty_sources, state_other_names) {
  program_builder p;
  const auto sum = p.add("sum", add(p.input("a"), p.input("b")));
  expect_failures("\"x\": the source names this input twice", {"y"},
                  {.program = std::move(p).build({sum}), .inputs = {"x", "x"}, .outputs = {"y"}});
  expect_failures("\"y\": the source names this output twice", {"y"},
                  {.program = program_of(2), .inputs = {"x"}, .outputs = {"y", "y"}});
  expect_failures("\"w\": the program has an input", {"y"},
                  {.program = program_of(1), .inputs = {"w"}, .outputs = {"y"}});
  expect_failures("\"y\": the program has no such output", {"y"},
                  {.program = program_of(1), .inputs = {"x"}, .outputs = {"z"}});
}

TEST_F(faulty_sources, ask_for_inputs_that_they_do_not_have) {
  expect_failures("\"w\": the source asks", {"y"}, [](const auto&) -> model_program {
    throw unbound_inputs("w must be known", {"x", "w"});
  });
}

TEST_F(faulty_sources, may_name_an_input_that_must_be_known_twice) {
  const auto source = std::make_shared<faulty_source>(names{"product"}, [](const auto& values) {
    if (values.empty()) throw unbound_inputs("x must be known", {"x", "x"});
    program_builder p;
    const auto product = p.add("product", multiply(p.constant("x", values.at("x")), 2.0));
    return model_program{.program = std::move(p).build({product}), .outputs = {"product"}};
  });
  (void)s().ask<model_description>(models(), load_model{.name = "known", .source = source});
  expect_product(*send(run_of(ones(3), "known")), 2);
}

}  // namespace
}  // namespace sluice::test
