// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/blas.hpp>

#include <complex>

namespace sluice::test {
namespace {

using enum element_type;

/// The product of matrices of one type, each in memory by rows or by columns.
gemm product(bench& test_bench, element_type type, bool is_stack) {
  const auto m = test_bench.extent(), n = test_bench.extent(), k = test_bench.extent(),
             count = test_bench.extent();
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    const auto by_rows = is_stack ? extents{count, rows, columns} : extents{rows, columns};
    const auto by_columns = is_stack ? extents{count, columns, rows} : extents{columns, rows};
    return test_bench.coin() ? test_bench.make(type, by_rows)
                             : test_bench.make(type, by_columns).transposed();
  };
  const bool is_complex = type == c64 || type == c128;
  return {.a = matrix(m, k),
          .b = matrix(k, n),
          .c = matrix(m, n),
          .alpha = 0.5,
          .beta = test_bench.extent(0, 1),
          .bias = test_bench.make(type, test_bench.coin() ? extents{n} : extents{m, 1}),
          .activation = is_complex ? activation::none
                                   : test_bench.one_of({activation::none, activation::gelu}),
          .residual = matrix(m, n),
          .new_c = test_bench.one_of({layout::row_major, layout::column_major})};
}
gemm valid_gemm(bench& test_bench) {
  return product(test_bench, test_bench.one_of({f16, bf16, f32, f64, c64, c128}),
                 test_bench.coin());
}

gemm without_epilogue(gemm g) {
  g.bias = {};
  g.activation = activation::none;
  g.residual = {};
  return g;
}

/// Adds what is wrong with the operands and the function that follow a product.
void add_epilogue(mutations_of<gemm>& mutations) {
  for (const auto& [name, member] :
       {std::pair{"bias", &gemm::bias}, std::pair{"residual", &gemm::residual}}) {
    const std::string text = name;
    mutations.memory(text, member);
    mutations.add(text + " of another type", bad, text,
                  [member = member](gemm& g, bench& test_bench) {
                    g.*member = retyped(test_bench, g.*member, i32);
                  });
    const auto reshape = [&, member = member](const std::string& description, auto shape) {
      mutations.add(text + ' ' + description, bad, text,
                    [member, shape](gemm& g, bench& test_bench) {
                      const auto& model = (g.*member).value();
                      g.*member = test_bench.repeated(model.type(), shape(model.shape()));
                    });
    };
    reshape("with ten elements too many", [](const extents& s) {
      auto longer = s;
      longer[0] += 10;
      return longer;
    });
    reshape("of 2^58 elements", [](const extents&) { return extents{std::int64_t{1} << 58U}; });
    reshape("of 2^31 x 2^27 elements", [](const extents&) {
      return extents{std::int64_t{1} << 31U, std::int64_t{1} << 27U};
    });
    reshape("with eight dimensions",
            [](const extents&) { return extents{1, 1, 1, 1, 1, 1, 1, 1}; });
    mutations.add(text + " is a number", bad, text, [member = member](gemm& g, bench& test_bench) {
      const auto type = (g.*member).value().type();
      g.*member = test_bench.make(type, {1}).select(0, 0);
    });
    mutations.add(
        text + " without elements", bad, text, [member = member](gemm& g, bench& test_bench) {
          g.*member = test_bench.empty((g.*member).value().type(), {0, std::int64_t{1} << 40U});
        });
  }
  mutations.add("the residual of another row", bad, "residual", [](gemm& g, bench& test_bench) {
    auto shape = g.residual.value().shape();
    shape[shape.size() - 1] = 1;
    g.residual = test_bench.make(g.residual.value().type(), shape);
  });
  for (const int value : {7, 255}) {
    mutations.value(&gemm::activation, "activation " + std::to_string(value), "activation",
                    static_cast<activation>(value));
  }
  mutations.add("an activation of complex numbers", bad, "activation",
                [](gemm& g, bench& test_bench) {
                  g = product(test_bench, test_bench.one_of({c64, c128}), test_bench.coin());
                  g.activation = activation::relu;
                });
}

/// A product of integers.
gemm integer_product(bench& test_bench) {
  auto g = without_epilogue(product(test_bench, i8, test_bench.coin()));
  if (test_bench.coin()) g.a = retyped(test_bench, g.a, u8);
  g.c = retyped(test_bench, g.c, i32);
  g.alpha = 1;
  return g;
}

/// Adds what is wrong with products of integers only.
void add_integers(mutations_of<gemm>& mutations) {
  const auto add = [&](const std::string& description, const std::string& argument, auto spoil) {
    mutations.add(description + " of integers", bad, argument, [spoil](gemm& g, bench& test_bench) {
      g = integer_product(test_bench);
      spoil(g, test_bench);
    });
  };
  for (const auto type : {u8, i32, f32}) {
    add("b of " + std::string(to_string(type)) + " in a product", "b",
        [type](gemm& g, bench& test_bench) { g.b = retyped(test_bench, g.b, type); });
  }
  add("c of i8 in a product", "c",
      [](gemm& g, bench& test_bench) { g.c = retyped(test_bench, g.c, i8); });
  for (const auto& value : {scalar(0), scalar(2), scalar(0.5), scalar(least), scalar(most)}) {
    add("alpha " + value.text(), "alpha", [value](gemm& g, bench&) { g.alpha = value; });
  }
  for (const auto& value : {scalar(-1), scalar(2), scalar(0.5), scalar(most)}) {
    add("beta " + value.text(), "beta", [value](gemm& g, bench&) { g.beta = value; });
  }
  add("a bias", "bias", [](gemm& g, bench& test_bench) { g.bias = test_bench.make(i32, {1}); });
  add("an activation", "activation", [](gemm& g, bench&) { g.activation = activation::relu; });
  add("a residual", "residual",
      [](gemm& g, bench& test_bench) { g.residual = test_bench.make(i32, g.c.value().shape()); });
}

operation_mutations gemm_mutations() {
  mutations_of<gemm> mutations(valid_gemm);
  mutations.required("a", &gemm::a);
  mutations.required("b", &gemm::b);
  mutations.output("c", &gemm::c, i32);
  mutations.aliasing("c", &gemm::c, "a", &gemm::a);
  mutations.aliasing("c", &gemm::c, "b", &gemm::b);
  mutations.aliasing("c", &gemm::c, "bias", &gemm::bias);
  mutations.aliasing("c", &gemm::c, "residual", &gemm::residual);
  add_epilogue(mutations);
  add_integers(mutations);
  for (const auto& [name, member] : {std::pair{"a", &gemm::a}, std::pair{"b", &gemm::b}}) {
    const std::string text = name;
    for (const auto type : {boolean, i16, i32, u32, u64}) {
      mutations.add(text + " of " + std::string(to_string(type)), bad, text,
                    [member = member, type](gemm& g, bench& test_bench) {
                      g.*member = retyped(test_bench, g.*member, type);
                    });
    }
    mutations.add(text + " is a vector", bad, text, [member = member](gemm& g, bench& test_bench) {
      const auto type = (g.*member).value().type();
      g.*member = test_bench.make(type, test_bench.shape(1));
    });
    mutations.add(text + " is a number", bad, text, [member = member](gemm& g, bench& test_bench) {
      const auto type = (g.*member).value().type();
      g.*member = test_bench.make(type, {1}).select(0, 0);
    });
  }
  mutations.add("c of f32 for factors of f64", bad, "c", [](gemm& g, bench& test_bench) {
    for (auto* const matrix : {&g.a, &g.b}) *matrix = retyped(test_bench, *matrix, f64);
    g.c = retyped(test_bench, g.c, f32);
  });
  mutations.add("a type that the factors do not have", bad, "type", [](gemm& g, bench&) {
    g.type = g.a.value().type() == f64 ? f32 : f64;
    g.c = {};
  });
  mutations.value(&gemm::type, "an unknown type", "type", static_cast<element_type>(99));
  mutations.value(&gemm::math, "an unknown mode", "math", static_cast<math_mode>(2));
  mutations.add("b of another type", bad, "b", [](gemm& g, bench& test_bench) {
    const auto other = g.a.value().type() == f64 ? f32 : f64;
    g.b = retyped(test_bench, g.b, other);
  });
  mutations.add("b with another number of rows", bad, "b", [](gemm& g, bench& test_bench) {
    g.b = test_bench.make(g.a.value().type(), {test_bench.extent(6, 9), test_bench.extent()});
  });
  mutations.add("b with 2^31 rows", bad, "b", [](gemm& g, bench& test_bench) {
    g.b = test_bench.repeated(g.a.value().type(), {std::int64_t{1} << 31U, test_bench.extent()});
  });
  mutations.add("b with 2^58 rows", bad, "b", [](gemm& g, bench& test_bench) {
    g.b = test_bench.repeated(g.a.value().type(), {std::int64_t{1} << 58U, 1});
  });
  mutations.add("b without rows", bad, "b", [](gemm& g, bench& test_bench) {
    g.b = test_bench.empty(g.a.value().type(), {0, test_bench.extent()});
  });
  mutations.add("stacks of different sizes", bad, "b", [](gemm& g, bench& test_bench) {
    g = product(test_bench, f32, true);
    const auto s = g.b.value().shape();
    g.b = test_bench.make(f32, {s[0] + 1, s[1], s[2]});
  });
  mutations.add("a stack of 2^62 products", bad, "c", [](gemm& g, bench& test_bench) {
    constexpr auto many = std::int64_t{1} << 31U;
    g = without_epilogue(g);
    g.a = test_bench.repeated(f32, {many, 1, 2, 3});
    g.b = test_bench.repeated(f32, {1, many, 3, 2});
    g.c = {};
    g.beta = 0;
  });
  mutations.add("a packed stack of 2^64 elements", bad, "a", [](gemm& g, bench& test_bench) {
    constexpr auto many = std::int64_t{1} << 30U;
    g = without_epilogue(g);
    g.a = test_bench.repeated(f32, {many, 1, 1, 16});
    g.b = test_bench.repeated(f32, {1, many, 16, 1});
    g.c = {};
    g.beta = 0;
  });
  mutations.add("a packed matrix of 2^48 elements", errc::out_of_memory, "a",
                [](gemm& g, bench& test_bench) {
                  constexpr auto many = std::int64_t{1} << 24U;
                  g = without_epilogue(g);
                  g.a = test_bench.repeated(f32, {many, many});
                  g.b = test_bench.make(f32, {1, 1}).broadcast_to({many, 1});
                  g.c = {};
                  g.beta = 0;
                });
  mutations.add("a new c of 2^40 elements", errc::out_of_memory, "c",
                [](gemm& g, bench& test_bench) {
                  constexpr auto many = std::int64_t{1} << 20U;
                  g = without_epilogue(g);
                  g.a = test_bench.repeated(f32, {many, 1});
                  g.b = test_bench.repeated(f32, {1, many});
                  g.c = {};
                  g.beta = 0;
                });
  mutations.add("beta without c", bad, "c", [](gemm& g, bench&) {
    g.c = {};
    g.beta = 1;
  });
  for (const auto& named : {std::pair{"alpha", &gemm::alpha}, std::pair{"beta", &gemm::beta}}) {
    const std::string text = named.first;
    const auto member = named.second;
    add_not_finite(mutations, text, member);
    const auto number = [&](const std::string& description, element_type type,
                            const scalar& value) {
      mutations.add(text + ' ' + description, bad, text,
                    [member, type, value](gemm& g, bench& test_bench) {
                      g = product(test_bench, type, test_bench.coin());
                      g.*member = value;
                    });
    };
    number("beyond f32", f32, 1e300);
    number("beyond c64", c64, std::complex<double>(1, -1e300));
    number("is i in f32", f32, std::complex<double>(0, 1));
    number("is i in f64", f64, std::complex<double>(0, 1));
  }
  for (const int value : {2, 255}) {
    mutations.value(&gemm::new_c, "new_c is " + std::to_string(value), "new_c",
                    static_cast<layout>(value));
  }
  return std::move(mutations).take();
}

/// A request in the spelling of BLAS, which becomes a `gemm` before it is sent.
template <class T>
class spelled_request final : public any_request {
 public:
  explicit spelled_request(blas_gemm<T> request) : request_(std::move(request)) {}

