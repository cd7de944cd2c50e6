// SPDX-License-Identifier: Apache-2.0
// Layer norms, RMS norms and softmax that a graph computes in several steps.
#include "tests/models/optimization_test.hpp"

namespace sluice::test {
namespace {

class norm_rules : public optimization_test {
 protected:
  tensor_map random_input() {
    return {{"x", random_tensor({between(1, 4), between(2, 5), width_})}};
  }
  tensor_map random_parameters() {
    return {{"g", random_tensor({width_})}, {"b", random_tensor({1, 1, width_})}};
  }
  void expect(std::string_view nodes, const std::string& rules,
              std::vector<std::string> outputs = {"y"}) {
    expect_rules({.nodes = nodes,
                  .inputs = random_input(),
                  .constants = random_parameters(),
                  .outputs = std::move(outputs)},
                 rules);
  }

 private:
  std::int64_t width_ = between(2, 37);
};

TEST_P(norm_rules, recognize_a_layer_norm) {
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.00001
            s = Sqrt e
            n = Div d s
            k = Mul n g
            y = Add k b)",
         "layer_norm norm_scale norm_bias");
}

TEST_P(norm_rules, recognize_other_forms_of_a_layer_norm) {
  // The difference twice, as TensorFlow and old versions of PyTorch write it.
  expect(R"(m = ReduceMean x axes=[1,2] keepdims=1
            d = Sub x m
            d2 = Sub x m
            q = Mul d2 d2
            v = ReduceMean q axes=[-2,-1] keepdims=1
            e = Add 0.001 v
            s = Sqrt e
            r = Reciprocal s
            y = Mul r d)",
         "shared layer_norm");
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Mul d d
            v = ReduceMean q axes=[2] keepdims=1
            e = Add v 0.001
            r = Pow e -0.5
            n = Mul d r
            y = Mul g n)",
         "layer_norm norm_scale");
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Pow e 0.5
            n = Div d s
            y = Add b n)",
         "layer_norm norm_bias");
}

TEST_P(norm_rules, leave_what_is_no_layer_norm) {
  // Another axis, another place of epsilon, another exponent.
  expect(R"(m = ReduceMean x axes=[1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div d s)",
         "");
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[-1] keepdims=1
            s = Sqrt v
            e = Add s 0.001
            y = Div d e)",
         "");
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 4
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div d s)",
         "");
  // The variance of another value.
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Mul d x
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 1
            s = Abs e
            r = Sqrt s
            y = Div d r)",
         "");
  // Another reader of the difference.
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div d s)",
         "rms_norm", {"y", "d"});
  expect(R"(m = ReduceMean x axes=[-1] keepdims=1
            d = Sub x m
            q = Pow d 2
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div d s)",
         "", {"y", "s"});
}

TEST_P(norm_rules, recognize_an_rms_norm) {
  expect(R"(q = Pow x 2
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.000001
            s = Sqrt e
            r = Div 1 s
            n = Mul x r
            y = Mul g n)",
         "rms_norm norm_scale");
  expect(R"(q = Mul x x
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div x s)",
         "rms_norm");
  // A sum instead of a mean, and another numerator.
  expect(R"(q = Mul x x
            v = ReduceSum q [-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div x s)",
         "");
  expect(R"(q = Mul x x
            v = ReduceMean q axes=[-1] keepdims=1
            e = Add v 0.001
            s = Sqrt e
            y = Div q s)",
         "");
}

TEST_P(norm_rules, leave_parameters_that_do_not_fit) {
  const auto norm = std::string(R"(m = ReduceMean x axes=[-1] keepdims=1
                                   d = Sub x m
                                   q = Pow d 2
                                   v = ReduceMean q axes=[-1] keepdims=1
                                   e = Add v 0.001
                                   s = Sqrt e
                                   n = Div d s
                                   )");
  // A scale for each row, one that an input gives, and one after the bias.
  const tensor_map x{{"x", random_tensor({2, 3, 5})}};
  expect_rules(
      {.nodes = norm + "y = Mul n g", .inputs = x, .constants = {{"g", random_tensor({3, 1})}}},
      "layer_norm");
  expect_rules({.nodes = norm + "y = Mul n g",
                .inputs = {{"x", random_tensor({2, 3, 5})}, {"g", random_tensor({5})}}},
               "layer_norm");
  expect_rules({.nodes = norm + "k = Add n b\ny = Mul k g",
                .inputs = x,
                .constants = {{"g", random_tensor({5})}, {"b", random_tensor({5})}}},
               "layer_norm norm_bias");
  // The norm is an output, too.
  expect_rules({.nodes = norm + "y = Mul n g",
                .inputs = x,
                .constants = {{"g", random_tensor({5})}},
                .outputs = {"y", "n"}},
               "layer_norm");
}

TEST_P(norm_rules, recognize_a_softmax) {
  expect(R"(m = ReduceMax x axes=[1] keepdims=1
            d = Sub x m
            e = Exp d
            s = ReduceSum e [1] keepdims=1
            y = Div e s)",
         "softmax");
  expect(R"(e = Exp x
            s = ReduceSum e [-1] keepdims=1
            y = Div e s)",
         "softmax");
  // Two axes, another axis, and another reader.
  expect(R"(e = Exp x
            s = ReduceSum e [1,2] keepdims=1
            y = Div e s)",
         "");
  expect(R"(m = ReduceMax x axes=[1] keepdims=1
            d = Sub x m
            e = Exp d
            s = ReduceSum e [2] keepdims=1
            y = Div e s)",
         "softmax");
  expect(R"(e = Exp x
            s = ReduceSum e [-1] keepdims=1
            y = Div e s)",
         "", {"y", "s"});
}

INSTANTIATE_TEST_SUITE_P(devices, norm_rules, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
