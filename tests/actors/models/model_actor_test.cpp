// SPDX-License-Identifier: Apache-2.0
// Models that are served by name: results, names, errors, and the programs that are kept.
#include "tests/actors/models/scripted_source.hpp"
#include "tests/actors/session_test.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"

#include <sluice/actors/models.hpp>
#include <sluice/operations/program_source.hpp>
#include <sluice/operations/unary.hpp>

#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

class served_models : public session_test {
 protected:
  using names = std::vector<std::string>;

  [[nodiscard]] model_actor models() { return device().models(); }
  std::shared_ptr<scripted_source> load(const std::string& name, std::optional<float> factor,
                                        std::size_t max_programs = 32) {
    auto source = std::make_shared<scripted_source>(factor);
    (void)s().ask<model_description>(
        models(), load_model{.name = name, .source = source, .max_programs = max_programs});
    return source;
  }
  [[nodiscard]] host_tensor numbers(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {s().numbers<float>(count), shape};
  }
  [[nodiscard]] host_tensors results(const std::string& name,
                                     std::map<std::string, run_input> inputs, names outputs = {}) {
    return s().ask<host_tensors>(
        models(), run_model_to_host{
                      .name = name, .inputs = std::move(inputs), .outputs = std::move(outputs)});
  }
  [[nodiscard]] model_description description(const std::string& name) {
    return s().ask<model_description>(models(), describe_model{name});
  }
  /// `convert(x)` of each element.
  template <class Convert>
  static void expect_map(const host_tensor& result, const host_tensor& x, const Convert& convert) {
    ASSERT_EQ(result.shape(), x.shape());
    const auto values = x.to_vector<float>();
    const auto found = result.to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_FLOAT_EQ(found[i], static_cast<float>(convert(double{values[i]}))) << i;
    }
  }
  static void expect_right(const host_tensors& found, const host_tensor& x, double factor) {
    ASSERT_EQ(found.size(), 2U);
    expect_map(found[0], x, [&](double value) { return factor * value; });
    expect_map(found[1], x, [&](double value) { return factor + value; });
  }
  template <class Action>
  ::testing::AssertionResult refused(errc code, const std::string& word, Action action) {
    return throws(code, word, action);
  }
};

TEST_P(served_models, have_the_results_of_their_programs) {
  const auto source = load("scale", 1.5F);
  for (const auto& shape : {extents{}, extents{1}, extents{7}, extents{0, 3}, extents{3, 5, 2}}) {
    SCOPED_TRACE(to_string(shape));
    const auto x = numbers(shape);
    const auto found = results("scale", {{"x", x}});
    expect_right(found, x, 1.5);
    const auto made =
        source->program_for({{"x", tensor_spec::row_major(element_type::f32, shape)}}, {}, {});
    const auto expected =
        s().ask<host_tensors>(device().programs(), run_to_host{made.program, {x}});
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found[i].to_vector<float>(), expected[i].to_vector<float>());
    }
  }
}

TEST_P(served_models, take_and_return_tensors_on_the_device) {
  (void)load("scale", -2.0F);
  const auto values = s().numbers<float>(37);
  const auto x = s().put(values);
  for (const auto when : {reply_on::finished, reply_on::enqueued}) {
    const auto found = s().ask<tensors>(models(), run_model{.name = "scale", .inputs = {{"x", x}}},
                                        request_options{.reply = when});
    ASSERT_EQ(found.size(), 2U);
    const auto product = s().get(found[0].as<float>());
    const auto sum = s().get(found[1].as<float>());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_FLOAT_EQ(product[i], -2 * values[i]);
      EXPECT_FLOAT_EQ(sum[i], values[i] - 2);
    }
  }
  // The programs of tensors on the device and in host memory are the same.
  (void)results("scale", {{"x", host_tensor(values)}});
  EXPECT_EQ(description("scale").programs, 1U);
}

