// SPDX-License-Identifier: Apache-2.0
#include "service/repository/chain_config.hpp"

#include "service/repository/config_json.hpp"
#include "service/repository/model_config.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

constexpr const char* tensors_of_chain = R"(
input [ { name: "page" data_type: TYPE_FP32 dims: [ 3, -1 ] } ]
output [ { name: "text" data_type: TYPE_INT64 dims: [ -1 ] } ]
)";

constexpr const char* steps_of_chain = R"(
platform: "ensemble"
ensemble_scheduling {
  step [
    { model_name: "detector" model_version: -1
      input_map { key: "image" value: "page" }
      output_map { key: "box" value: "boxes" } output_map { key: "line" value: "line" } },
    { model_name: "reader" model_version: 7
      input_map { key: "x" value: "line" }
      input_map { key: "where" value: "boxes" }
      output_map { key: "y" value: "text" } }
  ]
}
)";

constexpr const char* toml_of_chain = R"(
platform = "ensemble"
max_batch_size = 8
input = [{ name = "page", data_type = "TYPE_FP32", dims = [3, -1] }]
output = [{ name = "text", data_type = "TYPE_INT64", dims = [-1] }]

[[ensemble_scheduling.step]]
model_name = "detector"
input_map = { image = "page" }
output_map = { box = "boxes", line = "line" }

[[ensemble_scheduling.step]]
model_name = "reader"
model_version = 7
input_map = { x = "line", where = "boxes" }
output_map = { y = "text" }
)";

std::string pbtxt_of_chain() {
  return std::string("max_batch_size: 8") + tensors_of_chain + steps_of_chain;
}

std::optional<std::string> refusal_of_config(const std::string& text, config_form form) {
  try {
    (void)parse_config(text, form);
  } catch (const config_error& e) {
    return e.what();
  }
  return std::nullopt;
}

TEST(chain_config, reads_the_steps) {
  const std::vector<config_step> expected{{.model = "detector",
                                           .inputs = {{"image", "page"}},
                                           .outputs = {{"box", "boxes"}, {"line", "line"}}},
                                          {.model = "reader",
                                           .version = 7,
                                           .inputs = {{"where", "boxes"}, {"x", "line"}},
                                           .outputs = {{"y", "text"}}}};
  const auto config = parse_config(pbtxt_of_chain(), config_form::pbtxt);
  EXPECT_EQ(config.steps, expected);
  EXPECT_EQ(config.max_batch_size, 8);
  EXPECT_EQ(parse_config(toml_of_chain, config_form::toml), config);
  EXPECT_TRUE(parse_config("", config_form::toml).steps.empty());
}

TEST(chain_config, is_shown_as_json) {
  auto config = parse_config(pbtxt_of_chain(), config_form::pbtxt);
  config.name = "text";
  const auto json = nlohmann::json::parse(config_json(config));
  EXPECT_EQ(json.at("platform"), "ensemble");
  EXPECT_EQ(json.at("backend"), "");
  const auto steps = nlohmann::json::parse(R"([
    {"model_name": "detector", "model_version": -1, "input_map": {"image": "page"},
     "output_map": {"box": "boxes", "line": "line"}},
    {"model_name": "reader", "model_version": 7, "input_map": {"x": "line", "where": "boxes"},
     "output_map": {"y": "text"}}])");
  EXPECT_EQ(json.at("ensemble_scheduling").at("step"), steps);
  const auto plain = nlohmann::json::parse(config_json(model_config()));
  EXPECT_EQ(plain.at("platform"), "onnx_sluice");
  EXPECT_FALSE(plain.contains("ensemble_scheduling"));
}

