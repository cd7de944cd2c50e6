// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/recurrent_panels.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice::host {
namespace {

using operations::blas_matrix;
using operations::recurrent_layer_call;
using operations::storage;

const std::byte* matrix_of(const recurrent_layer_call& call, const void* matrices,
                           const blas_matrix& m, std::int64_t direction) noexcept {
  return static_cast<const std::byte*>(matrices) +
         direction * m.distance * operations::bytes_of(call.type);
}
std::size_t bytes_of_elements(std::int64_t count) noexcept {
  return static_cast<std::size_t>(count) * sizeof(float);
}

/// What panels depend on, beside the elements of the matrices.
std::string identity_of_panels(const recurrent_layer_call& call, const blas_matrix& matrix,
                               std::int64_t columns, std::int64_t rows_together) {
  std::string identity = "panels of rows";
  for (const auto number :
       {static_cast<std::int64_t>(call.type), static_cast<std::int64_t>(call.directions),
        call.rows(), columns, rows_together, static_cast<std::int64_t>(matrix.transposed),
        matrix.leading, matrix.distance}) {
    identity += ' ' + std::to_string(number);
  }
  return identity;
}

/// Whether OpenBLAS multiplies a matrix with a few vectors faster: by several threads.
bool prefers_vectors(const recurrent_layer_call& call, std::int64_t columns) noexcept {
  constexpr double elements_of_thread = 1 << 21;
  const double elements = static_cast<double>(call.rows()) * static_cast<double>(columns);
  return call.batch < row_group && elements > elements_of_thread;
}

}  // namespace

std::size_t input_panels::bytes() const noexcept {
  return bytes_of_elements(call.directions * of(0).size());
}

void input_panels::pack(const void* w) const {
  for (std::int64_t d = 0; d < call.directions; ++d) {
    pack_rows(call.type, matrix_of(call, w, call.w, d), call.w, 0, of(d));
  }
}

std::size_t state_panels::bytes() const noexcept {
  const row_panels first{nullptr, first_rows(call).count, call.hidden};
  const row_panels second{nullptr, second_rows(call).count, call.hidden};
  return bytes_of_elements(call.directions * (first.size() + second.size()));
}

void state_panels::pack(const void* r) const {
  for (std::int64_t d = 0; d < call.directions; ++d) {
    const auto* const matrix = matrix_of(call, r, call.r, d);
    pack_rows(call.type, matrix, call.r, 0, of(d, true));
    pack_rows(call.type, matrix, call.r, second_rows(call).first, of(d, false));
  }
}

prepacked_layout layout_of_w(const recurrent_layer_call& call) {
  if (call.type == storage::f64 || call.steps == 0 || call.input == 0) return {};
  if (!has_w_panels(call) && prefers_vectors(call, call.input)) return {};
  return {input_panels{call}.bytes(), identity_of_panels(call, call.w, call.input, call.rows())};
}
prepacked_layout layout_of_r(const recurrent_layer_call& call) {
  if (call.type == storage::f64 || call.steps == 0) return {};
  if (!has_r_panels(call) && prefers_vectors(call, call.hidden)) return {};
  return {state_panels{call}.bytes(),
          identity_of_panels(call, call.r, call.hidden, first_rows(call).count)};
}
void prepack_w(const recurrent_layer_call& call, const void* w, void* copy) {
  input_panels{call, static_cast<float*>(copy)}.pack(w);
}
void prepack_r(const recurrent_layer_call& call, const void* r, void* copy) {
  state_panels{call, static_cast<float*>(copy)}.pack(r);
}

}  // namespace sluice::host
