// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/blas.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

using wide = std::complex<long double>;

wide widen(double value) {
  return {static_cast<long double>(value), 0};
}
template <class T>
wide widen(const std::complex<T>& value) {
  return {value.real(), value.imag()};
}

/// A random gemm of element type `T`.
template <class T>
class problem {
 public:
  problem(device_runtime& runtime, stream_ref stream, std::mt19937_64& generator)
      : generator_(generator),
        m_(dimension()),
        n_(dimension()),
        k_(draw(8) == 0 ? 0 : dimension()),
        stack_(random_stack()),
        repeated_(draw(3)),
        a_(runtime, stream, generator, layout_of(part_of(stack_, repeated_ == 1), line(m_), k_)),
        b_(runtime, stream, generator, layout_of(part_of(stack_, repeated_ == 2), k_, line(n_))),
        c_(runtime, stream, generator, layout_of(stack_, m_, n_)),
        a_operand_(broadcast(a_.view(), m_, k_)),
        b_operand_(broadcast(b_.view(), k_, n_)),
        alpha_(factor()),
        beta_(factor()) {
    // If beta is 0, C must not be read.
    if (beta_ == T(0)) {
      c_.replace(std::vector<T>(c_.memory().size(), std::numeric_limits<double>::quiet_NaN()));
    }
  }

  gemm operation(bool with_c) const {
    return {.a = a_operand_,
            .b = b_operand_,
            .c = with_c ? operand(c_.view()) : operand(),
            .alpha = alpha_,
            .beta = beta_};
  }
  bool updates() const { return beta_ != T(0); }
  extents shape() const { return c_.view().shape(); }
  std::size_t terms() const { return static_cast<std::size_t>(k_); }

  /// The elements of C by definition, in row-major order.
  std::vector<std::complex<double>> expected() const {
    std::vector<std::complex<double>> all;
    for_each_index(c_.view().shape(), [&](const extents& index) {
      wide sum = 0;
      for (std::int64_t l = 0; l < k_ && alpha_ != T(0); ++l) {
        sum += widen(a_[operand_index(index, a_.view(), index[index.size() - 2], l)]) *
               widen(b_[operand_index(index, b_.view(), l, index[index.size() - 1])]);
      }
      sum *= widen(alpha_);
      if (beta_ != T(0)) sum += widen(beta_) * widen(c_[index]);
      all.emplace_back(static_cast<double>(sum.real()), static_cast<double>(sum.imag()));
    });
    return all;
  }
  /// The elements of C on the device, in row-major order. Its gaps must be as before.
  std::vector<std::complex<double>> computed() const {
    auto current = c_.current();
    auto before = c_.memory();
    std::vector<std::complex<double>> all;
    for_each_index(c_.view().shape(), [&](const extents& index) {
      const auto position = c_.position(index);
      all.emplace_back(current[position]);
      current[position] = before[position] = T(0);
    });
    EXPECT_EQ(std::memcmp(current.data(), before.data(), current.size() * sizeof(T)), 0)
        << "a gap of C was written";
    return all;
  }

