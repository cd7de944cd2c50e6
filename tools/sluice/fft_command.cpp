// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/fft_rows.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

struct fft_options {
  common_options common;
  std::string x;
  std::string output;
  bool inverse = false;
  std::optional<std::int64_t> length;
};

/// The kind of a transform, named as the functions of `numpy.fft`.
enum class fft_kind { fft, ifft, rfft, irfft };

std::string_view to_string(fft_kind kind) {
  switch (kind) {
    case fft_kind::fft:
      return "fft";
    case fft_kind::ifft:
      return "ifft";
    case fft_kind::rfft:
      return "rfft";
    case fft_kind::irfft:
      return "irfft";
  }
  return {};
}

/// The elements of one row of the input, and of the output, for a signal of `length` numbers.
///@{
std::size_t input_row(fft_kind kind, std::size_t length) {
  return kind == fft_kind::irfft ? length / 2 + 1 : length;
}
std::size_t output_row(fft_kind kind, std::size_t length) {
  return kind == fft_kind::rfft ? length / 2 + 1 : length;
}
///@}

/// The transforms of the input's rows.
struct fft_task {
  fft_kind kind = fft_kind::fft;
  std::size_t length = 0;
  std::size_t batch = 1;
  std::vector<std::int64_t> result_shape;
};

bool is_complex(element_type type) {
  return type == element_type::c64 || type == element_type::c128;
}

fft_task task_for(const fft_options& options, const io::array& x) {
  const bool complex = is_complex(x.type);
  if (!complex && x.type != element_type::f32 && x.type != element_type::f64)
    refuse_file(options.x, fmt::format("its elements are {}, but fft takes f32, f64, c64 or c128",
                                       to_string(x.type)));
  if (x.shape.empty()) refuse_file(options.x, "has no axis to transform");
  if (x.shape.back() == 0) refuse_file(options.x, "its last axis is empty");
  fft_task task;
  if (options.inverse) {
    task.kind = options.length ? fft_kind::irfft : fft_kind::ifft;
  } else if (!complex) {
    task.kind = fft_kind::rfft;
  }
  task.length = static_cast<std::size_t>(options.length.value_or(x.shape.back()));
  task.result_shape = x.shape;
  task.result_shape.back() = static_cast<std::int64_t>(output_row(task.kind, task.length));
  for (std::size_t axis = 0; axis + 1 < x.shape.size(); ++axis)
    task.batch = saturating_multiply(task.batch, static_cast<std::size_t>(x.shape[axis]));
  return task;
}

/// Divides the numbers by a power of two, 2^e, so that the sum of `length` of them is finite.
/// Returns e, which is 0 unless a number is that large.
template <class Real>
int scale_down(std::span<std::complex<Real>> numbers, std::size_t length) {
  Real peak = 0;
  for (const auto& z : numbers) {
    // Infinity and NaN stay.
    for (const Real part : {std::abs(z.real()), std::abs(z.imag())})
      if (part <= std::numeric_limits<Real>::max()) peak = std::max(peak, part);
  }
  // The parts of a product of a number with a root of unity are at most √2 times its parts.
  if (peak <= std::numeric_limits<Real>::max() / 4 / static_cast<Real>(length)) return 0;
  const int exponent = std::ilogb(static_cast<Real>(length)) + 3;
  for (auto& z : numbers) z = {std::ldexp(z.real(), -exponent), std::ldexp(z.imag(), -exponent)};
  return exponent;
}

/// The rows of `x` as complex numbers, cut or padded; see `rows_of_length`.
template <class Real>
std::vector<std::complex<Real>> complex_rows(const io::array& x, std::size_t row_length,
                                             std::size_t wanted) {
  if (is_complex(x.type))
    return rows_of_length<std::complex<Real>>(x.values<std::complex<Real>>(), row_length, wanted);
  const auto rows = rows_of_length<Real>(x.values<Real>(), row_length, wanted);
  return {rows.begin(), rows.end()};
}

/// Transforms rows of `row` elements.
template <class Result, class T>
gpu_ref<Result> transform(session& current, const fft_task& task, std::vector<T> values,
                          std::size_t row) {
  const auto x =
      tensor(upload_values(current, std::move(values)))
          .reshape({static_cast<std::int64_t>(task.batch), static_cast<std::int64_t>(row)});
  const auto length = static_cast<std::int64_t>(task.length);
  const auto inverse_scale = 1.0 / static_cast<double>(task.length);
  const auto ask = [&](auto operation) {
    return current.ask<tensor>(current.device().fft(), std::move(operation)).template as<Result>();
  };
  switch (task.kind) {
    case fft_kind::rfft:
      return ask(rfft{.x = x});
    case fft_kind::irfft:
      return ask(irfft{.x = x, .length = length, .scale = inverse_scale});
    case fft_kind::fft:
      return ask(fft{.x = x});
    case fft_kind::ifft:
      return ask(fft{.x = x, .direction = fft_direction::inverse, .scale = inverse_scale});
  }
  return {};
}

