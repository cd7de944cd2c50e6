// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_config.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {
namespace {

/// The message of the refusal; nothing if the config is accepted.
std::optional<std::string> refusal_of(std::string_view text, config_form form) {
  try {
    (void)parse_config(text, form);
  } catch (const config_error& e) {
    return e.what();
  }
  return std::nullopt;
}

struct refused {
  const char* text;
  const char* message;  ///< a part of it
};

void expect_refusals(const std::vector<refused>& cases, config_form form) {
  for (const auto& [text, message] : cases) {
    const auto refusal = refusal_of(text, form);
    ASSERT_TRUE(refusal.has_value()) << text;
    EXPECT_NE(refusal->find(message), std::string::npos) << text << ": " << *refusal;
    EXPECT_TRUE(std::all_of(refusal->begin(), refusal->end(), [](char c) {
      return c >= ' ' && c <= '~';
    })) << *refusal;
  }
}

constexpr const char* toml_of_all_keys = R"(
# A model with every key.
name = "resnet50"
platform = "onnxruntime_onnx"
backend = "onnxruntime"
max_batch_size = 32
instance_group = [{ count = 2, kind = "KIND_AUTO" }]
version_policy = { specific = { versions = [3, 1, 3] } }
dynamic_batching = { preferred_batch_size = [8, 16], max_queue_delay_microseconds = 100 }

[parameters]
precision = "f16"
required = true

[[input]]
name = "pixels"
data_type = "TYPE_FP32"
dims = [3, -1, 224]

[[output]]
name = "classes"
data_type = "TYPE_INT64"
dims = [1000]

[[model_warmup]]
name = "one image"
batch_size = 4
count = 3
inputs.pixels = { data_type = "TYPE_FP32", dims = [3, 224, 224], random_data = true }
)";

constexpr const char* pbtxt_of_all_keys = R"(
# A model with every key.
name: "resnet50"
platform: "onnxruntime_onnx"
backend: "onnxruntime"
max_batch_size: 32
instance_group [ { count: 2 kind: KIND_AUTO } ]
version_policy: { specific: { versions: [ 3, 1, 3 ] } }
dynamic_batching { preferred_batch_size: [ 8, 16 ] max_queue_delay_microseconds: 100 }
parameters { key: "precision" value: { string_value: "f16" } }
parameters { key: "required" value: { string_value: "true" } }
input [ { name: "pixels" data_type: TYPE_FP32 dims: [ 3, -1, 224 ] } ]
output [ { name: "classes", data_type: TYPE_INT64, dims: 1000 } ]
model_warmup [ {
  name: "one image"
  batch_size: 4
  count: 3
  inputs { key: "pixels" value: { data_type: TYPE_FP32 dims: [ 3, 224, 224 ] random_data: true } }
} ]
)";

model_config config_of_all_keys() {
  return {
      .name = "resnet50",
      .max_batch_size = 32,
      .lanes = 2,
      .precision = precision::f16,
      .is_required = true,
      .versions = {.kind = version_policy::choice::specific, .versions = {1, 3}},
      .inputs = {{.name = "pixels", .type = datatype::fp32, .dims = {3, -1, 224}}},
      .outputs = {{.name = "classes", .type = datatype::int64, .dims = {1000}}},
      .warm_ups = {
          {.name = "one image",
           .batch_size = 4,
           .count = 3,
           .inputs = {{.tensor = {.name = "pixels", .type = datatype::fp32, .dims = {3, 224, 224}},
                       .is_random = true}}}}};
}

TEST(model_config, reads_every_key_of_toml) {
  EXPECT_EQ(parse_config(toml_of_all_keys, config_form::toml), config_of_all_keys());
}

TEST(model_config, reads_every_key_of_pbtxt) {
  EXPECT_EQ(parse_config(pbtxt_of_all_keys, config_form::pbtxt), config_of_all_keys());
}

