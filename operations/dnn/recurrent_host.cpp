// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/dnn/recurrent_functions.hpp"
#include "operations/dnn/recurrent_panels.hpp"
#include "operations/dnn/recurrent_rows.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace sluice::host {
namespace {

using namespace operations;

/// The sequences [begin, end) of a direction.
struct sequence_range {
  std::int64_t direction;
  std::int64_t begin;
  std::int64_t end;
};

/// A layer whose sums are computed in `T`: float or double.
template <class T>
class recurrent_layer {
 public:
  recurrent_layer(const recurrent_layer_call& call, const recurrent_addresses& addresses,
                  const prepacked_matrices& packed, void* workspace)
      : call_(call),
        addresses_(addresses),
        packed_(packed),
        has_w_panels_(packed.w || has_w_panels(call)),
        has_r_panels_(packed.r || has_r_panels(call)),
        layout_(host_layout(call)),
        w_panels_{call},
        r_panels_{call} {
    auto* const memory = static_cast<std::byte*>(workspace);
    const auto part = [&](std::int64_t offset) {
      return reinterpret_cast<T*>(memory + offset);
    };
    gates_ = part(layout_.gates);
    sums_ = part(layout_.sums);
    h_ = part(layout_.h);
    c_ = part(layout_.c);
    reset_ = part(layout_.reset);
    // Nobody writes a prepacked copy.
    w_panels_.memory = packed.w ? static_cast<float*>(const_cast<void*>(addresses.w))
                                : reinterpret_cast<float*>(memory + layout_.w_panels);
    r_panels_.memory = packed.r ? static_cast<float*>(const_cast<void*>(addresses.r))
                                : reinterpret_cast<float*>(memory + layout_.r_panels);
    for (std::int64_t d = 0; d < call.directions; ++d) units_.emplace_back(call, addresses, d);
  }

  void run() {
    copy_states(true);
    if (call_.steps != 0) pack();
    for (std::int64_t first = 0; first < call_.steps; first += layout_.steps) {
      chunk_ = {first, std::min(layout_.steps, call_.steps - first)};
      for (std::int64_t d = 0; d < call_.directions; ++d) multiply_inputs(d);
      if (has_r_panels_) {
        run_ranges();
      } else {
        run_together();
      }
    }
    copy_states(false);
  }

 private:
  static constexpr double products_in_nanosecond = 30;

  /// The gates of a sequence in step `chunk_.first` + i.
  [[nodiscard]] T* gates_of(std::int64_t d, std::int64_t i, std::int64_t n) const noexcept {
    const auto slot = d * layout_.steps + chunk_.slot(call_, d, i);
    return gates_ + (slot * call_.batch + n) * layout_.gate_leading;
  }
  [[nodiscard]] T* sums_of(std::int64_t d, std::int64_t n) const noexcept {
    return sums_ + (d * call_.batch + n) * layout_.sum_leading;
  }
  [[nodiscard]] recurrent_row<T> row_of(std::int64_t d, std::int64_t i,
                                        std::int64_t n) const noexcept {
    const auto state = (d * call_.batch + n) * call_.hidden;
    return {gates_of(d, i, n), sums_of(d, n), h_ + state, c_ + state, reset_ + state};
  }
  [[nodiscard]] bool has_sums() const noexcept { return call_.cell == recurrent_cell::gru; }
  [[nodiscard]] const std::byte* matrix(const void* matrices, const blas_matrix& m,
                                        std::int64_t d) const noexcept {
    return static_cast<const std::byte*>(matrices) + d * m.distance * bytes_of(call_.type);
  }

  /// H and C = the initial ones, or the last ones = H and C.
  void copy_states(bool begins) const {
    const auto copy = [&](T* states, const void* initial, const std::int64_t* initial_strides,
                          void* last, const std::int64_t* last_strides) {
      for (std::int64_t d = 0; d < call_.directions; ++d) {
        for (std::int64_t n = 0; n < call_.batch; ++n) {
          T* const state = states + (d * call_.batch + n) * call_.hidden;
          const auto* const s = begins ? initial_strides : last_strides;
          const auto offset = d * s[0] + n * s[1];
          for (std::int64_t i = 0; i < call_.hidden; ++i) {
            if (!begins) {
              store<overflow::saturates>(call_.type, last, offset + i * s[2], state[i]);
            } else {
              state[i] =
                  initial == nullptr ? T(0) : load<T>(call_.type, initial, offset + i * s[2]);
            }
          }
        }
      }
    };
    copy(h_, addresses_.initial_h, call_.initial_h, addresses_.y_h, call_.y_h);
    if (call_.cell == recurrent_cell::lstm) {
      copy(c_, addresses_.initial_c, call_.initial_c, addresses_.y_c, call_.y_c);
    }
  }

  void pack() const {
    if (has_w_panels_ && !packed_.w) w_panels_.pack(addresses_.w);
    if (has_r_panels_ && !packed_.r) r_panels_.pack(addresses_.r);
  }