  void submit(executor& executor, reply_token<tensor> token) const override {
    gemm operation;
    try {
      operation = to_operation(request_);
    } catch (...) {
      token.fail(current_error());
      return;
    }
    executor.submit(std::move(operation), {}, std::move(token));
  }
  [[nodiscard]] std::vector<tensor> operands() const override {
    std::vector<tensor> all;
    for (const auto* ref : {&request_.a, &request_.b, &request_.c}) {
      if (*ref) all.emplace_back(*ref);
    }
    return all;
  }

 private:
  blas_gemm<T> request_;
};

template <class T>
blas_gemm<T> valid_spelling(bench& test_bench) {
  const auto m = test_bench.extent(), n = test_bench.extent(), k = test_bench.extent();
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return test_bench.make(element_type_v<T>, {rows * columns}).template as<T>();
  };
  return {.layout = test_bench.one_of({layout::row_major, layout::column_major}),
          .transpose_a = test_bench.one_of({transpose::no, transpose::yes}),
          .transpose_b = test_bench.one_of({transpose::no, transpose::yes}),
          .m = m,
          .n = n,
          .k = k,
          .alpha = static_cast<T>(0.5),
          .a = matrix(m, k),
          .b = matrix(k, n),
          .beta = static_cast<T>(test_bench.extent(0, 1)),
          .c = matrix(m, n)};
}