TEST(model_config, reads_sequences) {
  const sequence_config expected{
      .idle_timeout = std::chrono::microseconds(5'000'000),
      .state = {{.input = "h", .output = "hn", .type = datatype::fp32, .dims = {2, 128}},
                {.input = "n", .output = "nn", .type = datatype::int64}}};
  EXPECT_EQ(parse_config(R"(
[sequence_batching]
max_sequence_idle_microseconds = 5000000
state = [{ input_name = "h", output_name = "hn", data_type = "TYPE_FP32", dims = [2, 128] },
         { input_name = "n", output_name = "nn", data_type = "TYPE_INT64" }]
)",
                         config_form::toml)
                .sequences,
            expected);
  EXPECT_EQ(parse_config(R"(sequence_batching {
  max_sequence_idle_microseconds: 5000000
  state [ { input_name: "h" output_name: "hn" data_type: TYPE_FP32 dims: [ 2, 128 ] },
          { input_name: "n" output_name: "nn" data_type: TYPE_INT64 } ] })",
                         config_form::pbtxt)
                .sequences,
            expected);
  const auto short_one = parse_config(
      "sequence_batching { state { input_name: 'a' output_name: 'b' data_type: TYPE_INT8 } }",
      config_form::pbtxt);
  ASSERT_TRUE(short_one.sequences);
  EXPECT_EQ(short_one.sequences->idle_timeout, std::chrono::seconds(60));
}

TEST(model_config, refuses_sequences_that_cannot_be_kept) {
  const auto state = [](const std::string& dims, const std::string& output = "b") {
    return "{ input_name = 'a" + output + "', output_name = '" + output +
           "', data_type = 'TYPE_FP32', dims = [" + dims + "] }";
  };
  const auto expect = [](const std::string& text, const std::string& part) {
    const auto refusal = refusal_of("[sequence_batching]\n" + text, config_form::toml);
    ASSERT_TRUE(refusal) << text;
    EXPECT_NE(refusal->find(part), std::string::npos) << *refusal;
  };
  EXPECT_FALSE(
      refusal_of("[sequence_batching]\nstate = [" + state("268435456") + "]", config_form::toml));
  expect("state = []", "sequence_batching.state is missing");
  expect("state = [" + state("-1") + "]", "sequence_batching.state[0].dims must be an integer");
  expect("state = [" + state("0") + "]", "sequence_batching.state[0].dims must be an integer");
  expect("state = [" + state("268435457") + "]", "sequence_batching.state has more than 1 GiB");
  expect("state = [" + state("2147483647, 2147483647, 2147483647, 2147483647") + "]",
         "sequence_batching.state has more than 1 GiB");
  expect("state = [" + state("268435456") + "," + state("1", "c") + "]", "more than 1 GiB");
  expect("state = [" + state("1") + "," + state("1") + "]",
         "sequence_batching.state[1].input_name occurs twice");
  expect("state = [{ input_name = 'a', data_type = 'TYPE_INT8' }]",
         "sequence_batching.state[0].output_name is missing");
  expect("max_sequence_idle_microseconds = 0",
         "sequence_batching.max_sequence_idle_microseconds must be an integer from 1");
}

TEST(model_config, has_defaults) {
  for (const auto form : {config_form::toml, config_form::pbtxt}) {
    const auto config = parse_config("", form);
    EXPECT_EQ(config, model_config());
    EXPECT_EQ(config.lanes, 1);
    EXPECT_EQ(config.versions.kind, version_policy::choice::latest);
    EXPECT_EQ(config.versions.latest_count, 1u);
  }
}

TEST(model_config, accepts_variants) {
  EXPECT_EQ(parse_config("instance_group = { count = 3 }", config_form::toml).lanes, 3);
  EXPECT_EQ(parse_config("instance_group {}", config_form::pbtxt).lanes, 1);
  EXPECT_EQ(parse_config("version_policy = { all = {} }", config_form::toml).versions.kind,
            version_policy::choice::all);
  EXPECT_EQ(parse_config("version_policy { latest { num_versions: 2 } }", config_form::pbtxt)
                .versions.latest_count,
            2u);
  EXPECT_EQ(parse_config("parameters.precision = \"bf16\"", config_form::toml).precision,
            precision::bf16);
  EXPECT_TRUE(parse_config("dynamic_batching { }", config_form::pbtxt) == model_config());
}

