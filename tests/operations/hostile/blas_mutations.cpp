// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/blas.hpp>

#include <complex>

namespace sluice::test {
namespace {

using enum element_type;

/// The product of matrices of one type, each in memory by rows or by columns.
gemm product(bench& on, element_type type, bool is_stack) {
  const auto m = on.extent(), n = on.extent(), k = on.extent(), count = on.extent();
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    const auto by_rows = is_stack ? extents{count, rows, columns} : extents{rows, columns};
    const auto by_columns = is_stack ? extents{count, columns, rows} : extents{columns, rows};
    return on.coin() ? on.make(type, by_rows) : on.make(type, by_columns).transposed();
  };
  return {.a = matrix(m, k),
          .b = matrix(k, n),
          .c = matrix(m, n),
          .alpha = 0.5,
          .beta = on.extent(0, 1),
          .new_c = on.one_of({layout::row_major, layout::column_major})};
}
gemm valid_gemm(bench& on) {
  return product(on, on.one_of({f32, f64, c64, c128}), on.coin());
}

/// A tensor like a matrix of the product, but of another type.
tensor retyped(bench& on, const operand& model, element_type type) {
  return on.make(type, model.value().shape());
}

operation_mutations gemm_mutations() {
  mutations_of<gemm> to(valid_gemm);
  to.required("a", &gemm::a);
  to.required("b", &gemm::b);
  to.output("c", &gemm::c, i32);
  to.aliasing("c", &gemm::c, "a", &gemm::a);
  to.aliasing("c", &gemm::c, "b", &gemm::b);
  for (const auto& [name, member] : {std::pair{"a", &gemm::a}, std::pair{"b", &gemm::b}}) {
    const std::string text = name;
    for (const auto type : {boolean, u8, i32, u64, f16, bf16}) {
      to.add(text + " of " + std::string(to_string(type)), bad, text,
             [member = member, type](gemm& g, bench& on) {
               g.*member = retyped(on, g.*member, type);
             });
    }
    to.add(text + " is a vector", bad, text, [member = member](gemm& g, bench& on) {
      const auto type = (g.*member).value().type();
      g.*member = on.make(type, on.shape(1));
    });
    to.add(text + " is a number", bad, text, [member = member](gemm& g, bench& on) {
      const auto type = (g.*member).value().type();
      g.*member = on.make(type, {1}).select(0, 0);
    });
  }
  to.add("b of another type", bad, "b", [](gemm& g, bench& on) {
    const auto other = g.a.value().type() == f64 ? f32 : f64;
    g.b = retyped(on, g.b, other);
  });
  to.add("b with another number of rows", bad, "b", [](gemm& g, bench& on) {
    g.b = on.make(g.a.value().type(), {on.extent(6, 9), on.extent()});
  });
  to.add("b with 2^31 rows", bad, "b", [](gemm& g, bench& on) {
    g.b = on.repeated(g.a.value().type(), {std::int64_t{1} << 31U, on.extent()});
  });
  to.add("b with 2^58 rows", bad, "b", [](gemm& g, bench& on) {
    g.b = on.repeated(g.a.value().type(), {std::int64_t{1} << 58U, 1});
  });
  to.add("b without rows", bad, "b", [](gemm& g, bench& on) {
    g.b = on.empty(g.a.value().type(), {0, on.extent()});
  });
  to.add("stacks of different sizes", bad, "b", [](gemm& g, bench& on) {
    g = product(on, f32, true);
    const auto s = g.b.value().shape();
    g.b = on.make(f32, {s[0] + 1, s[1], s[2]});
  });
  to.add("a stack of 2^62 products", bad, "c", [](gemm& g, bench& on) {
    constexpr auto many = std::int64_t{1} << 31U;
    g.a = on.repeated(f32, {many, 1, 2, 3});
    g.b = on.repeated(f32, {1, many, 3, 2});
    g.c = {};
    g.beta = 0;
  });
  to.add("a packed stack of 2^64 elements", bad, "a", [](gemm& g, bench& on) {
    constexpr auto many = std::int64_t{1} << 30U;
    g.a = on.repeated(f32, {many, 1, 1, 16});
    g.b = on.repeated(f32, {1, many, 16, 1});
    g.c = {};
    g.beta = 0;
  });
  to.add("a packed matrix of 2^48 elements", errc::out_of_memory, "a", [](gemm& g, bench& on) {
    constexpr auto many = std::int64_t{1} << 24U;
    g.a = on.repeated(f32, {many, many});
    g.b = on.make(f32, {1, 1}).broadcast_to({many, 1});
    g.c = {};
    g.beta = 0;
  });
  to.add("a new c of 2^40 elements", errc::out_of_memory, "c", [](gemm& g, bench& on) {
    constexpr auto many = std::int64_t{1} << 20U;
    g.a = on.repeated(f32, {many, 1});
    g.b = on.repeated(f32, {1, many});
    g.c = {};
    g.beta = 0;
  });
  to.add("beta without c", bad, "c", [](gemm& g, bench&) {
    g.c = {};
    g.beta = 1;
  });
  for (const auto& named : {std::pair{"alpha", &gemm::alpha}, std::pair{"beta", &gemm::beta}}) {
    const std::string text = named.first;
    const auto member = named.second;
    add_not_finite(to, text, member);
    const auto number = [&](const std::string& what, element_type type, const scalar& value) {
      to.add(text + ' ' + what, bad, text, [member, type, value](gemm& g, bench& on) {
        g = product(on, type, on.coin());
        g.*member = value;
      });
    };
    number("beyond f32", f32, 1e300);
    number("beyond c64", c64, std::complex<double>(1, -1e300));
    number("is i in f32", f32, std::complex<double>(0, 1));
    number("is i in f64", f64, std::complex<double>(0, 1));
  }
  for (const int value : {2, 255}) {
    to.value(&gemm::new_c, "new_c is " + std::to_string(value), "new_c",
             static_cast<layout>(value));
  }
  return std::move(to).take();
}

/// A request in the spelling of BLAS, which becomes a `gemm` before it is sent.
template <class T>
class spelled_request final : public any_request {
 public:
  explicit spelled_request(blas_gemm<T> request) : request_(std::move(request)) {}