 private:
  std::int64_t draw(std::int64_t below) {
    return std::uniform_int_distribution<std::int64_t>(0, below - 1)(generator_);
  }
  std::int64_t dimension() { return draw(20) == 0 ? 0 : 1 + draw(draw(2) == 0 ? 4 : 70); }
  /// The rows or columns of an operand in memory: sometimes one stands for all.
  std::int64_t line(std::int64_t extent) { return extent != 0 && draw(8) == 0 ? 1 : extent; }
  T factor() {
    if (const auto kind = draw(4); kind < 2) return kind == 0 ? T(0) : T(1);
    return random_values<T>(generator_, 1)[0];
  }
  extents random_stack() {
    extents stack;
    for (auto rank = draw(3); rank > 0; --rank) stack.push_back(1 + draw(3));
    return stack;
  }
  /// The leading dimensions of an operand, which is repeated for all products or for none.
  extents part_of(const extents& stack, bool repeated) {
    if (!repeated) return stack;
    extents part;
    const auto kind = draw(3);
    for (std::size_t i = 0; kind != 0 && i < stack.size(); ++i) {
      part.push_back(kind == 1 || draw(2) == 0 ? 1 : stack[i]);
    }
    return part;
  }
  /// A matrix whose only row or column is repeated, or also a stack of such matrices.
  tensor broadcast(const tensor& t, std::int64_t rows, std::int64_t columns) {
    extents shape;
    if (draw(4) == 0) {
      shape = stack_;
    } else {
      for (std::size_t i = 0; i + 2 < t.rank(); ++i) shape.push_back(t.shape()[i]);
    }
    shape.push_back(rows);
    shape.push_back(columns);
    return t.broadcast_to(shape);
  }
  strided_layout layout_of(const extents& stack, std::int64_t rows, std::int64_t columns) {
    if (draw(2) == 0) {
      auto shape = stack;
      shape.push_back(rows);
      shape.push_back(columns);
      return random_layout(generator_, shape);
    }
    strided_layout l{.shape = stack};
    for (std::size_t i = 0; i < stack.size(); ++i) l.gaps.push_back(0);
    if (!stack.empty()) l.gaps[stack.size() - 1] = draw(3);
    l.shape.push_back(rows);
    l.shape.push_back(columns);
    for (std::size_t i = 0; i < l.shape.size(); ++i)
      l.order.push_back(static_cast<std::int64_t>(i));
    const bool by_columns = draw(2) == 0;
    if (by_columns) std::swap(l.order[l.order.size() - 1], l.order[l.order.size() - 2]);
    l.gaps.push_back(by_columns ? 0 : draw(4));
    l.gaps.push_back(by_columns ? draw(4) : 0);
    l.offset = static_cast<std::size_t>(draw(4));
    return l;
  }
  /// The index of an element of a matrix that belongs to the product `index` of C.
  static extents operand_index(const extents& index, const tensor& t, std::int64_t row,
                               std::int64_t column) {
    extents position;
    const auto stack_rank = t.rank() - 2;
    for (std::size_t i = 0; i < stack_rank; ++i) {
      position.push_back(t.shape()[i] == 1 ? 0 : index[index.size() - 2 - stack_rank + i]);
    }
    position.push_back(t.shape()[stack_rank] == 1 ? 0 : row);
    position.push_back(t.shape()[stack_rank + 1] == 1 ? 0 : column);
    return position;
  }

  std::mt19937_64& generator_;
  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
  extents stack_;
  std::int64_t repeated_;  // the matrix that is the same in all products: 1 for A, 2 for B
  strided<T> a_;
  strided<T> b_;
  strided<T> c_;
  tensor a_operand_;
  tensor b_operand_;
  T alpha_;
  T beta_;
};

class gemm_operation : public executor_test {
 protected:
  /// The elements of `t`, which is contiguous or a transpose of such a tensor.
  template <class T>
  std::vector<T> elements(const tensor& t) {
    const tensor all(t.block(), t.type(), {static_cast<std::int64_t>(t.size())});
    const auto memory = download(all.as<T>(), stream());
    std::vector<T> found;
    for_each_index(t.shape(), [&](const extents& index) {
      std::int64_t position = 0;
      for (std::size_t i = 0; i < index.size(); ++i) position += index[i] * t.strides()[i];
      found.push_back(memory[static_cast<std::size_t>(position)]);
    });
    return found;
  }
  template <class T>
  void expect_right_numbers() {
    auto generator = make_generator();
    for (int i = 0; i < 40; ++i) {
      const problem<T> p(runtime(), stream(), generator);
      SCOPED_TRACE(to_string(p.shape()) + ", round " + std::to_string(i));
      const auto result = run(test_executor(), p.operation(true));
      EXPECT_EQ(result.shape(), p.shape());
      const auto expected = p.expected();
      EXPECT_LE(relative_error(p.computed(), expected), error_bound<T>(p.terms()) * 4);
    }
  }
};

TEST_P(gemm_operation, computes_f32) {
  expect_right_numbers<float>();
}
TEST_P(gemm_operation, computes_f64) {
  expect_right_numbers<double>();
}
TEST_P(gemm_operation, computes_c64) {
  expect_right_numbers<std::complex<float>>();
}
TEST_P(gemm_operation, computes_c128) {
  expect_right_numbers<std::complex<double>>();
}