TEST_P(served_models, pass_on_numbers_that_are_not_finite) {
  (void)load("scale", 2.0F);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto found = results("scale", {{"x", std::vector<float>{infinity, -infinity, NAN}}});
  for (std::size_t i = 0; i < 2; ++i) {
    const auto values = found[i].to_vector<float>();
    EXPECT_EQ(values[0], infinity);
    EXPECT_EQ(values[1], -infinity);
    EXPECT_TRUE(std::isnan(values[2]));
  }
}

TEST_P(served_models, return_the_outputs_that_are_wanted) {
  (void)load("scale", 3.0F);
  const auto x = numbers({11});
  const auto product = results("scale", {{"x", x}}, {"product"});
  const auto sum = results("scale", {{"x", x}}, {"sum"});
  const auto both = results("scale", {{"x", x}}, {"sum", "product"});
  ASSERT_EQ(product.size(), 1U);
  ASSERT_EQ(sum.size(), 1U);
  ASSERT_EQ(both.size(), 2U);
  for (const auto& found : {product[0], both[1]}) {
    expect_map(found, x, [](double value) { return 3 * value; });
  }
  for (const auto& found : {sum[0], both[0]}) {
    expect_map(found, x, [](double value) { return 3 + value; });
  }
  const auto on_device = s().ask<tensors>(
      models(), run_model{.name = "scale", .inputs = {{"x", x}}, .outputs = {"sum"}});
  ASSERT_EQ(on_device.size(), 1U);
  EXPECT_EQ(s().get(on_device[0].as<float>()), sum[0].to_vector<float>());
  EXPECT_EQ(description("scale").programs, 1U);
}

TEST_P(served_models, bind_inputs_that_must_be_known) {
  const auto source = load("scale", std::nullopt);
  const auto x = numbers({2, 4});
  std::vector<float> factor{4};
  for (const float value : {4.0F, -1.0F, 4.0F}) {
    expect_right(results("scale", {{"x", x}, {"factor", std::vector<float>{value}}}), x, value);
  }
  // One attempt without the value, and one for each.
  EXPECT_EQ(source->begun(), 3);
  EXPECT_EQ(description("scale").programs, 2U);
}

// The client may use the memory again when it has its answer.
TEST_P(served_models, keep_copies_of_values_that_are_bound) {
  (void)load("scale", std::nullopt);
  const auto x = numbers({3});
  host_tensor factor(std::vector<float>{2});
  expect_right(results("scale", {{"x", x}, {"factor", factor}}), x, 2);
  factor.values<float>()[0] = 5;
  expect_right(results("scale", {{"x", x}, {"factor", factor}}), x, 5);
  expect_right(results("scale", {{"x", x}, {"factor", std::vector<float>{2}}}), x, 2);
  EXPECT_EQ(description("scale").programs, 2U);
}

TEST_P(served_models, refuse_values_on_the_device_that_must_be_known) {
  const auto source = load("scale", std::nullopt);
  const auto factor = s().put(std::vector<float>{2});
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(refused(errc::invalid_argument, "factor: must lie in host memory", [&] {
      (void)results("scale", {{"x", numbers({3})}, {"factor", factor}});
    }));
  }
  // The reason is kept.
  EXPECT_EQ(source->begun(), 1);
}

TEST_P(served_models, have_names) {
  EXPECT_TRUE(s().ask<model_list>(models(), list_models{}).names.empty());
  (void)load("b", 2.0F);
  (void)load("a", 3.0F);
  EXPECT_EQ(s().ask<model_list>(models(), list_models{}).names, (names{"a", "b"}));
  const auto x = numbers({5});
  expect_right(results("a", {{"x", x}}), x, 3);
  expect_right(results("b", {{"x", x}}), x, 2);
  (void)load("a", 7.0F);
  expect_right(results("a", {{"x", x}}), x, 7);
  EXPECT_EQ(s().ask<model_list>(models(), unload_model{"a"}).names, names{"b"});
  EXPECT_TRUE(refused(errc::invalid_argument, "\"a\"", [&] { (void)results("a", {{"x", x}}); }));
  EXPECT_TRUE(refused(errc::invalid_argument, "\"a\"", [&] { (void)description("a"); }));
  EXPECT_TRUE(refused(errc::invalid_argument, "\"a\"",
                      [&] { (void)s().ask<model_list>(models(), unload_model{"a"}); }));
  expect_right(results("b", {{"x", x}}), x, 2);
}