TEST(chain_config, refuses_what_is_no_chain) {
  const auto expect = [](const std::string& text, const std::string& part) {
    const auto refusal = refusal_of_config(text, config_form::pbtxt);
    ASSERT_TRUE(refusal) << text;
    EXPECT_NE(refusal->find(part), std::string::npos) << text << ": " << *refusal;
    EXPECT_TRUE(std::all_of(refusal->begin(), refusal->end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << *refusal;
  };
  const auto step = [](const std::string& text) {
    return std::string("platform: 'ensemble' ensemble_scheduling { step { ") + text + " } }" +
           tensors_of_chain;
  };
  const std::string good = "model_name: 'm' output_map { key: 'y' value: 'text' }";
  EXPECT_FALSE(refusal_of_config(step(good), config_form::pbtxt));
  expect("platform: 'ensemble'", "ensemble_scheduling is missing");
  expect("platform: 'ensemble' ensemble_scheduling {}", "ensemble_scheduling.step is missing");
  expect(std::string(steps_of_chain), "input is missing, as the model is a chain");
  expect(pbtxt_of_chain() + "backend: 'sluice'", "backend contradicts ensemble_scheduling");
  expect(pbtxt_of_chain() + "dynamic_batching {}", "dynamic_batching contradicts");
  expect(pbtxt_of_chain() + "sequence_batching {}", "sequence_batching contradicts");
  expect("ensemble_scheduling { step { " + good + " } }" + tensors_of_chain,
         "platform must be ensemble");
  expect("platform: 'onnxruntime_onnx' ensemble_scheduling { step { " + good + " } }" +
             tensors_of_chain,
         "platform must be ensemble");
  expect(step(""), "ensemble_scheduling.step[0].model_name is missing");
  expect(step("model_name: ''"), "ensemble_scheduling.step[0].model_name is empty");
  expect(step("model_name: 'm'"), "ensemble_scheduling.step[0].output_map is missing");
  expect(step(good + " model_version: 0"), "ensemble_scheduling.step[0].model_version must be");
  expect(step(good + " model_version: -2"), "ensemble_scheduling.step[0].model_version must be");
  expect(step(good + " input_map { key: 'x' }"), "input_map.x has no value");
  expect(step(good + " input_map { key: 'x' value: '' }"),
         "ensemble_scheduling.step[0].input_map.x is empty");
  expect(step(good + " input_map { key: '\\377' value: '' }"), "input_map.\\xff is empty");
  expect(step(good + " input_map { key: 'x' value: 'a' } input_map { key: 'x' value: 'b' }"),
         "input_map.x occurs twice");
  expect(step(good + " model_namespace: 'n'"), "\"model_namespace\"");
  expect("ensemble_scheduling { max_inflight_requests: 1 }", "\"max_inflight_requests\"");
  std::string steps;
  for (std::size_t i = 0; i <= max_chain_steps; ++i) steps += "step { " + good + " }";
  expect("platform: 'ensemble' ensemble_scheduling { " + steps + " }" + tensors_of_chain,
         "has more than 64 steps");
  EXPECT_EQ(refusal_of_config("ensemble_scheduling = { step = [{ model_name = 'm', output_map = "
                              "{ y = 1 } }] }",
                              config_form::toml),
            "ensemble_scheduling.step[0].output_map.y must be a string");
}

// Whatever is cut or changed, the result is a config or a refusal.
TEST(chain_config, survives_changed_texts) {
  auto generator = test::make_generator();
  std::size_t refusals = 0;
  for (int i = 0; i < 2'000; ++i) {
    const auto form = i % 2 == 0 ? config_form::toml : config_form::pbtxt;
    auto text = form == config_form::toml ? std::string(toml_of_chain) : pbtxt_of_chain();
    const auto place = generator() % text.size();
    if (generator() % 2 == 0) {
      text.resize(place);
    } else {
      text[place] = static_cast<char>(generator());
    }
    if (refusal_of_config(text, form)) ++refusals;
  }
  EXPECT_GT(refusals, 500U);
  EXPECT_LT(refusals, 2'000U);
}

}  // namespace
}  // namespace sluice::service