TEST(model_config, gives_warm_ups_a_batch_axis_if_the_model_has_one) {
  const std::string run =
      "model_warmup { batch_size: 1 inputs { key: 'x' value { data_type: TYPE_INT8 dims: 2 } } }";
  const auto without = parse_config(run, config_form::pbtxt).warm_ups;
  EXPECT_EQ(without.at(0).batch_size, 0);
  EXPECT_EQ(without.at(0).count, 1);
  EXPECT_FALSE(without.at(0).inputs.at(0).is_random);
  const auto with = parse_config("max_batch_size: 2 " + run, config_form::pbtxt).warm_ups;
  EXPECT_EQ(with.at(0).batch_size, 1);
}

TEST(model_config, refuses_with_the_key) {
  expect_refusals(
      {
          {"nmae = 'x'", "the key nmae is unknown"},
          {"instance_group = { count = 1, gpus = [0] }", "the key instance_group.gpus is unknown"},
          {"instance_group = [{ count = 1 }, { count = 1 }]", "instance_group must not have more"},
          {"instance_group = [{ count = 1, x = 1 }]", "the key instance_group[0].x is unknown"},
          {"instance_group = { count = 0 }",
           "instance_group.count must be an integer from 1 to 64"},
          {"instance_group = { count = 65 }", "instance_group.count must be"},
          {"instance_group = { kind = 'KIND_GPU' }", "instance_group.kind must be KIND_AUTO"},
          {"instance_group = 2", "instance_group must be a table"},
          {"name = 3", "name must be a string"},
          {"platform = 'tensorrt_plan'", "platform must be onnx_sluice, onnxruntime_onnx or"},
          {"backend = 'python'", "backend must be sluice or onnxruntime"},
          {"max_batch_size = -1", "max_batch_size must be an integer from 0"},
          {"max_batch_size = '8'", "max_batch_size must be an integer"},
          {"max_batch_size = true", "max_batch_size must be an integer"},
          {"max_batch_size = 1.5", "line 1: fractions"},
          {"\nname = 2026-01-01", "line 2: fractions, dates"},
          {"version_policy = {}", "version_policy must have one of"},
          {"version_policy = { all = {}, latest = {} }", "version_policy must have one of"},
          {"version_policy = { none = {} }", "version_policy must have one of"},
          {"version_policy = { all = { x = 1 } }", "the key version_policy.all.x is unknown"},
          {"version_policy = { latest = { num_versions = 0 } }",
           "version_policy.latest.num_versions"},
          {"version_policy = { specific = { versions = [] } }",
           "version_policy.specific.versions is"},
          {"version_policy = { specific = { versions = [0] } }",
           "version_policy.specific.versions"},
          {"version_policy = { specific = { versions = 1 } }", "must be a list of integers"},
          {"parameters.precision = 'f8'", "parameters.precision must be original, tf32"},
          {"parameters.required = 'yes'", "parameters.required must be true or false"},
          {"parameters.threads = '4'", "the key parameters.threads is unknown"},
          {"dynamic_batching = { preserve_ordering = true }", "dynamic_batching.preserve_ordering"},
          {"dynamic_batching = { preferred_batch_size = [0] }", "preferred_batch_size must be"},
          {"[[input]]\ndata_type = 'TYPE_FP32'", "input[0].name is missing"},
          {"[[input]]\nname = ''", "input[0].name is empty"},
          {"[[input]]\nname = 'x'", "input[0].data_type is missing"},
          {"[[input]]\nname = 'x'\ndata_type = 'FP32'", "input[0].data_type must be TYPE_FP32"},
          {"[[input]]\nname = 'x'\ndata_type = 'TYPE_STRING'", "input[0].data_type must be"},
          {"[[input]]\nname = 'x'\ndata_type = 'TYPE_INT8'\ndims = [0]", "input[0].dims has an"},
          {"[[input]]\nname = 'x'\ndata_type = 'TYPE_INT8'\ndims = [-2]", "input[0].dims must be"},
          {"[[input]]\nname = 'x'\ndata_type = 'TYPE_INT8'\ndims = ['a']", "input[0].dims must be"},
          {"[[output]]\nname = 'x'\ndata_type = 'TYPE_INT8'\n[[output]]\nname = 'x'",
           "output[1].name occurs twice"},
          {"[[output]]\nname = 'x'\ndata_type = 'TYPE_INT8'\nreshape = {}",
           "the key output[0].reshape is unknown"},
          {"[[model_warmup]]\nname = 'w'", "model_warmup[0].inputs is missing"},
          {"[[model_warmup]]\nbatch_size = 2\ninputs.x = { data_type = 'TYPE_INT8' }",
           "model_warmup[0].batch_size must be an integer from 0 to 1"},
          {"[[model_warmup]]\ncount = 1001", "model_warmup[0].count must be"},
          {"[[model_warmup]]\ninputs.x = { data_type = 'TYPE_INT8', dims = [-1] }",
           "model_warmup[0].inputs.x.dims must be an integer from 1"},
          {"[[model_warmup]]\ninputs.x = { data_type = 'TYPE_FP64', dims = [2147483647, 2] }",
           "model_warmup[0].inputs.x has more than 16 GiB"},
          {"[[model_warmup]]\ninputs.x = { data_type = 'TYPE_FP64', dims = [2147483647, "
           "2147483647, 2147483647, 2147483647] }",
           "model_warmup[0].inputs.x has more than 16 GiB"},
          {"[[model_warmup]]\ninputs.x = { data_type = 'TYPE_INT8', zero_data = true, "
           "random_data = true }",
           "model_warmup[0].inputs.x.zero_data contradicts"},
          {"[[model_warmup]]\ninputs.x = { data_type = 'TYPE_INT8', input_data_file = 'x' }",
           "the key model_warmup[0].inputs.x.input_data_file is unknown"},
          {"\"\\u00e9\" = 1", "the key \\xc3\\xa9 is unknown"},
          {"name = 'a'\nname = 'b'", "line 2: "},
          {"name = ", "line 1: "},
          {"= \x01", "line 1: "},
          {"\xef\xbb\xbfname = 'a'", "line 1: only lines of comments"},
          {"# \xc3\xa9\nname = '\xc3\xa9'", "line 2: only lines of comments"},
          {"name = \"\"\"\\\n\xc2\xa7\"\"\"", "line 2: only lines of comments"},
          {"# \xcc\xaa\xff", "line 1: "},
      },
      config_form::toml);
  EXPECT_EQ(parse_config("  # \xc3\xa9\nname = \"\\u00e9\"", config_form::toml).name, "\xc3\xa9");
}