TEST_P(served_models, are_described) {
  const auto loaded = s().ask<model_description>(
      models(),
      load_model{.name = "scale", .source = std::make_shared<scripted_source>(std::nullopt)});
  for (const auto& found : {loaded, description("scale")}) {
    EXPECT_EQ(found.name, "scale");
    ASSERT_EQ(found.inputs.size(), 2U);
    EXPECT_EQ(found.inputs[0].name, "x");
    EXPECT_FALSE(found.inputs[0].shape);
    EXPECT_EQ(found.inputs[1].name, "factor");
    EXPECT_EQ(found.inputs[1].type, element_type::f32);
    EXPECT_EQ(to_string(*found.inputs[1].shape), "[1]");
    ASSERT_EQ(found.outputs.size(), 2U);
    EXPECT_EQ(found.outputs[1].name, "sum");
    EXPECT_EQ(found.programs, 0U);
    EXPECT_EQ(found.waiting, 0U);
  }
}

TEST_P(served_models, refuse_requests_that_do_not_fit) {
  const auto source = load("scale", std::nullopt);
  const auto x = numbers({4});
  const std::vector<float> factor{1};
  const auto expect = [&](const std::string& word, std::map<std::string, run_input> inputs,
                          names outputs = {}) {
    EXPECT_TRUE(refused(errc::invalid_argument, word,
                        [&] { (void)results("scale", std::move(inputs), std::move(outputs)); }));
  };
  expect("x: the input is not given", {{"factor", factor}});
  expect("factor: the input is not given", {{"x", x}});
  expect("x: the input is not given", {{"x", run_input()}, {"factor", factor}});
  expect("\"y\": is not an input", {{"x", x}, {"factor", factor}, {"y", x}});
  expect("x: has the type f64", {{"x", std::vector<double>{1}}, {"factor", factor}});
  expect("factor: has the shape [2]", {{"x", x}, {"factor", std::vector<float>{1, 2}}});
  expect("\"mean\": is not an output", {{"x", x}, {"factor", factor}}, {"mean"});
  expect("sum: is named twice", {{"x", x}, {"factor", factor}}, {"sum", "product", "sum"});
  EXPECT_TRUE(refused(errc::invalid_argument, "there is no model \"none\"", [&] {
    (void)results("none", {{"x", x}});
  }));
  // Names of clients may be long and have any bytes.
  const std::string long_name(100'000, '\n');
  const auto failure = error_of([&] { (void)results(long_name, {{"x", x}}); });
  ASSERT_TRUE(failure);
  EXPECT_LT(std::string(failure->what()).size(), 200U);
  EXPECT_EQ(std::string(failure->what()).find('\n'), std::string::npos);
  EXPECT_EQ(source->begun(), 0);
}

TEST_P(served_models, are_refused_if_they_cannot_be_served) {
  const auto source = std::make_shared<scripted_source>(1.0F);
  const auto expect = [&](const std::string& word, const load_model& request) {
    EXPECT_TRUE(refused(errc::invalid_argument, word,
                        [&] { (void)s().ask<model_description>(models(), request); }));
  };
  expect("name", {.source = source});
  expect("source", {.name = "a"});
  expect("max_programs", {.name = "a", .source = source, .max_programs = 0});
  expect("max_in_batch", {.name = "a", .source = source, .options = {.max_in_batch = 129}});
  EXPECT_TRUE(s().ask<model_list>(models(), list_models{}).names.empty());
}

TEST_P(served_models, keep_a_number_of_programs) {
  const auto source = load("scale", 2.0F, 3);
  const auto run = [&](std::int64_t extent) {
    const auto x = numbers({extent});
    expect_right(results("scale", {{"x", x}}), x, 2);
  };
  for (const std::int64_t extent : {1, 2, 3, 1, 4, 1, 3}) run(extent);
  // 2 was used the longest time ago when 4 came.
  EXPECT_EQ(source->begun(), 4);
  EXPECT_EQ(description("scale").programs, 3U);
  run(2);
  EXPECT_EQ(source->begun({2}), 2);
  run(4);
  EXPECT_EQ(source->begun({4}), 2);
  EXPECT_EQ(description("scale").programs, 3U);
}

TEST_P(served_models, keep_one_program_of_values_that_must_be_known) {
  const auto source = load("scale", std::nullopt, 1);
  const auto x = numbers({3});
  for (int i = 0; i < 3; ++i) {
    expect_right(results("scale", {{"x", x}, {"factor", std::vector<float>{2}}}), x, 2);
  }
  EXPECT_EQ(source->begun(), 2);
}

TEST_P(served_models, keep_final_failures_only) {
  const auto source = load("scale", 2.0F);
  const auto x = numbers({3});
  for (const auto code : {errc::out_of_memory, errc::library_failure, errc::unsupported}) {
    source->fail(code);
    EXPECT_TRUE(refused(code, "scripted", [&] { (void)results("scale", {{"x", x}}); }));
  }
  EXPECT_EQ(source->begun(), 3);
  EXPECT_TRUE(refused(errc::unsupported, "scripted", [&] { (void)results("scale", {{"x", x}}); }));
  EXPECT_EQ(source->begun(), 3);
}

TEST_P(served_models, may_be_programs) {
  program_builder p;
  const auto a = p.input("a");
  const auto b = p.input("b");
  const auto y = p.add("y", add(a, b));
  const auto source = std::make_shared<program_source>(
      std::move(p).build({y}), std::vector<model_value>{{.name = "left"}, {.name = "right"}},
      std::vector<model_value>{{.name = "sum"}});
  (void)s().ask<model_description>(models(), load_model{.name = "add", .source = source});
  for (const auto& shape : {extents{4}, extents{2, 3}}) {
    const auto left = numbers(shape);
    const auto right = numbers(shape);
    const auto found = results("add", {{"left", left}, {"right", right}});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].shape(), shape);
    const auto values = found[0].to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_FLOAT_EQ(values[i], left.to_vector<float>().at(i) + right.to_vector<float>().at(i));
    }
  }
  EXPECT_TRUE(refused(errc::invalid_argument, "y", [&] {
    (void)results("add", {{"left", numbers({2})}, {"right", numbers({3})}});
  }));
}

TEST_P(served_models, run_within_other_requests_of_a_client) {
  (void)load("scale", 2.0F);
  const auto answer = [&](const auto& message) {
    caf::scoped_actor client{s().system()};
    std::optional<errc> code;
    request(client, models(), caf::infinite, message)
        .receive([](const tensors&) {},
                 [&](const caf::error& e) { code = from_caf_error(e).value().code(); });
    return code;
  };
  const auto x = s().put(s().numbers<float>(6));
  EXPECT_EQ(answer(run_model{.name = "scale", .inputs = {{"x", x}}}), std::nullopt);
  EXPECT_EQ(answer(run_model{.name = "scale", .inputs = {{"x", s().stale<float>(6)}}}),
            errc::stale_ref);
  session elsewhere("host");
  EXPECT_EQ(answer(run_model{.name = "scale",
                             .inputs = {{"x", elsewhere.put(elsewhere.numbers<float>(6))}}}),
            errc::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(devices, served_models, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
