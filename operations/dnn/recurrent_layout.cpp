// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/recurrent_functions.hpp"
#include "operations/dnn/row_panels.hpp"

#include <algorithm>
#include <initializer_list>
#include <limits>

namespace sluice::operations {
namespace {

/// Parts of scratch memory, one behind the other.
class memory_parts {
 public:
  /// The offset of a part, whose size is the product of `factors`. If a size overflows, that of
  /// all parts is the largest number.
  std::int64_t add(std::initializer_list<std::int64_t> factors) noexcept {
    constexpr std::int64_t alignment = 256;
    const auto offset = bytes_;
    std::int64_t size = 1;
    bool overflows = false;
    for (const auto factor : factors) overflows |= __builtin_mul_overflow(size, factor, &size);
    overflows |= __builtin_add_overflow(size, alignment - 1, &size);
    size = size / alignment * alignment;
    if (overflows || __builtin_add_overflow(bytes_, size, &bytes_)) {
      bytes_ = std::numeric_limits<std::int64_t>::max();
    }
    return offset;
  }
  [[nodiscard]] std::int64_t bytes() const noexcept { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

/// The steps whose gates take at most `most_bytes`; at least one.
std::int64_t steps_within(const recurrent_layer_call& call, std::int64_t leading,
                          double most_bytes) noexcept {
  const double step_bytes = static_cast<double>(call.directions) * static_cast<double>(call.batch) *
                            static_cast<double>(leading) * static_cast<double>(call.sum_bytes());
  const double steps = std::max(1.0, most_bytes / step_bytes);
  return steps < static_cast<double>(call.steps) ? static_cast<std::int64_t>(steps) : call.steps;
}

/// Adds the parts that both devices have.
void add_parts(const recurrent_layer_call& call, std::int64_t state_bytes, recurrent_layout& layout,
               memory_parts& parts) noexcept {
  const std::int64_t directions = call.directions;
  const auto sum_bytes = call.sum_bytes();
  layout.gates = parts.add({directions, layout.steps, call.batch, layout.gate_leading, sum_bytes});
  layout.h = parts.add({directions, call.batch, call.hidden, state_bytes});
  if (call.cell == recurrent_cell::lstm) {
    layout.c = parts.add({directions, call.batch, call.hidden, sum_bytes});
  }
  if (call.multiplies_twice()) {
    layout.reset = parts.add({directions, call.batch, call.hidden, state_bytes});
  }
}

/// A product without a stack, whose result has no gaps.
gemm_call product_of(const recurrent_layer_call& call) noexcept {
  gemm_call product;
  product.type = static_cast<element_type>(call.type);
  product.c_type = call.type == storage::f64 ? element_type::f64 : element_type::f32;
  product.m = call.rows();
  return product;
}

}  // namespace

recurrent_layout host_layout(const recurrent_layer_call& call) noexcept {
  // What a core keeps in its second-level cache, beside the matrices.
  constexpr double chunk_bytes = 1 << 20U;
  const std::int64_t directions = call.directions;
  recurrent_layout layout;
  layout.gate_leading = host::row_panels::width(call.rows());
  layout.steps = steps_within(call, layout.gate_leading, chunk_bytes);
  memory_parts parts;
  add_parts(call, call.sum_bytes(), layout, parts);
  if (call.cell == recurrent_cell::gru) {
    // The columns of a second product begin anywhere.
    layout.sum_leading =
        layout.gate_leading + (call.multiplies_twice() ? host::product_columns : 0);
    layout.sums = parts.add({directions, call.batch, layout.sum_leading, call.sum_bytes()});
  }
  if (has_w_panels(call)) {
    layout.w_panels = parts.add({directions, layout.gate_leading, call.input, call.sum_bytes()});
  }
  if (has_r_panels(call)) {
    const auto columns = host::row_panels::width(first_rows(call).count) +
                         host::row_panels::width(second_rows(call).count);
    layout.r_panels = parts.add({directions, columns, call.hidden, call.sum_bytes()});
  }
  layout.bytes = parts.bytes();
  return layout;
}
recurrent_layout gpu_layout(const recurrent_layer_call& call) noexcept {
  // Enough rows to fill a GPU.
  constexpr double chunk_bytes = 32 << 20U;
  recurrent_layout layout;
  layout.gate_leading = call.rows();
  layout.steps = steps_within(call, layout.gate_leading, chunk_bytes);
  layout.sum_leading = call.rows();
  memory_parts parts;
  add_parts(call, bytes_of(call.type), layout, parts);
  layout.sums = parts.add({call.directions, call.batch, layout.sum_leading, call.sum_bytes()});
  layout.bytes = parts.bytes();
  return layout;
}

bool has_r_panels(const recurrent_layer_call& call) noexcept {
  constexpr std::int64_t enough_steps = 4;
  return call.type != storage::f64 && (call.type != storage::f32 || call.steps >= enough_steps);
}
bool has_w_panels(const recurrent_layer_call& call) noexcept {
  constexpr std::int64_t enough_rows = 256;
  if (!has_r_panels(call) || call.steps == 0 || call.input == 0) return false;
  return call.batch >= (enough_rows + call.steps - 1) / call.steps;
}
row_range first_rows(const recurrent_call& call) noexcept {
  return {0, (call.multiplies_twice() ? 2 : call.gate_count()) * call.hidden};
}
row_range second_rows(const recurrent_call& call) noexcept {
  return {2 * call.hidden, call.multiplies_twice() ? call.hidden : 0};
}

gemm_call input_product(const recurrent_layer_call& call, std::int64_t rows,
                        std::int64_t leading) noexcept {
  auto product = product_of(call);
  product.n = rows;
  product.k = call.input;
  product.multiplies = call.input != 0;
  product.first = call.w;
  product.second.leading = call.x_leading;
  product.c.leading = leading;
  return product;
}
gemm_call state_product(const recurrent_layer_call& call, const row_range& rows,
                        std::int64_t leading, std::int64_t distance) noexcept {
  auto product = product_of(call);
  product.m = rows.count;
  product.n = call.batch;
  product.k = call.hidden;
  product.count = call.directions;
  product.first = call.r;
  product.second.leading = call.hidden;
  product.second.distance = call.batch * call.hidden;
  product.c.leading = leading;
  product.c.distance = distance;
  return product;
}
std::int64_t row_offset(const recurrent_layer_call& call, std::int64_t row) noexcept {
  return call.r.transposed ? row * call.r.leading : row;
}

launch_facts recurrent_layer_call::facts() const noexcept {
  const auto steps_of_all = static_cast<double>(steps);
  const auto gates_of_all = static_cast<double>(directions) * steps_of_all *
                            static_cast<double>(batch) * static_cast<double>(rows());
  // A function of a gate takes the time of a few elements.
  constexpr double work_of_gate = 4;
  constexpr double work_of_step = 20 * work_of_parts;
  constexpr std::size_t commands_of_product = 2;
  const auto steps_of_chunk = gpu_layout(*this).steps;
  const std::int64_t chunks = steps == 0 ? 0 : (steps - 1) / steps_of_chunk + 1;
  const std::size_t products = multiplies_twice() ? 2 : 1;
  return {.sizes = {steps, batch, input, hidden},
          .commands = 2 + static_cast<std::size_t>(chunks * directions) * commands_of_product +
                      static_cast<std::size_t>(steps) * products * (commands_of_product + 1),
          .work = work_of_products(gates_of_all *
                                   (static_cast<double>(input) + static_cast<double>(hidden))) +
                  work_of_gate * gates_of_all +
                  work_of_step * static_cast<double>(directions) * steps_of_all};
}

}  // namespace sluice::operations
