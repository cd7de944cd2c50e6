// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using floats = std::vector<float>;

class conv2d_command : public program_test {
 protected:
  void check(std::mt19937_64& generator, const conv2d_description& d,
             const std::string& device) const {
    static const std::map<activation, std::string> names = {
        {activation::relu, "relu"},           {activation::gelu, "gelu"},
        {activation::gelu_tanh, "gelu_tanh"}, {activation::silu, "silu"},
        {activation::sigmoid, "sigmoid"},     {activation::tanh, "tanh"}};
    const auto& g = d.geometry;
    const auto p = random_conv2d(d, generator);
    save<float>("x.npy", {d.x.begin(), d.x.end()}, p.x);
    save<float>("w.npy", {d.w.begin(), d.w.end()}, p.w);
    if (d.has_bias) save<float>("b.npy", {d.w[0]}, p.bias);
    const auto shape = output_shape(d);
    if (d.has_residual) save<float>("r.npy", {shape.begin(), shape.end()}, p.residual);

    std::vector<std::string> arguments{"conv2d",  "x.npy",    "w.npy", "-o",
                                       "out.npy", "--device", device};
    const auto add = [&](const std::string& name, std::int64_t h, std::int64_t v,
                         std::int64_t usual) {
      if (h == usual && v == usual) return;
      // One number stands for both.
      std::string pair = std::to_string(h);
      if (h != v) pair.append(",").append(std::to_string(v));
      arguments.insert(arguments.end(), {name, pair});
    };
    add("--stride", g.stride.h, g.stride.w, 1);
    add("--padding", g.padding.h, g.padding.w, 0);
    if (g.padding_after) add("--padding-after", g.padding_after->h, g.padding_after->w, -1);
    add("--dilation", g.dilation.h, g.dilation.w, 1);
    if (g.groups != 1) arguments.insert(arguments.end(), {"--groups", std::to_string(g.groups)});
    if (d.has_bias) arguments.insert(arguments.end(), {"--bias", "b.npy"});
    if (d.has_residual) arguments.insert(arguments.end(), {"--residual", "r.npy"});
    if (d.activation != activation::none) {
      arguments.insert(arguments.end(), {"--activation", names.at(d.activation)});
    }
    SCOPED_TRACE(::testing::PrintToString(arguments));
    ASSERT_NO_FATAL_FAILURE(expect_success(arguments));

    const io::array out = load("out.npy");
    EXPECT_EQ(out.shape, (std::vector<std::int64_t>(shape.begin(), shape.end())));
    EXPECT_LE(relative_error(out.values<float>(), conv2d_reference(p)), error_bound<float>());
  }
};

TEST_F(conv2d_command, equals_a_reference) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 10; ++i) check(generator, random_conv2d_description(generator), device);
  }
}

TEST_F(conv2d_command, an_empty_batch_or_no_filters_give_an_empty_result) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    check(generator, {.x = {0, 2, 5, 5}, .w = {3, 2, 3, 3}}, device);
    check(generator, {.x = {2, 2, 5, 5}, .w = {0, 2, 3, 3}, .has_bias = true}, device);
  }
}

TEST_F(conv2d_command, refuses_files_that_do_not_fit) {
  save<float>("x.npy", {1, 4, 6, 6}, floats(144, 1));
  save<float>("w.npy", {6, 4, 3, 3}, floats(216, 1));
  save<float>("half.npy", {6, 2, 3, 3}, floats(108, 1));
  save<float>("large.npy", {6, 4, 7, 3}, floats(504, 1));
  save<float>("flat.npy", {6, 4, 0, 3}, {});
  save<float>("cube.npy", {4, 6, 6}, floats(144, 1));
  save<double>("double.npy", {1, 4, 6, 6}, std::vector<double>(144, 1));
  save<float>("five.npy", {5}, floats(5, 1));
  save<float>("row.npy", {1, 6}, floats(6, 1));
  expect_refused({"missing.npy"}, {"conv2d", "missing.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"cube.npy"}, {"conv2d", "cube.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"cube.npy"}, {"conv2d", "x.npy", "cube.npy", "-o", "out.npy"});
  expect_refused({"double.npy", "<f8"}, {"conv2d", "double.npy", "w.npy", "-o", "out.npy"});
  expect_refused({"double.npy", "<f8"}, {"conv2d", "x.npy", "double.npy", "-o", "out.npy"});
  expect_refused({"half.npy"}, {"conv2d", "x.npy", "half.npy", "-o", "out.npy"});
  expect_refused({"large.npy"}, {"conv2d", "x.npy", "large.npy", "-o", "out.npy"});
  expect_refused({"flat.npy"}, {"conv2d", "x.npy", "flat.npy", "-o", "out.npy"});
  for (const char* bias : {"five.npy", "row.npy", "double.npy", "missing.npy"})
    expect_refused({bias}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--bias", bias});
  for (const char* residual : {"five.npy", "cube.npy", "double.npy", "x.npy", "missing.npy"})
    expect_refused({residual},
                   {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--residual", residual});
  expect_refused({"--groups"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--groups", "3"});
  expect_refused({"--groups"}, {"conv2d", "x.npy", "half.npy", "-o", "out.npy", "--groups", "4"});
  expect_refused({"w.npy"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--dilation", "3"});
}

TEST_F(conv2d_command, refuses_options_out_of_range) {
  save<float>("x.npy", {1, 4, 6, 6}, floats(144, 1));
  save<float>("w.npy", {6, 4, 3, 3}, floats(216, 1));
  const auto refused = [&](const std::string& option, const std::string& value) {
    expect_refused({option}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", option, value});
  };
  for (const char* value : {"0", "-1", "1,0", "1,2,3", ",", "1,", ",1", "", "1.5", "1x", "1;2",
                            "2147483648", "99999999999999999999"}) {
    refused("--stride", value);
    refused("--dilation", value);
  }
  for (const char* value : {"-1", "1,-1", "1,2,3", ",", "", "x", "2147483648"}) {
    refused("--padding", value);
    refused("--padding-after", value);
  }
  for (const char* value : {"0", "-1", "1,1", "", "1.0", "all"}) refused("--groups", value);
  for (const char* value : {"elu", "ReLU", ""}) refused("--activation", value);
  // Too large together, also when there is nothing to compute.
  save<float>("none.npy", {0, 4, 6, 6}, {});
  expect_refused({"w.npy"},
                 {"conv2d", "none.npy", "w.npy", "-o", "out.npy", "--padding", "2147483647"});
  expect_refused({}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--padding", "2147483647"});
  expect_refused({"memory"}, {"conv2d", "x.npy", "w.npy", "-o", "out.npy", "--padding", "9000000"});
}

}  // namespace
}  // namespace sluice::test