TEST(model_config, refuses_pbtxt_with_the_line) {
  expect_refusals(
      {
          {"name: 'x'\nnmae: 'x'",
           "line 2: Message type \"ModelConfig\" has no field named \"nmae\""},
          {"sequence_batching {}", "sequence_batching.state is missing"},
          {"sequence_batching { direct {} }", "\"direct\""},
          {"sequence_batching { state { initial_state {} } }", "\"initial_state\""},
          {"ensemble_scheduling {}", "ensemble_scheduling.step is missing"},
          {"optimization {}", "\"optimization\""},
          {"instance_group { gpus: 0 }", "\"gpus\""},
          {"instance_group { kind: KIND_CPU }", "instance_group[0].kind must be KIND_AUTO"},
          {"instance_group { kind: KIND_TPU }", "KIND_TPU"},
          {"max_batch_size: 'x'", "line 1: "},
          {"max_batch_size: 1.5", "line 1: "},
          {"max_batch_size: 99999999999999999999", "line 1: Integer out of range"},
          {"max_batch_size: 3000000000", "max_batch_size must be an integer from 0"},
          {"max_batch_size: 1 max_batch_size: 2", "line 1: "},
          {"input { name: 'x' data_type: TYPE_FP8 }", "TYPE_FP8"},
          {"input { name: 'x' data_type: TYPE_STRING }", "input[0].data_type must be"},
          {"input { name: 'x' data_type: TYPE_INVALID }", "input[0].data_type must be"},
          {"parameters { key: 'precision' }", "parameters.precision has no value"},
          {"parameters { key: 'a' value {} } parameters { key: 'a' value {} }",
           "the key parameters.a occurs twice"},
          {"parameters { key: 'a' value { string_value: '1' } }",
           "the key parameters.a is unknown"},
          {"[type.googleapis.com/x.Y] { a: 1 }", "line 1: "},
          {"name: 'x", "line 1: "},
          {"name {", "line 1: "},
          {"\xff\x01", "line 1: "},
          {"1: 'x'", "line 1: "},
      },
      config_form::pbtxt);
}