/// Multiplies numbers by 2^exponent.
///@{
template <class Real>
void scale_up(std::vector<Real>& numbers, int exponent) {
  for (Real& number : numbers) number = std::ldexp(number, exponent);
}
template <class Real>
void scale_up(std::vector<std::complex<Real>>& numbers, int exponent) {
  for (auto& z : numbers) z = {std::ldexp(z.real(), exponent), std::ldexp(z.imag(), exponent)};
}
///@}

/// The transforms of rows, which are to be multiplied by 2^exponent.
template <class Result>
struct transformed_rows {
  gpu_ref<Result> values;
  int exponent = 0;
};

/// Transforms the rows of `x`, cut or padded. Releases the memory of `x`.
template <class Real, class Result>
transformed_rows<Result> transform_rows(session& current, io::array& x, const fft_task& task) {
  using complex = std::complex<Real>;
  const auto row_length = static_cast<std::size_t>(x.shape.back());
  const std::size_t wanted = input_row(task.kind, task.length);
  if (task.kind == fft_kind::rfft) {
    auto rows = rows_of_length<Real>(x.values<Real>(), row_length, wanted);
    x.bytes = {};
    return {transform<Result>(current, task, std::move(rows), wanted)};
  }
  auto rows = complex_rows<Real>(x, row_length, wanted);
  // The device sums up before it divides by the length.
  const int exponent =
      task.kind == fft_kind::fft ? 0 : scale_down(std::span<complex>(rows), task.length);
  if (task.kind == fft_kind::irfft) make_hermitian_ends(std::span(rows), task.length);
  x.bytes = {};
  return {transform<Result>(current, task, std::move(rows), wanted), exponent};
}

/// Computes the result and writes it.
template <class Real, class Result>
void compute(const fft_options& options, io::array& x, const fft_task& task) {
  const std::string subject = options.length ? "--length" : io::displayed(options.x);
  const std::size_t out_bytes =
      require_countable(subject, element_type_v<Result>, task.result_shape);
  const std::size_t in_bytes = saturating_multiply(
      task.batch,
      saturating_multiply(input_row(task.kind, task.length),
                          task.kind == fft_kind::rfft ? sizeof(Real) : 2 * sizeof(Real)));

  session current(options.common);
  std::vector<Result> values;
  launch_summary launch;
  // Without rows there is nothing to transform, and no limit on the length.
  if (task.batch != 0) {
    // A plan holds a table of the roots of unity and a buffer for one row.
    const std::size_t plan_bytes = saturating_multiply(task.length, 4 * sizeof(Real));
    require_memory(subject, current.info(), std::max(in_bytes, out_bytes),
                   saturating_add(plan_bytes, saturating_add(in_bytes, out_bytes)));
    const auto result = transform_rows<Real, Result>(current, x, task);
    launch = current.last_launch();
    values = download_values(current, result.values);
    if (result.exponent != 0) scale_up(values, result.exponent);
  }
  write_array(options.output, task.result_shape, values);
  current.finish();
  print_summary(options.common, {{"-o", options.output}},
                fmt::format("{} of length {}, batch {}, {} on {}{}: {} -> {}", to_string(task.kind),
                            task.length, task.batch, to_string(x.type), current.device_name(),
                            library_text(launch), latency_text(launch), options.output));
}

void run(const fft_options& options) {
  require_distinct_files(options.common, {{"-o", options.output}}, {{"X", options.x}});
  constexpr std::array types{element_type::f32, element_type::f64, element_type::c64,
                             element_type::c128};
  io::array x = read_array("X", options.x, types);
  const fft_task task = task_for(options, x);
  const bool wide = x.type == element_type::f64 || x.type == element_type::c128;
  with_real_type(wide ? element_type::f64 : element_type::f32, [&](auto zero) {
    using real = decltype(zero);
    if (task.kind == fft_kind::irfft) {
      compute<real, real>(options, x, task);
    } else {
      compute<real, std::complex<real>>(options, x, task);
    }
  });
}

}  // namespace

void add_fft_command(CLI::App& program) {
  const auto options = std::make_shared<fft_options>();
  CLI::App& command =
      add_command(program, "fft", "Fourier transform of the last axis, as numpy.fft computes it",
                  options->common);
  add_input(
      command, "X", options->x,
      "Input: f32, f64, c64 or c128; a real input gives half a spectrum (rfft), or is taken as "
      "complex numbers (--inverse)")
      ->required()
      ->type_name("NPY");
  add_output(command, "-o,--output", options->output, "Output file")->required()->type_name("NPY");
  command.add_flag("--inverse", options->inverse,
                   "Inverse transform (ifft); with --length, to N real numbers (irfft)");
  command
      .add_option_function<std::string>(
          "--length",
          [options](const std::string& text) {
            options->length = parse_integer("--length", text, 1);
          },
          "Length of each transform; the input is cut or padded with zeros")
      ->type_name("N");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
