// SPDX-License-Identifier: Apache-2.0
#include "tests/models/model_device_test.hpp"
#include "tests/support/expect_error.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class einsum : public model_device_test {
 protected:
  host_tensor result(onnx_graph& g, const tensor_map& inputs) {
    return run(g.make(), inputs).front();
  }
  static host_tensor counted(const extents& shape) {
    host_tensor x(element_type::f32, shape);
    auto values = x.values<float>();
    std::iota(values.begin(), values.end(), 0.0F);
    return x;
  }
};

/// The definition: a sum over all labels of the products of elements. Extents of 1 are repeated.
host_tensor sum_products(const std::vector<std::string>& terms, const std::string& output,
                         const std::vector<host_tensor>& operands) {
  std::map<char, std::int64_t> extent_of;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    for (std::size_t d = 0; d < terms[t].size(); ++d) {
      auto& extent = extent_of.try_emplace(terms[t][d], 1).first->second;
      extent = std::max(extent, operands[t].shape()[d]);
    }
  }
  std::map<char, std::int64_t> index;
  for (const auto& entry : extent_of) index[entry.first] = 0;
  const auto offset = [&](const std::string& term, const extents& shape) {
    std::int64_t flat = 0;
    for (std::size_t d = 0; d < term.size(); ++d) {
      flat = flat * shape[d] + (shape[d] == 1 ? 0 : index[term[d]]);
    }
    return static_cast<std::size_t>(flat);
  };
  extents shape;
  std::size_t count = 1;
  for (const auto label : output) {
    shape.push_back(extent_of[label]);
    count *= static_cast<std::size_t>(extent_of[label]);
  }
  std::vector<double> sums(count);
  for (bool more = true; more;) {
    double product = 1;
    for (std::size_t t = 0; t < terms.size(); ++t) {
      product *= operands[t].values<float>()[offset(terms[t], operands[t].shape())];
    }
    sums[offset(output, shape)] += product;
    more = false;
    for (auto& [label, i] : index) {
      more = ++i < extent_of[label];
      if (more) break;
      i = 0;
    }
  }
  return {std::vector<float>(sums.begin(), sums.end()), shape};
}

TEST_P(einsum, repeats_extents_of_one) {
  for (int trial = 0; trial < 12; ++trial) {
    const std::string alphabet = "abcd";
    std::map<char, std::int64_t> extent_of;
    for (const auto label : alphabet) extent_of[label] = between(1, 4);
    onnx_graph g;
    g.output("y");
    std::vector<std::string> terms;
    std::vector<host_tensor> operands;
    tensor_map inputs;
    std::string equation;
    std::string output;
    for (const auto* name : {"x", "y0", "z"}) {
      auto& term = terms.emplace_back();
      extents shape;
      for (const auto label : alphabet) {
        if (between(0, 1) == 0) continue;
        term += label;
        shape.push_back(between(0, 2) == 0 ? 1 : extent_of[label]);
        if (between(0, 1) == 0 && output.find(label) == std::string::npos) output += label;
      }
      operands.push_back(random_tensor(shape));
      inputs.emplace(name, operands.back());
      g.input(name);
      equation += (equation.empty() && terms.size() == 1 ? "" : ",") + term;
    }
    equation += "->" + output;
    SCOPED_TRACE(equation);
    g.node("Einsum", {"x", "y0", "z"}, {"y"}).with("equation", equation.c_str());
    expect_near(result(g, inputs), sum_products(terms, output, operands), 1e-4);
  }
}

TEST_P(einsum, refuses_operands_that_do_not_fit) {
  const auto refusal = [](const char* equation, const extents& a, const extents& b,
                          const char* part) {
    onnx_graph g;
    g.input("a").input("b").output("y");
    g.node("Einsum", {"a", "b"}, {"y"}).with("equation", equation);
    return throws(errc::invalid_argument, part, [&] {
      (void)g.make().program_for({{"a", tensor_spec::row_major(element_type::f32, a)},
                                  {"b", tensor_spec::row_major(element_type::f32, b)}});
    });
  };
  EXPECT_TRUE(refusal("ij,ij->", {2, 3}, {3, 2}, "equation: 'i' has the extents 2 and 3"));
  EXPECT_TRUE(refusal("ij,ij->ij", {2, 3}, {2, 6}, "'j' has the extents 3 and 6"));
  EXPECT_TRUE(refusal("i,i->", {0}, {2}, "'i' has the extents 0 and 2"));
  EXPECT_TRUE(refusal("...i,...i->...", {2, 3}, {4, 3}, "'...' has the extents 2 and 4"));
  EXPECT_TRUE(refusal("ii,i->i", {1, 3}, {3}, "'i' has two extents in a term"));
  EXPECT_TRUE(refusal("ij,jk->ikz", {2, 3}, {3, 2}, "'z' of the result is in no term"));
  EXPECT_TRUE(refusal("ij,jk->ii", {2, 3}, {3, 2}, "'i' is twice in the result"));
  EXPECT_TRUE(refusal("ij->ij", {2, 3}, {3, 2}, "equation: has fewer terms"));
  EXPECT_TRUE(refusal("ij,jk,k->i", {2, 3}, {3, 2}, "equation: has more terms"));
}

TEST_P(einsum, sums_products) {
  const auto a = random_tensor({2, 3, 4});
  const auto b = random_tensor({4, 5, 2});
  onnx_graph g;
  g.input("a").input("b").output("y");
  g.node("Einsum", {"a", "b"}, {"y"}).with("equation", "bij, jkb -> kb");
  const auto x = a.to_vector<float>();
  const auto z = b.to_vector<float>();
  std::vector<float> expected(10);
  for (std::size_t k = 0; k < 5; ++k) {
    for (std::size_t batch = 0; batch < 2; ++batch) {
      double sum = 0;
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 4; ++j) {
          sum += double{x[(batch * 3 + i) * 4 + j]} * double{z[(j * 5 + k) * 2 + batch]};
        }
      }
      expected[k * 2 + batch] = static_cast<float>(sum);
    }
  }
  expect_near(result(g, {{"a", a}, {"b", b}}), {expected, {5, 2}});
}

TEST_P(einsum, takes_diagonals) {
  onnx_graph g;
  g.input("a").output("y").node("Einsum", {"a"}, {"y"}).with("equation", "...ii->i...");
  const auto y = result(g, {{"a", counted({2, 3, 3})}});
  EXPECT_EQ(y.shape(), (extents{3, 2}));
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{0, 9, 4, 13, 8, 17}));
}

INSTANTIATE_TEST_SUITE_P(devices, einsum, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
