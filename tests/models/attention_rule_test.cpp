// SPDX-License-Identifier: Apache-2.0
// Attention that a graph computes in several steps.
#include "tests/models/optimization_test.hpp"

namespace sluice::test {
namespace {

class attention_rule : public optimization_test {
 protected:
  static constexpr const char* default_nodes = R"(t = Transpose k perm=[0,1,3,2]
                                                  s = MatMul q t
                                                  d = Div s 2.5
                                                  p = Softmax d axis=-1
                                                  y = MatMul p v)";
  tensor_map random_heads() {
    return {{"q", random_tensor({batch_, heads_, queries_, 6})},
            {"k", random_tensor({batch_, heads_, keys_, 6})},
            {"v", random_tensor({batch_, heads_, keys_, 5})}};
  }
  void expect(std::string_view nodes, const std::string& rules, tensor_map inputs,
              tensor_map constants = {}, std::vector<std::string> outputs = {"y"}) {
    expect_rules({.nodes = nodes,
                  .inputs = std::move(inputs),
                  .constants = std::move(constants),
                  .outputs = std::move(outputs),
                  .types = {element_type::f16, element_type::bf16, element_type::f32}},
                 rules);
  }

  std::int64_t batch_ = between(1, 3);
  std::int64_t heads_ = between(1, 4);
  std::int64_t queries_ = between(1, 9);
  std::int64_t keys_ = between(1, 9);
};

TEST_P(attention_rule, recognizes_attention) {
  expect(default_nodes, "attention", random_heads());
  expect(R"(t = Transpose k perm=[0,1,3,2]
            s = MatMul q t
            p = Softmax s axis=3
            y = MatMul p v)",
         "attention", random_heads());
  // The scale before the product, as a factor of Q, or of Q and K.
  expect(R"(u = Mul q 0.4
            t = Transpose k perm=[0,1,3,2]
            s = MatMul u t
            p = Softmax s axis=-1
            y = MatMul p v)",
         "attention", random_heads());
  expect(R"(u = Mul 0.6 q
            t = Transpose k perm=[0,1,3,2]
            w = Mul t 0.6
            s = MatMul u w
            p = Softmax s axis=-1
            y = MatMul p v)",
         "attention", random_heads());
}

TEST_P(attention_rule, adds_a_mask) {
  const auto* const nodes = R"(t = Transpose k perm=[0,1,3,2]
                               s = MatMul q t
                               d = Mul s 0.5
                               a = Add mask d
                               p = Softmax d axis=-1
                               p2 = Softmax a axis=-1
                               y = MatMul p2 v)";
  for (const auto& shape : {extents{queries_, keys_}, extents{1, 1, queries_, keys_},
                            extents{1, heads_, queries_, keys_}, extents{keys_}}) {
    expect(nodes, "unused attention", random_heads(), {{"mask", random_tensor(shape)}});
    auto inputs = random_heads();
    inputs.emplace("mask", random_tensor(shape));
    expect(nodes, "unused attention", std::move(inputs));
  }
}

TEST_P(attention_rule, takes_heads_as_batches) {
  const tensor_map inputs{{"q", random_tensor({heads_, queries_, 6})},
                          {"k", random_tensor({heads_, keys_, 6})},
                          {"v", random_tensor({heads_, keys_, 5})}};
  const auto* const nodes = R"(t = Transpose k perm=[0,2,1]
                               s = MatMul q t
                               d = Mul s 0.5
                               a = Add d mask
                               p = Softmax a axis=-1
                               r = MatMul p v
                               y = Neg r)";
  for (const auto& shape :
       {extents{heads_, queries_, keys_}, extents{1, 1, keys_}, extents{queries_, keys_}}) {
    expect(nodes, "attention", inputs, {{"mask", random_tensor(shape)}});
  }
  // An output can be no view.
  expect(nodes, "", inputs, {{"mask", random_tensor({keys_})}}, {"y", "r"});
}

