// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/scaled_gemm.hpp>

#include <complex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using enum element_type;

scaled_gemm valid_product(bench& test_bench) {
  const auto m = test_bench.extent(), n = test_bench.extent(), k = test_bench.extent();
  const auto matrix = [&](element_type type, std::int64_t rows, std::int64_t columns) {
    return test_bench.coin() ? test_bench.make(type, {rows, columns})
                             : test_bench.make(type, {columns, rows}).transposed();
  };
  const auto type = test_bench.one_of({f16, bf16, f32});
  return {.a = matrix(test_bench.one_of({e4m3, e5m2}), m, k),
          .b = matrix(test_bench.one_of({e4m3, e5m2}), k, n),
          .c = matrix(type, m, n),
          .a_scale = test_bench.make(f32, {1}),
          .b_scale = test_bench.make(f32, {1, 1}),
          .alpha = 0.5,
          .beta = test_bench.extent(0, 1),
          .bias = test_bench.make(type, test_bench.coin() ? extents{n} : extents{m, 1}),
          .activation = test_bench.one_of({activation::none, activation::gelu}),
          .residual = matrix(type, m, n),
          .new_c = test_bench.one_of({layout::row_major, layout::column_major})};
}

/// Adds what is wrong with A and B.
void add_factors(mutations_of<scaled_gemm>& mutations) {
  for (const auto& [name, member] :
       {std::pair{"a", &scaled_gemm::a}, std::pair{"b", &scaled_gemm::b}}) {
    const std::string text = name;
    mutations.required(text, member);
    mutations.aliasing("c", &scaled_gemm::c, text, member);
    for (const auto type : {boolean, u8, i8, i32, f16, bf16, f32, c64}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](scaled_gemm& g, bench& test_bench) {
                      g.*member = retyped(test_bench, g.*member, type);
                    });
    }
    mutations.add(text + " is a vector", bad, text,
                  [member = member](scaled_gemm& g, bench& test_bench) {
                    g.*member = test_bench.make(e4m3, test_bench.shape(1));
                  });
    mutations.add(text + " is a number", bad, text,
                  [member = member](scaled_gemm& g, bench& test_bench) {
                    g.*member = test_bench.make(e4m3, {1}).select(0, 0);
                  });
  }
  for (const auto rows :
       {std::int64_t{0}, std::int64_t{9}, std::int64_t{1} << 31U, std::int64_t{1} << 60U}) {
    mutations.add("b with " + std::to_string(rows) + " rows", bad, "b",
                  [rows](scaled_gemm& g, bench& test_bench) {
                    g.b = test_bench.repeated(e4m3, {rows, 2});
                  });
  }
  mutations.add("stacks of different sizes", bad, "b", [](scaled_gemm& g, bench& test_bench) {
    g.a = test_bench.make(e4m3, {2, 3, 4});
    g.b = test_bench.make(e5m2, {3, 4, 5});
  });
}

/// Adds what is wrong with the scales.
void add_scales(mutations_of<scaled_gemm>& mutations) {
  for (const auto& [name, member] :
       {std::pair{"a_scale", &scaled_gemm::a_scale}, std::pair{"b_scale", &scaled_gemm::b_scale}}) {
    const std::string text = name;
    mutations.memory(text, member);
    for (const auto type : {i32, e4m3, f16, bf16, f64}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](scaled_gemm& g, bench& test_bench) {
                      g.*member = retyped(test_bench, g.*member, type);
                    });
    }
    for (const auto& shape : {extents{0}, extents{2}, extents{1, 3}, extents{most / 4}}) {
      mutations.add(text + " of the shape " + to_string(shape), bad, text,
                    [member = member, shape](scaled_gemm& g, bench& test_bench) {
                      g.*member = test_bench.repeated(f32, shape);
                    });
    }
    mutations.add("c has the bytes of " + text, bad, "c",
                  [member = member](scaled_gemm& g, bench& test_bench) {
                    g = {.a = test_bench.make(e4m3, {1, 4}), .b = test_bench.make(e4m3, {4, 1})};
                    g.c = test_bench.make(f32, {1, 1});
                    g.*member = g.c;
                  });
  }
}

/// Adds what is wrong with C, the epilogue and the parameters.
void add_others(mutations_of<scaled_gemm>& mutations) {
  mutations.output("c", &scaled_gemm::c, i32);
  for (const auto& [name, member] :
       {std::pair{"bias", &scaled_gemm::bias}, std::pair{"residual", &scaled_gemm::residual}}) {
    const std::string text = name;
    mutations.memory(text, member);
    mutations.aliasing("c", &scaled_gemm::c, text, member);
    mutations.add(text + " of another type", bad, text,
                  [member = member](scaled_gemm& g, bench& test_bench) {
                    g.*member = retyped(test_bench, g.*member, e4m3);
                  });
    mutations.add(text + " of 2^58 elements", bad, text,
                  [member = member](scaled_gemm& g, bench& test_bench) {
                    const auto type = (g.*member).value().type();
                    g.*member = test_bench.repeated(type, {std::int64_t{1} << 58U});
                  });
  }
  for (const auto type : {boolean, i32, e4m3, e5m2, f64, c64}) {
    mutations.add("a new c of " + std::string(to_string(type)), bad, "type",
                  [type](scaled_gemm& g, bench&) {
                    g.type = type;
                    g.c = {};
                    g.beta = 0;
                  });
  }
  mutations.value(&scaled_gemm::type, "an unknown type", "type", static_cast<element_type>(99));
  mutations.value(&scaled_gemm::activation, "activation 7", "activation",
                  static_cast<activation>(7));
  mutations.value(&scaled_gemm::new_c, "new_c is 2", "new_c", static_cast<layout>(2));
  mutations.add("beta without c", bad, "c", [](scaled_gemm& g, bench&) {
    g.c = {};
    g.beta = 1;
  });
  mutations.add(
      "a new c of 2^40 elements", errc::out_of_memory, "c", [](scaled_gemm& g, bench& test_bench) {
        constexpr auto many = std::int64_t{1} << 20U;
        g = {.a = test_bench.repeated(e4m3, {many, 1}), .b = test_bench.repeated(e4m3, {1, many})};
      });
  for (const auto& named :
       {std::pair{"alpha", &scaled_gemm::alpha}, std::pair{"beta", &scaled_gemm::beta}}) {
    add_not_finite(mutations, named.first, named.second);
    mutations.value(named.second, std::string(named.first) + " beyond f32", named.first, 1e300);
    mutations.value(named.second, std::string(named.first) + " is i", named.first,
                    std::complex<double>(0, 1));
  }
}

}  // namespace

std::vector<operation_mutations> scaled_gemm_mutations() {
  mutations_of<scaled_gemm> mutations(valid_product);
  add_factors(mutations);
  add_scales(mutations);
  add_others(mutations);
  std::vector<operation_mutations> all;
  all.push_back(std::move(mutations).take());
  return all;
}

}  // namespace sluice::test