  void submit(executor& to, reply_token<tensor> token) const override {
    gemm operation;
    try {
      operation = to_operation(request_);
    } catch (...) {
      token.fail(current_error());
      return;
    }
    to.submit(std::move(operation), {}, std::move(token));
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
blas_gemm<T> valid_spelling(bench& on) {
  const auto m = on.extent(), n = on.extent(), k = on.extent();
  const auto matrix = [&](std::int64_t rows, std::int64_t columns) {
    return on.make(element_type_v<T>, {rows * columns}).template as<T>();
  };
  return {.layout = on.one_of({layout::row_major, layout::column_major}),
          .transpose_a = on.one_of({transpose::no, transpose::yes}),
          .transpose_b = on.one_of({transpose::no, transpose::yes}),
          .m = m,
          .n = n,
          .k = k,
          .alpha = static_cast<T>(0.5),
          .a = matrix(m, k),
          .b = matrix(k, n),
          .beta = static_cast<T>(on.extent(0, 1)),
          .c = matrix(m, n)};
}

template <class T>
operation_mutations spelling_mutations(const std::string& name) {
  using request = blas_gemm<T>;
  operation_mutations to{nullptr, name, {"a", "b", "c"}, {}};
  const auto add = [&](std::string what, errc code, std::string argument, auto spoil) {
    to.mutations.push_back({std::move(what), code, std::move(argument), [spoil](bench& on) {
                              auto changed = valid_spelling<T>(on);
                              spoil(changed, on);
                              return std::make_unique<spelled_request<T>>(std::move(changed));
                            }});
  };
  const auto set = [&](const std::string& argument, auto member, const std::string& what,
                       auto value) {
    add(argument + ' ' + what, bad, argument,
        [member, value](request& r, bench&) { r.*member = value; });
  };
  const auto changed = [](bench& on, const gpu_ref<T>& model, bool is_stale) {
    return (is_stale ? on.stale(model) : on.foreign(model)).template as<T>();
  };
  for (const auto& [text, member] :
       {std::pair{"a", &request::a}, std::pair{"b", &request::b}, std::pair{"c", &request::c}}) {
    const std::string argument = text;
    add("stale " + argument, errc::stale_ref, argument,
        [member = member, changed](request& r, bench& on) {
          r.*member = changed(on, r.*member, true);
        });
    add("foreign " + argument, bad, argument, [member = member, changed](request& r, bench& on) {
      r.*member = changed(on, r.*member, false);
    });
    add("short " + argument, bad, argument, [member = member](request& r, bench& on) {
      r.*member = on.make(element_type_v<T>, {3}).template as<T>();
    });
    if (argument == "c") continue;
    set(argument, member, "is not given", gpu_ref<T>());
    add("c is " + argument, bad, "c", [member = member](request& r, bench& on) {
      r.m = r.n = r.k = on.extent();
      r.a = on.make(element_type_v<T>, {r.m * r.m}).template as<T>();
      r.b = on.make(element_type_v<T>, {r.m * r.m}).template as<T>();
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
  const auto too_large = [&](std::int64_t size, const std::string& what) {
    set("a", &request::m, "for m = " + what, size);
    set("b", &request::n, "for n = " + what, size);
    set("a", &request::k, "for k = " + what, size);
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
  return to;
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
