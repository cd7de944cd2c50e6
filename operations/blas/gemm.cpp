// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_call.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"
#include "operations/cuda_build.hpp"
#include "operations/elementwise/layouts.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace sluice {
namespace {

using operations::matrix_rank;

/// Extent of a matrix along its rows (0) or columns (1).
std::int64_t extent(const tensor_spec& s, std::size_t dimension) {
  return s.shape[s.rank() - matrix_rank + dimension];
}
std::int64_t stride(const tensor_spec& s, std::size_t dimension) {
  return s.strides[s.rank() - matrix_rank + dimension];
}

/// Leading dimensions of `s` that count matrices.
std::size_t stack_rank(const tensor_spec& s) {
  return s.rank() - matrix_rank;
}

/// Extends `stack` by the leading dimensions of `s`, aligned at the last one. False if they do not
/// fit.
bool extend(extents& stack, const tensor_spec& s) {
  const auto spec_rank = stack_rank(s);
  const auto rank = std::max(stack.size(), spec_rank);
  extents wider;
  for (std::size_t i = 0; i < rank; ++i) {
    const auto from_end = rank - i;
    const auto a = from_end <= stack.size() ? stack[stack.size() - from_end] : 1;
    const auto b = from_end <= spec_rank ? s.shape[spec_rank - from_end] : 1;
    if (a != b && a != 1 && b != 1) return false;
    wider.push_back(a == 1 ? b : a);
  }
  stack = wider;
  return true;
}

/// The leading dimension of `lines` lines of elements, `step` elements apart.
std::int64_t leading(std::int64_t lines, std::int64_t step, std::int64_t length) {
  return std::max<std::int64_t>({1, length, lines > 1 ? step : 1});
}

/// How a matrix is stored, as a column-major BLAS sees it. Nothing for other strides.
std::optional<operations::blas_matrix> stored(const tensor_spec& s) {
  const auto by_rows = operations::stored_by_rows(s);
  return by_rows ? by_rows : operations::stored_by_columns(s);
}

/// The factor in the compute type of `type`.
std::complex<double> factor(const scalar& value, element_type type, const char* name) {
  switch (type) {
    case element_type::f16:
    case element_type::bf16:
    case element_type::f32:
      return static_cast<double>(value.to<float>(name));
    case element_type::f64:
      return value.to<double>(name);
    case element_type::c64:
      return static_cast<std::complex<double>>(value.to<std::complex<float>>(name));
    default:
      return value.to<std::complex<double>>(name);
  }
}

bool is_16_bit(element_type type) {
  return type == element_type::f16 || type == element_type::bf16;
}
bool is_integer(element_type type) {
  return type == element_type::i8 || type == element_type::u8;
}
bool is_supported(element_type type) {
  return type >= element_type::f16 || is_integer(type);
}

/// Refuses a factor of integer products that is larger than `largest` or less than `smallest`.
void require_factor(const char* name, const scalar& value, std::int64_t smallest,
                    std::int64_t largest) {
  const auto number = value.to<std::int64_t>(name);
  if (number >= smallest && number <= largest) return;
  throw invalid_argument(name, "is " + value.text() + ", but products of integers take " +
                                   (smallest == largest ? "" : std::to_string(smallest) + " or ") +
                                   std::to_string(largest));
}

/// The type of C: that of a parameter, of C or of A.
element_type type_of_c(const gemm& op, const inference& inference, element_type a) {
  operations::require_type("type", op.type);
  const auto* const c = inference.given(op.c);
  const auto usual = is_integer(a) ? element_type::i32 : a;
  const auto type = op.type ? *op.type : c != nullptr ? c->type : usual;
  if (type == usual || (is_16_bit(a) && type == element_type::f32)) return type;
  throw invalid_argument(op.type ? "type" : "c", "is " + std::string(to_string(type)) +
                                                     ", but a and b are of type " +
                                                     std::string(to_string(a)));
}

}  // namespace

std::optional<operations::blas_matrix> operations::stored_by_rows(const tensor_spec& s) {
  const auto rows = extent(s, 0);
  const auto columns = extent(s, 1);
  if ((columns > 1 && stride(s, 1) != 1) || (rows > 1 && stride(s, 0) < columns)) return {};
  return blas_matrix{.leading = leading(rows, stride(s, 0), columns), .transposed = true};
}
std::optional<operations::blas_matrix> operations::stored_by_columns(const tensor_spec& s) {
  const auto rows = extent(s, 0);
  const auto columns = extent(s, 1);
  if ((rows > 1 && stride(s, 0) != 1) || (columns > 1 && stride(s, 1) < rows)) return {};
  return blas_matrix{.leading = leading(columns, stride(s, 1), rows), .transposed = false};
}

void operations::require_matrix(const inference& inference, const operand& operand,
                                const tensor_spec& s) {
  if (s.rank() >= matrix_rank) return;
  throw inference.refusal(operand, "has the shape ", s.shape, ", which is no matrix");
}