// Q, K and V are products of one sequence.
TEST_P(attention_rule, joins_projections) {
  const auto heads = std::to_string(heads_);
  const auto project = [&](const std::string& to, const std::string& from) {
    return to + "m = MatMul " + from + " w" + to + "\n" + to + "b = Add " + to + "m b" + to + "\n" +
           to + "r = Reshape " + to + "b [0,0," + heads + ",8]\n" + to + " = Transpose " + to +
           "r perm=[0,2,1,3]\n";
  };
  const std::string attend = R"(t = Transpose k perm=[0,1,3,2]
                                s = MatMul q t
                                d = Div s 2.5
                                p = Softmax d axis=-1
                                r = MatMul p v
                                j = Transpose r perm=[0,2,1,3]
                                y = Reshape j [0,0,-1])";
  const auto sequence = random_tensor({batch_, queries_, 7});
  const auto other = random_tensor({batch_, keys_, 7});
  tensor_map constants;
  for (const auto* const part : {"q", "k", "v"}) {
    constants.emplace(std::string("w") + part, random_tensor({7, heads_ * 8}));
    constants.emplace(std::string("b") + part, random_tensor({heads_ * 8}));
  }
  const auto all = project("q", "x") + project("k", "x") + project("v", "x") + attend;
  expect(all, "attention projections", {{"x", sequence}}, constants);
  // Keys and values of another sequence than the queries.
  expect(project("q", "x") + project("k", "z") + project("v", "z") + attend,
         "attention projections", {{"x", sequence}, {"z", other}}, constants);
  // Only two of them are of one sequence, but not the keys and the values.
  expect(project("q", "x") + project("k", "x") + project("v", "z") + attend, "attention",
         {{"x", sequence}, {"z", random_tensor({batch_, queries_, 7})}}, constants);
  // Another step reads the keys before they are in heads.
  expect(all + "\no = Neg kb", "attention", {{"x", sequence}}, constants, {"y", "o"});
  expect(all + "\no = Neg km", "attention", {{"x", sequence}}, constants, {"y", "o"});
}

TEST_P(attention_rule, joins_no_projections_that_a_bias_extends) {
  // The product of the queries has one column, and the bias repeats it.
  const auto nodes = R"(qm = MatMul x wq
                        qb = Add qm bq
                        k = MatMul x wk
                        v = MatMul x wv
                        t = Transpose k perm=[0,2,1]
                        s = MatMul qb t
                        p = Softmax s axis=-1
                        y = MatMul p v)";
  const tensor_map inputs{{"x", random_tensor({batch_, queries_, 7})}};
  tensor_map constants{{"wq", random_tensor({7, 1})},
                       {"bq", random_tensor({16})},
                       {"wk", random_tensor({7, 16})},
                       {"wv", random_tensor({7, 16})}};
  // Keys and values alone.
  expect(nodes + std::string("\nz = Neg y"), "attention projections", inputs, constants, {"z"});
  // A bias with more dimensions than the product.
  const auto* const four = R"(qm = MatMul x wq
                              qb = Add qm bias
                              km = MatMul x wk
                              kb = Add km bias
                              vm = MatMul x wv
                              vb = Add vm bias
                              t = Transpose kb perm=[0,1,3,2]
                              s = MatMul qb t
                              p = Softmax s axis=-1
                              y = MatMul p vb)";
  constants.insert_or_assign("wq", random_tensor({7, 16}));
  constants.erase("bq");
  constants.emplace("bias", random_tensor({1, 1, 1, 16}));
  expect(four, "attention", inputs, constants);
}