template <class T>
operation_mutations spelling_mutations(const std::string& name) {
  using request = blas_gemm<T>;
  operation_mutations result{nullptr, name, {"a", "b", "c"}, {}};
  const auto add = [&](std::string description, errc code, std::string argument, auto spoil) {
    result.mutations.push_back(
        {std::move(description), code, std::move(argument), [spoil](bench& test_bench) {
           auto changed = valid_spelling<T>(test_bench);
           spoil(changed, test_bench);
           return std::make_unique<spelled_request<T>>(std::move(changed));
         }});
  };
  const auto set = [&](const std::string& argument, auto member, const std::string& description,
                       auto value) {
    add(argument + ' ' + description, bad, argument,
        [member, value](request& r, bench&) { r.*member = value; });
  };
  const auto changed = [](bench& test_bench, const gpu_ref<T>& model, bool is_stale) {
    return (is_stale ? test_bench.stale(model) : test_bench.foreign(model)).template as<T>();
  };
  for (const auto& [text, member] :
       {std::pair{"a", &request::a}, std::pair{"b", &request::b}, std::pair{"c", &request::c}}) {
    const std::string argument = text;
    add("stale " + argument, errc::stale_ref, argument,
        [member = member, changed](request& r, bench& test_bench) {
          r.*member = changed(test_bench, r.*member, true);
        });
    add("foreign " + argument, bad, argument,
        [member = member, changed](request& r, bench& test_bench) {
          r.*member = changed(test_bench, r.*member, false);
        });
    add("short " + argument, bad, argument, [member = member](request& r, bench& test_bench) {
      r.*member = test_bench.make(element_type_v<T>, {3}).template as<T>();
    });
    if (argument == "c") continue;
    set(argument, member, "is not given", gpu_ref<T>());
    add("c is " + argument, bad, "c", [member = member](request& r, bench& test_bench) {
      r.m = r.n = r.k = test_bench.extent();
      r.a = test_bench.make(element_type_v<T>, {r.m * r.m}).template as<T>();
      r.b = test_bench.make(element_type_v<T>, {r.m * r.m}).template as<T>();
      r.c = r.*member;
    });
  }
  add("beta without c", bad, "c", [](request& r, bench&) {
    r.c = {};
    r.beta = 1;
  });
  for (const auto& [text, member] :
       {std::pair{"m", &request::m}, std::pair{"n", &request::n}, std::pair{"k", &request::k}}) {
    const std::string argument = text;
    set(argument, member, "is not given", request::not_given);
    set(argument, member, "is -1", std::int64_t{-1});
    set(argument, member, "is 1 - 2^63", -most);
  }
  // The first matrix with this size is too small.
  const auto too_large = [&](std::int64_t size, const std::string& description) {
    set("a", &request::m, "for m = " + description, size);
    set("b", &request::n, "for n = " + description, size);
    set("a", &request::k, "for k = " + description, size);
  };
  too_large(std::int64_t{1} << 31U, "2^31");
  too_large(std::int64_t{1} << 62U, "2^62");
  too_large(most, "2^63 - 1");
  for (const auto& [text, member] :
       {std::pair{"lda", &request::lda}, std::pair{"ldb", &request::ldb},
        std::pair{"ldc", &request::ldc}}) {
    const std::string argument = text;
    set(argument, member, "is 1", std::int64_t{1});
    set(argument, member, "is -1", std::int64_t{-1});
    set(argument, member, "is -2^63", least);
    const auto matrix = argument.substr(2);
    add(argument + " is 2^31", bad, matrix,
        [member = member](request& r, bench&) { r.*member = std::int64_t{1} << 31U; });
    add(argument + " is 2^63 - 1", bad, matrix,
        [member = member](request& r, bench&) { r.*member = most; });
  }
  add("ldc of a new c", bad, "ldc", [](request& r, bench&) {
    r.c = {};
    r.beta = 0;
    r.ldc = 99;
  });
  for (const auto value : {nan, infinity, -infinity}) {
    const auto number = std::to_string(value);
    set("alpha", &request::alpha, "is " + number, static_cast<T>(value));
    set("beta", &request::beta, "is " + number, static_cast<T>(value));
  }
  set("layout", &request::layout, "is 2", static_cast<layout>(2));
  set("transpose_a", &request::transpose_a, "is 2", static_cast<transpose>(2));
  set("transpose_b", &request::transpose_b, "is 255", static_cast<transpose>(255));
  return result;
}

}  // namespace

std::vector<operation_mutations> blas_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(gemm_mutations());
  all.push_back(spelling_mutations<float>("sgemm"));
  all.push_back(spelling_mutations<double>("dgemm"));
  return all;
}

}  // namespace sluice::test