TEST(model_config, refuses_large_and_deep_texts) {
  const std::string comment(max_config_bytes - 1, '#');
  for (const auto form : {config_form::toml, config_form::pbtxt}) {
    EXPECT_FALSE(refusal_of(comment, form).has_value());
    EXPECT_EQ(refusal_of(comment + "##", form), "has more than 64 KiB");
  }
  std::string lists = "a = ";
  lists.append(20'000, '[');
  EXPECT_TRUE(refusal_of(lists, config_form::toml).has_value());
  std::string tables;
  for (int i = 0; i < 6'000; ++i) tables += "a { ";
  EXPECT_TRUE(refusal_of(tables, config_form::pbtxt).has_value());
  std::string key = "a";
  for (int i = 0; i < 20'000; ++i) key += ".a";
  EXPECT_EQ(refusal_of("\n" + key + " = 1", config_form::toml), "line 2: has more than 16 dots");
  EXPECT_FALSE(refusal_of(" \t# " + key, config_form::toml).has_value());
  EXPECT_EQ(refusal_of("# ..........\na.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q = 1", config_form::toml),
            "has too many tables in tables");
  std::string mixture;
  for (int i = 0; i < 120; ++i) mixture += "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a = [\n{";
  for (int i = 0; i < 120; ++i) mixture += "}]";
  EXPECT_EQ(refusal_of(mixture, config_form::toml), "has too many tables in tables");
}

// Whatever is cut or changed, the result is a config or a refusal.
TEST(model_config, survives_changed_texts) {
  auto generator = test::make_generator();
  std::size_t refusals = 0;
  for (int i = 0; i < 2'000; ++i) {
    const auto form = i % 2 == 0 ? config_form::toml : config_form::pbtxt;
    std::string text = form == config_form::toml ? toml_of_all_keys : pbtxt_of_all_keys;
    const auto at = generator() % text.size();
    if (generator() % 2 == 0) {
      text.resize(at);
    } else {
      text[at] = static_cast<char>(generator());
    }
    if (refusal_of(text, form)) ++refusals;
  }
  EXPECT_GT(refusals, 500u);
  EXPECT_LT(refusals, 2'000u);
}

TEST(version_policy, chooses) {
  const std::vector<std::uint64_t> available{1, 2, 5, 9};
  using list = std::vector<std::uint64_t>;
  EXPECT_EQ(chosen_versions({}, available), list{9});
  EXPECT_EQ(chosen_versions({.latest_count = 2}, available), (list{5, 9}));
  EXPECT_EQ(chosen_versions({.latest_count = 7}, available), available);
  EXPECT_EQ(chosen_versions({.kind = version_policy::choice::all}, available), available);
  EXPECT_EQ(
      chosen_versions({.kind = version_policy::choice::specific, .versions = {2, 3, 9}}, available),
      (list{2, 9}));
  EXPECT_EQ(chosen_versions({}, {}), list{});
}

}  // namespace
}  // namespace sluice::service
