// SPDX-License-Identifier: Apache-2.0
#include "models/products.hpp"

#include <sluice/operations/binary.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>

namespace sluice::models {

namespace {

bool is_type_of_gemm(element_type type) {
  switch (type) {
    case element_type::f16:
    case element_type::bf16:
    case element_type::f32:
    case element_type::f64:
    case element_type::c64:
    case element_type::c128:
      return true;
    default:
      return false;
  }
}

/// Bytes as i8: u8 lose 128 by their highest bit.
value as_signed(const node& n, const value& b) {
  if (b.type() == element_type::i8) return b;
  const auto high_bit = n.number(element_type::u8, 128);
  return n.add(bitwise_xor(b, high_bit)).reinterpret(element_type::i8);
}
/// Sums along a dimension that remains with extent 1.
value sum_along(const node& n, const value& x, std::int64_t axis) {
  const auto sum = n.add(reduce{.x = n.cast_to(x, element_type::i32),
                                .kind = reduction::sum,
                                .axes = {axis},
                                .keep_dims = true});
  return n.cast_to(sum, element_type::i32);
}

}  // namespace

value along_rows(const value& parameter) {
  return parameter.rank() == 1 ? parameter.reshape({-1, 1}) : parameter;
}
value along_columns(const value& parameter) {
  return parameter;
}

value multiply_matrices(const node& n, const value& a, const value& b) {
  if (is_type_of_gemm(a.type())) return n.add(gemm{.a = a, .b = b});
  // Of integers: the products of rows and columns, [m, k, 1] · [k, n].
  const auto products =
      n.add(multiply(a.unsqueeze(a.rank()), b.rank() > 2 ? b.unsqueeze(b.rank() - 2) : b));
  const auto sums = n.add(reduce{.x = products, .kind = reduction::sum, .axes = {-2}});
  return n.cast_to(sums, a.type());
}

value multiply_bytes(const node& n, const value& a, const value& b, const value* a_zero,
                     const value* b_zero) {
  const auto i32 = element_type::i32;
  // Σ (a - p) (b - q) = Σ ab - p Σ b - q Σ a + k p q, where b is signed and q loses 128 with it.
  const auto signed_b = as_signed(n, b);
  auto y = n.add(gemm{.a = a, .b = signed_b});
  std::optional<value> p;
  std::optional<value> q;
  if (a_zero != nullptr) p = n.cast_to(along_rows(*a_zero), i32);
  if (b_zero != nullptr) q = n.cast_to(along_columns(*b_zero), i32);
  if (b.type() == element_type::u8) {
    const auto offset = n.number(i32, -128);
    q = q ? n.add(add(*q, offset)) : offset;
  }
  if (p) y = n.add(subtract(y, n.add(multiply(*p, sum_along(n, signed_b, -2)))));
  if (q) y = n.add(subtract(y, n.add(multiply(sum_along(n, a, -1), *q))));
  if (p && q) {
    const auto count = n.number(i32, static_cast<double>(a.extent(a.rank() - 1)));
    y = n.add(add(y, n.add(multiply(n.add(multiply(*p, *q)), count))));
  }
  return y;
}

}  // namespace sluice::models
