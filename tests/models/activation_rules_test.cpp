// SPDX-License-Identifier: Apache-2.0
// Activations that a graph computes in several steps.
#include "tests/models/optimization_test.hpp"

namespace sluice::test {
namespace {

class activation_rules : public optimization_test {
 protected:
  void expect(std::string_view nodes, const std::string& rules,
              std::vector<std::string> outputs = {"y"}) {
    expect_rules({.nodes = nodes,
                  .inputs = {{"x", random_tensor({between(1, 5), between(1, 40)})}},
                  .outputs = std::move(outputs)},
                 rules);
  }
};

TEST_P(activation_rules, recognize_gelu) {
  expect(R"(d = Div x 1.4142135623730951
            e = Erf d
            a = Add e 1
            m = Mul x a
            y = Mul m 0.5)",
         "gelu");
  expect(R"(d = Mul 0.7071067811865476 x
            e = Erf d
            a = Add 1 e
            h = Mul 0.5 x
            y = Mul h a)",
         "gelu");
  expect(R"(d = Div x 1.4142135623730951
            e = Erf d
            a = Add e 1
            h = Mul a 0.5
            y = Mul x h)",
         "gelu");
  expect(R"(d = Div x 1.4142135623730951
            e = Erf d
            a = Add e 1
            m = Mul a x
            y = Div m 2)",
         "gelu");
}

TEST_P(activation_rules, recognize_gelu_by_tanh) {
  expect(R"(p = Pow x 3
            c = Mul 0.044715 p
            s = Add x c
            i = Mul 0.7978845608028654 s
            t = Tanh i
            a = Add 1 t
            h = Mul 0.5 x
            y = Mul h a)",
         "gelu");
  expect(R"(q = Mul x x
            p = Mul q x
            c = Mul p 0.044715
            s = Add c x
            i = Mul s 0.7978845608028654
            t = Tanh i
            a = Add t 1
            m = Mul a x
            y = Mul m 0.5)",
         "gelu");
  expect(R"(q = Mul x 0.7978845608028654
            p = Mul x 0.044715
            r = Mul p x
            s = Add r 1
            i = Mul q s
            t = Tanh i
            a = Add t 1
            h = Mul x 0.5
            y = Mul a h)",
         "gelu");
}

TEST_P(activation_rules, leave_what_is_not_gelu) {
  const auto with = [&](const char* divisor, const char* one, const char* half) {
    expect(std::string("d = Div x ") + divisor + "\ne = Erf d\na = Add e " + one +
               "\nm = Mul x a\ny = Mul m " + half,
           "");
  };
  with("1.5", "1", "0.5");
  with("1.4142135623730951", "1.05", "0.5");
  with("1.4142135623730951", "1", "0.25");
  with("1.4142135623730951", "1", "1");
  const auto tanh_with = [&](const char* factor, const char* cubic, const char* power) {
    expect(std::string("p = Pow x ") + power + "\nc = Mul " + cubic +
               " p\ns = Add x c\ni = Mul s " + factor +
               "\nt = Tanh i\na = Add t 1\nm = Mul x a\ny = Mul m 0.5",
           "");
  };
  tanh_with("0.75", "0.044715", "3");
  tanh_with("0.7978845608028654", "0.05", "3");
  tanh_with("0.7978845608028654", "0.044715", "2");
  // Other readers, and another argument of erf.
  const auto* const gelu = R"(d = Div x 1.4142135623730951
                              e = Erf d
                              a = Add e 1
                              m = Mul x a
                              y = Mul m 0.5)";
  expect(gelu, "", {"y", "e"});
  expect(gelu, "", {"y", "m"});
  expect(gelu, "", {"d", "y"});
  expect(R"(n = Neg x
            d = Div n 1.4142135623730951
            e = Erf d
            a = Add e 1
            m = Mul x a
            y = Mul m 0.5)",
         "");
}

TEST_P(activation_rules, recognize_silu) {
  expect("s = Sigmoid x\ny = Mul x s", "silu");
  expect("s = Sigmoid x\ny = Mul s x", "silu");
  expect("a = Mul x 1.702\ns = Sigmoid a\ny = Mul x s", "silu");
  expect("s = Sigmoid x\ny = Mul x s", "", {"s", "y"});
  expect("n = Neg x\ns = Sigmoid n\ny = Mul x s", "");
  expect("s = Sigmoid x\ny = Add x s", "");
  expect("s = Tanh x\ny = Mul x s", "");
  // NaN where x is 0.
  expect("m = Mul x x\nd = Div m x\ns = Sigmoid d\ny = Mul x s", "");
}

TEST_P(activation_rules, recognize_hard_swish) {
  expect(R"(a = Add x 3
            l = Max a 0
            c = Min l 6
            m = Mul x c
            y = Div m 6)",
         "hard_swish");
  expect(R"(a = Add 3 x
            c = Clip a 0 6
            d = Div c 6
            y = Mul d x)",
         "hard_swish");
  expect(R"(a = Add x 4
            c = Clip a 0 6
            m = Mul x c
            y = Div m 6)",
         "");
  expect(R"(a = Add x 3
            c = Clip a 0 5
            m = Mul x c
            y = Div m 6)",
         "");
  expect(R"(a = Add x 3
            c = Clip a 0 6
            m = Mul x c
            y = Div m 7)",
         "");
  expect(R"(a = Add x 3
            c = Clip a 0 6
            m = Mul x c
            y = Div m 6)",
         "", {"m", "y"});
}

TEST_P(activation_rules, recognize_hard_swish_by_its_gate) {
  const auto test = [&](const char* gate, const std::string& rules) {
    expect_rules({.nodes = std::string(gate) + "\ny = Mul x s",
                  .inputs = {{"x", random_tensor({between(1, 50)})}},
                  .types = {element_type::f16, element_type::bf16, element_type::f32}},
                 rules);
  };
  test("s = HardSigmoid x alpha=0.16666667 beta=0.5", "hard_swish");
  test("s = HardSigmoid x", "");
  test("s = HardSigmoid x alpha=0.16666667 beta=0.4", "");
}

INSTANTIATE_TEST_SUITE_P(devices, activation_rules, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
