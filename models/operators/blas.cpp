// SPDX-License-Identifier: Apache-2.0
// Products of matrices.
#include "models/einsum.hpp"
#include "models/operator_table.hpp"
#include "models/products.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/quantization.hpp>

#include <array>

namespace sluice::models {

namespace {

/// Vectors are a row on the left and a column on the right, as in NumPy.
template <class Product>
value multiply_as_numpy(const node& n, const value& a, const value& b, const Product& product) {
  if (a.rank() == 0 || b.rank() == 0) throw n.refusal("A", "is a number");
  const bool row = a.rank() == 1;
  const bool column = b.rank() == 1;
  const auto y = product(row ? a.unsqueeze(0) : a, column ? b.unsqueeze(1) : b);
  extents shape;
  for (std::size_t i = 0; i < y.rank(); ++i) {
    const bool left_out = (row && i + 2 == y.rank()) || (column && i + 1 == y.rank());
    if (!left_out) shape.push_back(y.extent(i));
  }
  return y.reshape(shape);
}

results import_matmul(const node& n) {
  return multiply_as_numpy(n, n.input(0), n.input(1), [&](const value& a, const value& b) {
    return multiply_matrices(n, a, b);
  });
}
const value* zero_point(const node& n, std::size_t number) {
  return n.has_input(number) ? &n.input(number) : nullptr;
}
results import_matmul_integer(const node& n) {
  return multiply_as_numpy(n, n.input(0), n.input(1), [&](const value& a, const value& b) {
    return multiply_bytes(n, a, b, zero_point(n, 2), zero_point(n, 3));
  });
}
results import_quantized_matmul(const node& n) {
  const auto f32 = element_type::f32;
  const auto scale = [&](std::size_t number) {
    return n.cast_to(n.input(number), f32);
  };
  return multiply_as_numpy(n, n.input(0), n.input(3), [&](const value& a, const value& b) {
    const auto sums = n.cast_to(multiply_bytes(n, a, b, zero_point(n, 2), zero_point(n, 5)), f32);
    const auto factor = n.add(multiply(along_rows(scale(1)), along_columns(scale(4))));
    const auto y_scale = scale(6);
    const auto& y_zero = n.input(7);
    return n.add(
        quantize{.x = n.add(multiply(sums, factor)),
                 .scale = y_scale.size() == 1 ? y_scale.reshape({}) : along_rows(y_scale),
                 .zero_point = y_zero.size() == 1 ? y_zero.reshape({}) : along_rows(y_zero),
                 .type = y_zero.type()});
  });
}

/// Whether C is a bias of `gemm`: one number for each row or column, or for all.
bool is_bias(const value& c, const extents& shape) {
  if (c.rank() == 1) return c.extent(0) == shape[1] || c.extent(0) == 1;
  return c.rank() == 2 && ((c.extent(0) == 1 && (c.extent(1) == shape[1] || c.extent(1) == 1)) ||
                           (c.extent(0) == shape[0] && c.extent(1) == 1));
}
results import_gemm(const node& n) {
  const auto oriented = [&](std::size_t number, const char* name) {
    const auto& x = n.input(number);
    return n.attribute(name, std::int64_t{0}) != 0 ? x.transposed() : x;
  };
  const auto a = oriented(0, "transA");
  const auto b = oriented(1, "transB");
  const auto alpha = n.attribute("alpha", 1.0);
  const auto beta = n.attribute("beta", 1.0);
  gemm product{.a = a, .b = b, .alpha = alpha};
  if (!n.has_input(2) || beta == 0) return n.add(std::move(product));
  const auto c = n.input(2).rank() == 0 ? n.input(2).reshape({1}) : n.input(2);
  if (beta == 1 && a.rank() == 2 && b.rank() == 2 && is_bias(c, {a.extent(0), b.extent(1)})) {
    product.bias = c;
    return n.add(std::move(product));
  }
  const auto scaled = beta == 1 ? c : n.add(multiply(c, n.number(c.type(), beta)));
  return n.add(add(n.add(std::move(product)), scaled));
}
results import_einsum(const node& n) {
  return sum_products(n, n.attribute("equation", ""), n.all_inputs());
}

constexpr std::array blas_entries{
    operator_entry{"Einsum", import_einsum},
    operator_entry{"Gemm", import_gemm},
    operator_entry{"MatMul", import_matmul},
    operator_entry{"MatMulInteger", import_matmul_integer},
    operator_entry{"QLinearMatMul", import_quantized_matmul},
};

}  // namespace

std::span<const operator_entry> blas_operators() {
  return blas_entries;
}

}  // namespace sluice::models