operations::gemm_call operations::infer(const gemm& op, inference& inference) {
  require_enumerator("math", op.math, math_mode::tf32);
  const auto matrix = [&](const operand& operand) -> const tensor_spec& {
    const auto& s = inference.require(operand);
    if (!is_supported(s.type)) {
      throw inference.refusal(operand, "is of type ", s.type,
                              ", but gemm takes u8, i8, f16, bf16, f32, f64, c64 and c128",
                              is_float8(s.type) ? "; scaled_gemm takes e4m3 and e5m2" : "");
    }
    require_matrix(inference, operand, s);
    return s;
  };
  const auto& a = matrix(op.a);
  const auto& b = matrix(op.b);
  const auto type_of_b = is_integer(a.type) ? element_type::i8 : a.type;
  if (b.type != type_of_b) {
    throw inference.refusal(op.b, "is of type ", b.type, ", but needs ", type_of_b,
                            " for a of type ", a.type);
  }
  if (is_integer(a.type)) {
    require_factor("alpha", op.alpha, 1, 1);
    require_factor("beta", op.beta, 0, 1);
  }
  gemm_call call{.type = a.type,
                 .c_type = type_of_c(op, inference, a.type),
                 .may_use_tf32 = op.math == math_mode::tf32 && a.type == element_type::f32,
                 .alpha = factor(op.alpha, a.type, "alpha"),
                 .beta = factor(op.beta, a.type, "beta")};
  infer_products({op.a, op.b, op.c, op.new_c}, inference, call);
  return call;
}

void operations::infer_products(const product_members& op, inference& inference, gemm_call& call) {
  require_enumerator("new_c", op.new_c, layout::column_major);
  const auto& a = inference.require(op.a);
  const auto& b = inference.require(op.b);
  if (extent(b, 0) != extent(a, 1)) {
    throw inference.refusal(op.b, "has the shape ", b.shape, ", but needs ",
                            std::to_string(extent(a, 1)), " rows, as many as a of shape ", a.shape,
                            " has columns");
  }
  extents stack;
  (void)extend(stack, a);
  if (!extend(stack, b)) {
    throw inference.refusal(op.b, "has the shape ", b.shape,
                            ", whose leading dimensions do not fit a's ", a.shape);
  }
  call.m = extent(a, 0);
  call.n = extent(b, 1);
  call.k = extent(a, 1);
  if (call.beta != 0.0) inference.update(op.c);
  extents shape = stack;
  shape.push_back(call.m);
  shape.push_back(call.n);
  extents order;  // of a new C
  if (op.new_c == layout::column_major) {
    for (std::size_t i = 0; i < shape.size(); ++i) order.push_back(static_cast<std::int64_t>(i));
    std::swap(order[order.size() - 2], order[order.size() - 1]);
  }
  const auto& c = inference.result(op.c, call.c_type, shape, order);
  call.multiplies = call.alpha != 0.0 && c.size() != 0 && call.k != 0;
  if (!call.multiplies) {
    inference.ignore(op.a);
    inference.ignore(op.b);
  }
  if (c.size() == 0) {
    inference.ignore(op.c);
    call.count = 0;
    return;
  }
  for (const auto extent : stack) call.count *= extent;

  const auto blas = [&](const operand& operand, const tensor_spec& s) {
    auto stored_matrix = stored(s);
    auto distance = operations::distance_of(s, matrix_rank, stack);
    if (!stored_matrix || !distance) {
      inference.pack(operand);
      distance = operations::distance_of(s, matrix_rank, stack);
      if (!distance) {
        // The copy of a stack that is repeated along some dimensions holds all repetitions.
        auto full_shape = stack;
        full_shape.push_back(extent(s, 0));
        full_shape.push_back(extent(s, 1));
        inference.pack(operand, full_shape);
        distance = operations::distance_of(s, matrix_rank, stack);
      }
      stored_matrix = stored(s);
    }
    stored_matrix->distance = *distance;
    return *stored_matrix;
  };
  call.c = blas(op.c, c);
  if (call.multiplies) {
    call.first = blas(op.a, a);
    call.second = blas(op.b, b);
  }
  // A row-major C is computed as the column-major Cᵀ = Bᵀ · Aᵀ.
  if (call.c.transposed) {
    call.swapped = true;
    std::swap(call.m, call.n);
    std::swap(call.first, call.second);
    call.first.transposed = !call.first.transposed;
    call.second.transposed = !call.second.transposed;
    call.c.transposed = false;
  }
}

std::size_t operations::most_in_batch(const gemm_call& call) noexcept {
  // A product of 512 × 512 matrices of type f32 takes an H200 about 10 µs, most of them without use
  // of all multiprocessors, and so does the transfer of 8 MiB to and from its memory. A batch takes
  // at most about 200 µs, so that nobody waits long for it.
  constexpr double most_work = 2.0 * 512 * 512 * 512;
  constexpr double most_bytes = 8 << 20U;
  constexpr double largest_products = 32;
  constexpr double limit = 128;
  if (!call.multiplies || call.count != 1 || call.is_integer()) return 0;
  const bool is_complex = call.type == element_type::c64 || call.type == element_type::c128;
  const auto m = static_cast<double>(call.m);
  const auto n = static_cast<double>(call.n);
  const auto k = static_cast<double>(call.k);
  const double elements = m * k + k * n + (call.beta == 0.0 ? 1 : 2) * m * n;
  const double load = std::max((is_complex ? 8 : 2) * m * n * k / most_work,
                               elements * static_cast<double>(size_of(call.type)) / most_bytes);
  return load > 1 ? 0 : static_cast<std::size_t>(std::min(limit, largest_products / load));
}