  /// The gates of the chunk: X · Wᵀ and the bias.
  void multiply_inputs(std::int64_t d) const {
    const auto rows = chunk_.count * call_.batch;
    const auto first_row = chunk_.first_time(call_, d) * call_.batch;
    const auto* const x = call_.input == 0 ? nullptr
                                           : static_cast<const std::byte*>(addresses_.x) +
                                                 first_row * call_.x_leading * bytes_of(call_.type);
    T* const gates = gates_ + d * layout_.steps * call_.batch * layout_.gate_leading;
    const auto& units = units_[static_cast<std::size_t>(d)];
    const auto begin_rows = [&](std::int64_t begin, std::int64_t end) {
      for (auto row = begin; row < end; ++row) {
        units.begin_gates(gates + row * layout_.gate_leading, layout_.gate_leading);
      }
    };
    if (!has_w_panels_) {
      begin_rows(0, rows);
      if (call_.input != 0) {
        multiply(input_product(call_, rows, layout_.gate_leading), matrix(addresses_.w, call_.w, d),
                 x, gates);
      }
      return;
    }
    if constexpr (std::is_same_v<T, float>) {
      // Rows of 16 bits are converted to 1 MiB of f32 at a time.
      constexpr std::int64_t most_numbers = 1 << 18;
      constexpr std::int64_t least_rows = 128;
      const bool is_converted = call_.type != storage::f32;
      const auto block =
          is_converted ? std::max(most_numbers / std::max<std::int64_t>(call_.input, 1), least_rows)
                       : rows;
      std::vector<float> numbers;
      begin_rows(0, rows);
      for (std::int64_t row = 0; row < rows; row += block) {
        const auto count = std::min(block, rows - row);
        const auto* const first = x + row * call_.x_leading * bytes_of(call_.type);
        multiply_input_panels(x_rows(first, count, numbers), count, w_panels_.of(d),
                              gates + row * layout_.gate_leading);
      }
    }
  }
  void multiply_input_panels(const small_matrix<const float>& x, std::int64_t rows,
                             const row_panels& panels, float* gates) const {
    // Rows of X that stay in the second-level cache while they are multiplied with all panels.
    constexpr std::int64_t block = 128;
    const auto panel_nanoseconds =
        static_cast<double>(std::min(block, rows) * panels.panel_size()) / products_in_nanosecond;
    const work_chunks chunks((rows + block - 1) / block * panels.count(), panel_nanoseconds);
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      for (auto i = chunks[chunk].begin; i < chunks[chunk].end;) {
        const auto row = i / panels.count() * block;
        const auto panel = i % panels.count();
        const auto count = std::min(chunks[chunk].end - i, panels.count() - panel);
        add_product(
            {x.first + row * x.row, x.row}, std::min(block, rows - row), panels.range(panel, count),
            {gates + row * layout_.gate_leading + panel * product_columns, layout_.gate_leading});
        i += count;
      }
    });
  }
  /// Rows of X as f32.
  [[nodiscard]] small_matrix<const float> x_rows(const std::byte* x, std::int64_t count,
                                                 std::vector<float>& numbers) const {
    if (call_.type == storage::f32) return {reinterpret_cast<const float*>(x), call_.x_leading};
    numbers.resize(static_cast<std::size_t>(count * call_.input));
    for (std::int64_t i = 0; i < count; ++i) {
      load_f32(call_.type, x + i * call_.x_leading * bytes_of(call_.type), call_.input,
               numbers.data() + i * call_.input);
    }
    return {numbers.data(), call_.input};
  }
  /// c += a · b.
  static void multiply(gemm_call product, const void* a, const void* b, T* c) {
    product.beta = 1;
    compute_gemm(product, product_launch(a, b, c).get());
  }

  /// Computes the chunk for ranges of sequences, each of which runs through all steps.
  void run_ranges() const {
    const auto groups = (call_.batch + row_group - 1) / row_group;
    const double nanoseconds = static_cast<double>(row_group * chunk_.count) *
                               static_cast<double>(call_.rows()) *
                               (static_cast<double>(call_.hidden) / products_in_nanosecond + 1);
    const work_chunks chunks(call_.directions * groups, nanoseconds);
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      for (std::int64_t d = begin / groups; d <= (end - 1) / groups; ++d) {
        const auto first = std::max(begin, d * groups) - d * groups;
        const auto last = std::min(end, (d + 1) * groups) - d * groups;
        run_range({d, first * row_group, std::min(last * row_group, call_.batch)});
      }
    });
  }
  void run_range(const sequence_range& range) const {
    auto units = units_[static_cast<std::size_t>(range.direction)];
    for (std::int64_t i = 0; i < chunk_.count; ++i) {
      const auto time = call_.time_of(range.direction, chunk_.first + i);
      if (is_active(range, time)) {
        begin_sums(units, range);
        multiply_panels(range, i, h_, true);
        if (call_.multiplies_twice()) {
          for (auto n = range.begin; n < range.end; ++n) {
            units.reset(row_of(range.direction, i, n));
            // The first product has added 0 · H to columns of the second one, which may be NaN.
            T* const sums = sums_of(range.direction, n);
            std::fill(sums + second_rows(call_).first, sums + layout_.sum_leading, T(0));
          }
          multiply_panels(range, i, reset_, false);
        }
      }
      finish_step(units, range, i, time);
    }
  }
  [[nodiscard]] bool is_active(const sequence_range& range, std::int64_t time) const noexcept {
    for (auto n = range.begin; n < range.end; ++n) {
      if (call_.has_element(addresses_.lengths, n, time)) return true;
    }
    return false;
  }
  void begin_sums(const recurrent_units<T>& units, const sequence_range& range) const {
    if (!has_sums()) return;
    for (auto n = range.begin; n < range.end; ++n) {
      units.begin_sums(sums_of(range.direction, n), layout_.sum_leading);
    }
  }
  void finish_step(recurrent_units<T>& units, const sequence_range& range, std::int64_t i,
                   std::int64_t time) const {
    for (auto n = range.begin; n < range.end; ++n) {
      if (call_.has_element(addresses_.lengths, n, time)) {
        units.step(row_of(range.direction, i, n), n, time);
      } else {
        units.skip(n, time);
      }
    }
  }
  /// Adds the products of rows of `states` with the first, or the second, rows of R.
  void multiply_panels(const sequence_range& range, std::int64_t i, const T* states,
                       bool is_first) const {
    if constexpr (std::is_same_v<T, float>) {
      const auto d = range.direction;
      float* const target =
          has_sums() ? sums_of(d, range.begin) + (is_first ? 0 : second_rows(call_).first)
                     : gates_of(d, i, range.begin);
      add_product({states + (d * call_.batch + range.begin) * call_.hidden, call_.hidden},
                  range.end - range.begin, r_panels_.of(d, is_first),
                  {target, has_sums() ? layout_.sum_leading : layout_.gate_leading});
    }
  }

  /// Computes the chunk for all sequences together, with a product for each step.
  void run_together() {
    const auto for_each_direction = [&](const auto& compute) {
      for (std::int64_t d = 0; d < call_.directions; ++d) {
        compute(units_[static_cast<std::size_t>(d)], sequence_range{d, 0, call_.batch});
      }
    };
    for (std::int64_t i = 0; i < chunk_.count; ++i) {
      for_each_direction([&](auto& units, const sequence_range& all) { begin_sums(units, all); });
      multiply_states(i, h_, first_rows(call_));
      if (call_.multiplies_twice()) {
        for_each_direction([&](auto& units, const sequence_range& all) {
          for (auto n = all.begin; n < all.end; ++n) units.reset(row_of(all.direction, i, n));
        });
        multiply_states(i, reset_, second_rows(call_));
      }
      for_each_direction([&](auto& units, const sequence_range& all) {
        finish_step(units, all, i, call_.time_of(all.direction, chunk_.first + i));
      });
    }
  }
  void multiply_states(std::int64_t i, const T* states, const row_range& rows) const {
    const auto* const r =
        matrix(addresses_.r, call_.r, 0) + row_offset(call_, rows.first) * bytes_of(call_.type);
    if (has_sums()) {
      const auto distance = call_.batch * layout_.sum_leading;
      return multiply(state_product(call_, rows, layout_.sum_leading, distance), r, states,
                      sums_ + rows.first);
    }
    T* const gates = gates_of(0, i, 0);
    const auto distance = call_.directions > 1 ? gates_of(1, i, 0) - gates : 0;
    multiply(state_product(call_, rows, layout_.gate_leading, distance), r, states, gates);
  }

  const recurrent_layer_call& call_;
  const recurrent_addresses& addresses_;
  prepacked_matrices packed_;
  bool has_w_panels_;
  bool has_r_panels_;
  recurrent_layout layout_;
  recurrent_chunk chunk_;
  T* gates_;
  T* sums_;
  T* h_;
  T* c_;
  T* reset_;
  input_panels w_panels_;
  state_panels r_panels_;
  std::vector<recurrent_units<T>> units_;  // of each direction
};

}  // namespace

// OpenBLAS counts in 32 bits in the usual builds.
void check_recurrent(const recurrent_layer_call& call) {
  const auto require = [](std::int64_t value, const char* name) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (value <= most) return;
    throw error(errc::unsupported, std::string(name) + std::to_string(value) +
                                       ", but OpenBLAS takes at most " + std::to_string(most));
  };
  if (call.batch == 0 || call.steps == 0) return;
  const auto layout = host_layout(call);
  require(call.batch, "x: the number of sequences is ");
  if (layout.steps > 1) require(layout.steps * call.batch, "x: the number of rows is ");
  require(call.input, "x: the last extent is ");
  require(call.x_leading, "x: a stride is ");
  require(layout.gate_leading, "r: the number of rows is ");
  require(call.w.leading, "w: a stride is ");
  require(call.r.leading, "r: a stride is ");
}

void compute_recurrent(const recurrent_layer_call& call, const recurrent_addresses& addresses,
                       const prepacked_matrices& packed, void* workspace) {
  if (call.type == storage::f64) {
    recurrent_layer<double>(call, addresses, packed, workspace).run();
  } else {
    recurrent_layer<float>(call, addresses, packed, workspace).run();
  }
}

}  // namespace sluice::host