TEST_P(attention_rule, joins_projections_without_biases_or_of_different_sizes) {
  const auto nodes = R"(qm = MatMul x wq
                        km = MatMul x wk
                        vm = MatMul x wv
                        q = Unsqueeze qm [1]
                        k = Unsqueeze km [1]
                        v = Unsqueeze vm [1]
                        t = Transpose k perm=[0,1,3,2]
                        s = MatMul q t
                        p = Softmax s axis=-1
                        r = MatMul p v
                        y = Neg r)";
  const tensor_map inputs{{"x", random_tensor({batch_, queries_, 7})}};
  const auto with_value_size = [&](std::int64_t size) {
    return tensor_map{{"wq", random_tensor({7, 16})},
                      {"wk", random_tensor({7, 16})},
                      {"wv", random_tensor({7, size})}};
  };
  expect(nodes, "attention projections", inputs, with_value_size(24));
  // The values would not be aligned.
  expect(nodes, "attention", inputs, with_value_size(9));
  // A matrix that a run gives.
  auto constants = with_value_size(24);
  auto given = inputs;
  given.insert(constants.extract("wv"));
  expect(nodes, "attention", std::move(given), std::move(constants));
}

// Q, K and V are parts of one projection, and the heads of the result are joined.
TEST_P(attention_rule, takes_parts_of_one_projection) {
  const auto heads = std::to_string(heads_);
  const auto nodes =
      "h = MatMul x w\n"
      "qkv = Reshape h [0,0,3," +
      heads +
      ",4]\n"
      "o = Transpose qkv perm=[2,0,3,1,4]\n"
      "q = Gather o [0] axis=0\n"
      "k = Gather o [1] axis=0\n"
      "v = Gather o [2] axis=0\n"
      "q4 = Squeeze q [0]\n"
      "k4 = Squeeze k [0]\n"
      "v4 = Squeeze v [0]\n"
      "t = Transpose k4 perm=[0,1,3,2]\n"
      "s = MatMul q4 t\n"
      "d = Div s 2\n"
      "p = Softmax d axis=-1\n"
      "r = MatMul p v4\n"
      "j = Transpose r perm=[0,2,1,3]\n"
      "y = Reshape j [0,0,-1]\n";
  expect(nodes, "attention", {{"x", random_tensor({batch_, queries_, 7})}},
         {{"w", random_tensor({7, 3 * heads_ * 4})}});
}

TEST_P(attention_rule, leaves_what_is_no_attention) {
  // Another axis, and other readers.
  auto inputs = random_heads();
  expect(R"(t = Transpose k perm=[0,1,3,2]
            s = MatMul q t
            d = Div s 2.5
            p = Softmax d axis=2
            y = MatMul p v)",
         "", inputs);
  expect(default_nodes, "", inputs, {}, {"y", "p"});
  expect(default_nodes, "", inputs, {}, {"y", "s"});
  // A scale for each element, and one that is no constant.
  inputs.emplace("c", random_tensor({1}));
  expect(R"(t = Transpose k perm=[0,1,3,2]
            s = MatMul q t
            d = Mul s c
            p = Softmax d axis=-1
            y = MatMul p v)",
         "", inputs);
  // Keys for all heads.
  expect(default_nodes, "",
         {{"q", random_tensor({2, 3, queries_, 6})},
          {"k", random_tensor({2, 1, keys_, 6})},
          {"v", random_tensor({2, 1, keys_, 5})}});
  // The operation does not take f64.
  expect_rules({.nodes = default_nodes, .inputs = random_heads(), .types = {element_type::f64}},
               "");
}

// Up to version 12, Softmax joins the dimensions before its axis, and those after it.
TEST_P(attention_rule, takes_softmax_of_old_versions) {
  for (const auto axis : {3, 2}) {
    onnx_graph g(11);
    g.input("q").input("k").input("v").output("y");
    g.node("Transpose", {"k"}, {"t"}).with("perm", std::vector<std::int64_t>{0, 1, 3, 2});
    g.node("MatMul", {"q", "t"}, {"s"});
    g.node("Softmax", {"s"}, {"p"}).with("axis", axis);
    g.node("MatMul", {"p", "v"}, {"y"});
    const auto inputs = random_heads();
    const auto network = g.make();
    const auto made = network.program_for(specs_of(inputs));
    EXPECT_EQ(rules_of(made), axis == 3 ? "attention" : "");
    const auto expected = network.program_for(specs_of(inputs), {}, {.optimize = false});
    expect_near(run(made, inputs).front(), run(expected, inputs).front());
  }
}