operations::scale_call operations::scaling_of(const gemm_call& call) {
  const extents shape{call.count, call.n, call.m};
  const extents strides{call.c.distance, call.c.leading, 1};
  scale_call scaling;
  scaling.layout = make_layout<2>(shape, {strides, strides}, {call.c_type, call.c_type});
  scaling.factor[0] = call.beta.real();
  scaling.factor[1] = call.beta.imag();
  return scaling;
}

const operation_descriptor& descriptor_of(operation_type<gemm>) {
  static const typed_operation_descriptor<gemm, operations::gemm_call> descriptor(
      {.name = "gemm",
       .infer = operations::infer,
       .host = {.library = "OpenBLAS", .version = host::blas_version, .check = host::check_gemm},
       .compute = host::compute_gemm,
       .cuda = {.library = "cuBLAS",
                .version = operations::with_cuda<cuda::blas_version>(),
                .prepare = operations::with_cuda<cuda::prepare_blas>()},
       .enqueue = operations::with_cuda<cuda::enqueue_gemm>(),
       .can_be_captured = true,
       .batches = {.most = operations::most_in_batch,
                   .same = [](const operations::gemm_call& a,
                              const operations::gemm_call& b) { return a == b; },
                   // cuBLAS reads 16 bytes at a time where the sizes allow it, and does not look at
                   // the addresses in a table.
                   .alignment = 16,
                   .begin = operations::with_cuda<cuda::begin_gemm_batch>(),
                   .enqueue = operations::with_cuda<cuda::enqueue_gemm_batch>()}});
  return descriptor;
}

namespace {

/// A matrix of `request` as a tensor of shape [rows, columns]. It takes the block out of `ref`.
template <class T>
tensor matrix(gpu_ref<T>& ref, const blas_gemm<T>& request, transpose t, std::int64_t rows,
              std::int64_t columns, std::int64_t leading, const char* name) {
  const bool by_rows = (request.layout == layout::row_major) == (t == transpose::no);
  const auto lines = by_rows ? rows : columns;
  const auto length = by_rows ? columns : rows;
  const auto smallest = std::max<std::int64_t>(1, length);
  if (leading == 0) leading = smallest;
  if (leading < smallest) {
    throw invalid_argument(std::string("ld") + name,
                           "is " + std::to_string(leading) + ", but must be at least " +
                               std::to_string(smallest) + ": the matrix has " +
                               std::to_string(lines) + " lines of " + std::to_string(length) +
                               " elements");
  }
  if (!ref) {
    if (name[0] == 'c' && leading != smallest) {
      throw invalid_argument("ldc", "is " + std::to_string(leading) + ", but a new c has no gaps");
    }
    return {};
  }
  std::int64_t elements = 0;
  const bool empty = lines == 0 || length == 0;
  if (!empty && (__builtin_mul_overflow(lines - 1, leading, &elements) ||
                 __builtin_add_overflow(elements, length, &elements))) {
    throw invalid_argument(name, "the size of the matrix overflows");
  }
  if (static_cast<std::size_t>(elements) > ref.size()) {
    throw invalid_argument(name, "has " + std::to_string(ref.size()) +
                                     " elements, but the operation needs " +
                                     std::to_string(elements));
  }
  const extents strides = by_rows ? extents{leading, 1} : extents{1, leading};
  const auto offset = ref.offset();
  return {std::move(ref).block(), element_type_v<T>, {rows, columns}, strides, offset};
}

template <class T>
gemm spelled(blas_gemm<T>& r) {
  const auto require = [](std::int64_t value, const char* name) {
    if (value == blas_gemm<T>::not_given) throw invalid_argument(name, "is not given");
    if (value < 0) {
      throw invalid_argument(name, "is " + std::to_string(value) + ", but must not be negative");
    }
  };
  operations::require_enumerator("layout", r.layout, layout::column_major);
  operations::require_enumerator("transpose_a", r.transpose_a, transpose::yes);
  operations::require_enumerator("transpose_b", r.transpose_b, transpose::yes);
  require(r.m, "m");
  require(r.n, "n");
  require(r.k, "k");
  return {.a = matrix(r.a, r, r.transpose_a, r.m, r.k, r.lda, "a"),
          .b = matrix(r.b, r, r.transpose_b, r.k, r.n, r.ldb, "b"),
          .c = matrix(r.c, r, transpose::no, r.m, r.n, r.ldc, "c"),
          .alpha = static_cast<double>(r.alpha),
          .beta = static_cast<double>(r.beta),
          .new_c = r.layout};
}

}  // namespace

gemm to_operation(sgemm request) {
  return spelled(request);
}
gemm to_operation(dgemm request) {
  return spelled(request);
}

}  // namespace sluice