TEST_P(gemm_operation, computes_long_sums_and_large_matrices) {
  auto generator = make_generator();
  std::uniform_int_distribution<std::int64_t> longer(2000, 6000);
  std::uniform_int_distribution<std::int64_t> larger(200, 400);
  for (const auto& sizes : {std::array{std::int64_t{17}, std::int64_t{13}, longer(generator)},
                            std::array{larger(generator), larger(generator), larger(generator)},
                            std::array{std::int64_t{1}, longer(generator), larger(generator)},
                            std::array{longer(generator), std::int64_t{1}, larger(generator)}}) {
    const auto m = sizes[0];
    const auto n = sizes[1];
    const auto k = sizes[2];
    const strided<float> a(runtime(), stream(), generator, {.shape = {m, k}});
    const strided<float> b(runtime(), stream(), generator, {.shape = {n, k}});
    const auto c =
        run(test_executor(), gemm{.a = a.view(), .b = b.view().transposed(), .alpha = -0.5});
    std::vector<double> expected;
    for_each_index({m, n}, [&](const extents& index) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += double{a[{index[0], l}]} * b[{index[1], l}];
      expected.push_back(-0.5 * sum);
    });
    EXPECT_LE(relative_error(elements<float>(c), expected),
              error_bound<float>(static_cast<std::size_t>(k)));
  }
}

TEST_P(gemm_operation, makes_c_in_the_order_that_is_asked_for) {
  auto generator = make_generator();
  const strided<double> a(runtime(), stream(), generator, {.shape = {2, 3, 4}});
  const strided<double> b(runtime(), stream(), generator, {.shape = {4, 5}});
  const auto rows = run(test_executor(), gemm{.a = a.view(), .b = b.view()});
  const auto columns =
      run(test_executor(), gemm{.a = a.view(), .b = b.view(), .new_c = layout::column_major});
  EXPECT_EQ(rows.strides(), (extents{15, 5, 1}));
  EXPECT_EQ(columns.strides(), (extents{15, 1, 3}));
  EXPECT_EQ(columns.bytes(), columns.block().bytes());
  EXPECT_LE(
      relative_error(elements<double>(columns.transposed()),
                     elements<double>(run(test_executor(), gemm{.a = b.view().transposed(),
                                                                .b = a.view().transposed()}))),
      error_bound<double>());
}

TEST_P(gemm_operation, does_not_read_a_and_b_without_products) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const tensor numbers = upload(runtime(), stream(), std::vector<float>(12, nan));
  const tensor c = upload(runtime(), stream(), std::vector<float>(9, 2.0F));
  const auto square = [](const tensor& t) {
    return t.reshape({3, 3});
  };
  const auto result = [&](const gemm& g) {
    return elements<float>(run(test_executor(), g));
  };
  gemm g{.a = numbers.reshape({3, 4}),
         .b = numbers.reshape({4, 3}),
         .c = square(c),
         .alpha = 0,
         .beta = -1.5};
  EXPECT_EQ(result(g), std::vector<float>(9, -3.0F));
  g.beta = 1;
  EXPECT_EQ(result(g), std::vector<float>(9, -3.0F));
  g.beta = 0;
  EXPECT_EQ(result(g), std::vector<float>(9, 0.0F));
  g.c = {};
  EXPECT_EQ(result(g), std::vector<float>(9, 0.0F));
  // No sums.
  EXPECT_EQ(result({.a = numbers.reshape({12, 1}).slice(1, 0, 0).slice(0, 0, 3),
                    .b = numbers.reshape({1, 12}).slice(0, 0, 0).slice(1, 0, 3)}),
            std::vector<float>(9, 0.0F));
  // No results.
  EXPECT_TRUE(run(test_executor(),
                  gemm{.a = numbers.reshape({3, 4}), .b = numbers.reshape({4, 3}).slice(1, 0, 0)})
                  .empty());
}

TEST_P(gemm_operation, keeps_nan_in_the_rows_that_it_belongs_to) {
  auto generator = make_generator();
  auto values = random_values<float>(generator, 36);
  values[2 * 4 + 1] = std::numeric_limits<float>::quiet_NaN();
  const tensor a = upload(runtime(), stream(), values);
  const tensor b = upload(runtime(), stream(), random_values<float>(generator, 24));
  const auto c =
      elements<float>(run(test_executor(), gemm{.a = a.reshape({9, 4}), .b = b.reshape({4, 6})}));
  for (std::size_t i = 0; i < c.size(); ++i) EXPECT_EQ(std::isnan(c[i]), i / 6 == 2) << i;
}

TEST_P(gemm_operation, gives_the_same_bits_again) {
  auto generator = make_generator();
  const strided<float> a(runtime(), stream(), generator, {.shape = {150, 170}});
  const strided<float> b(runtime(), stream(), generator, {.shape = {170, 130}});
  const auto product = [&] {
    return elements<float>(run(test_executor(), gemm{.a = a.view(), .b = b.view()}));
  };
  EXPECT_EQ(product(), product());
}

INSTANTIATE_TEST_SUITE_P(devices, gemm_operation, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