// The mask of one request is that of its own keys.
TEST_P(attention_rule, keeps_the_proof_of_batches) {
  for (const bool masked : {false, true}) {
    auto nodes = parse_nodes(R"(t = Transpose k perm=[0,1,3,2]
                                s = MatMul q t
                                d = Mul s 0.5
                                a = Add mask d
                                p = Softmax a axis=-1
                                y = MatMul p v)");
    tensor_map inputs{{"q", random_tensor({1, 2, 3, 4})},
                      {"k", random_tensor({1, 2, 5, 4})},
                      {"v", random_tensor({1, 2, 5, 4})}};
    tensor_map constants;
    (masked ? inputs : constants).emplace("mask", random_tensor({1, 1, 1, 5}));
    const auto network =
        model_of(nodes, inputs, constants, element_type::f32, element_type::f32, {"y"});
    const auto made = network.program_for(input_specs(inputs), {}, {.max_in_batch = 8});
    EXPECT_EQ(rules_of(made), "attention");
    const auto unchanged =
        network.program_for(input_specs(inputs), {}, {.max_in_batch = 8, .optimize = false});
    EXPECT_EQ(made.batching.reason, unchanged.batching.reason);
    EXPECT_EQ(made.batching.inputs, unchanged.batching.inputs);
    EXPECT_EQ(made.max_in_batch, unchanged.max_in_batch);
  }
}

TEST_P(attention_rule, keeps_the_proof_of_batches_with_joined_heads) {
  const auto nodes = parse_nodes(R"(r = Reshape x [-1,3,4]
                                    t = Transpose r perm=[0,2,1]
                                    s = MatMul r t
                                    p = Softmax s axis=-1
                                    a = MatMul p r
                                    y = Reshape a [-1,2,3,4])");
  const tensor_map inputs{{"x", random_tensor({1, 2, 3, 4})}};
  const auto network = model_of(nodes, inputs, {}, element_type::f32, element_type::f32, {"y"});
  const auto made = network.program_for(input_specs(inputs), {}, {.max_in_batch = 8});
  EXPECT_EQ(rules_of(made), "attention");
  EXPECT_EQ(made.max_in_batch, 8U) << made.batching.reason;
}

// Views are added while the graph is looked at.
TEST_P(attention_rule, recognizes_attention_in_many_layers) {
  constexpr int layers = 210;
  std::string text;
  std::string last = "x";
  for (int i = 0; i < layers; ++i) {
    const auto number = std::to_string(i);
    const auto next = "y" + number;
    text += "t" + number + " = Transpose " + last + " perm=[0,2,1]\ns" + number + " = MatMul " +
            last + " t" + number + "\np" + number + " = Softmax s" + number + " axis=-1\n" + next +
            " = MatMul p" + number + " " + last + "\n";
    last = next;
  }
  text += "y = Abs " + last;  // a view can be no output
  const tensor_map inputs{{"x", random_tensor({2, 3, 4})}};
  const auto network =
      model_of(parse_nodes(text), inputs, {}, element_type::f32, element_type::f32, {"y"});
  const auto made = network.program_for(input_specs(inputs));
  EXPECT_EQ(made.optimizations.size(), static_cast<std::size_t>(layers));
  const auto expected = network.program_for(input_specs(inputs), {}, {.optimize = false});
  EXPECT_LE(distance(results_of(made, inputs).front(), results_of(expected, inputs).front()),
            bound_of(element_type::f32));
}

INSTANTIATE_TEST_SUITE_P(devices, attention_rule, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
