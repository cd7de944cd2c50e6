#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/fft_rows.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
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

/// What is to be done with the input's rows: `kind` with transforms of length n, as `numpy.fft`
/// calls fft, ifft, rfft or irfft.
struct fft_task {
  fft_kind kind = fft_kind::c2c_forward;
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
  if (x.shape.empty()) refuse_file(options.x, "has no dimension, and so no axis to transform");
  if (x.shape.back() == 0) refuse_file(options.x, "its last axis is empty");
  if (options.inverse && !complex)
    refuse_file(options.x, fmt::format("its elements are {}, but --inverse takes complex ones",
                                       to_string(x.type)));
  fft_task task;
  if (!complex) {
    task.kind = fft_kind::r2c;
  } else if (options.inverse) {
    task.kind = options.length ? fft_kind::c2r : fft_kind::c2c_inverse;
  }
  task.length = static_cast<std::size_t>(options.length.value_or(x.shape.back()));
  task.result_shape = x.shape;
  task.result_shape.back() = static_cast<std::int64_t>(output_row(task.kind, task.length));
  for (std::size_t axis = 0; axis + 1 < x.shape.size(); ++axis)
    task.batch = saturating_multiply(task.batch, static_cast<std::size_t>(x.shape[axis]));
  return task;
}

/// What the request to the fft actor has for each kind of transform.
template <class Real>
gpu_ref<std::complex<Real>> transform(session& current, const fft_task& task,
                                      const fft_shape& shape, gpu_ref<std::complex<Real>> input) {
  const bool forward = task.kind == fft_kind::c2c_forward;
  return current.ask<gpu_ref<std::complex<Real>>>(
      current.device().fft(),
      fft_c2c<Real>{.direction = forward ? fft_direction::forward : fft_direction::inverse,
                    .shape = shape,
                    .input = std::move(input),
                    .scale = forward ? 1.0 : 1.0 / static_cast<double>(task.length)});
}
template <class Real>
gpu_ref<std::complex<Real>> transform(session& current, const fft_shape& shape,
                                      gpu_ref<Real> input) {
  return current.ask<gpu_ref<std::complex<Real>>>(
      current.device().fft(), fft_r2c<Real>{.shape = shape, .input = std::move(input)});
}
template <class Real>
gpu_ref<Real> transform_to_real(session& current, const fft_shape& shape,
                                gpu_ref<std::complex<Real>> input) {
  return current.ask<gpu_ref<Real>>(
      current.device().fft(), fft_c2r<Real>{.shape = shape,
                                            .input = std::move(input),
                                            .scale = 1.0 / static_cast<double>(shape.length)});
}

/// Uploads the rows of `x`, cut or padded, computes and writes the result.
template <class Real>
void compute(const fft_options& options, io::array& x, const fft_task& task) {
  using complex = std::complex<Real>;
  const bool from_real = task.kind == fft_kind::r2c;
  const bool to_real = task.kind == fft_kind::c2r;
  const std::size_t row = input_row(task.kind, task.length);
  const std::size_t in_bytes = saturating_multiply(saturating_multiply(task.batch, row),
                                                   from_real ? sizeof(Real) : sizeof(complex));
  const std::size_t out_bytes =
      saturating_multiply(saturating_multiply(task.batch, output_row(task.kind, task.length)),
                          to_real ? sizeof(Real) : sizeof(complex));

  session current(options.common);
  require_memory(options.length ? "--length" : options.x, current.info(),
                 std::max(in_bytes, out_bytes), saturating_add(in_bytes, out_bytes));

  const fft_shape shape{.length = task.length, .batch = task.batch};
  const auto given_row = static_cast<std::size_t>(x.shape.back());
  launch_summary launch;
  const auto finish = [&](const auto& result) {
    launch = current.last_launch();
    write_array(options.output, task.result_shape, download_values(current, result));
  };
  if (from_real) {
    auto rows = rows_of_length<Real>(x.values<Real>(), given_row, row);
    x.bytes = {};
    finish(transform(current, shape, upload_values(current, std::move(rows))));
  } else {
    auto rows = rows_of_length<complex>(x.values<complex>(), given_row, row);
    x.bytes = {};
    if (to_real) make_hermitian_ends(std::span(rows), task.length);
    auto input = upload_values(current, std::move(rows));
    if (to_real) {
      finish(transform_to_real<Real>(current, shape, std::move(input)));
    } else {
      finish(transform<Real>(current, task, shape, std::move(input)));
    }
  }
  current.finish();
  print_summary(
      options.common, {{"-o", options.output}},
      fmt::format("fft {} of length {}, batch {}, {} on {}{}: {} -> {}", to_string(task.kind),
                  task.length, task.batch, to_string(element_type_v<Real>), current.device_name(),
                  library_text(launch), latency_text(launch), options.output));
}

void run(const fft_options& options) {
  require_writable(options.common, {{"-o", options.output}});
  io::array x = read_array("X", options.x);
  const fft_task task = task_for(options, x);
  const bool wide = x.type == element_type::f64 || x.type == element_type::c128;
  with_real_type(wide ? element_type::f64 : element_type::f32,
                 [&](auto zero) { compute<decltype(zero)>(options, x, task); });
}

}  // namespace

void add_fft_command(CLI::App& program) {
  const auto options = std::make_shared<fft_options>();
  CLI::App& command = add_command(
      program, "fft", "Fourier transform over the last axis, as numpy.fft has it", options->common);
  command.add_option("X", options->x, "f32, f64, c64 or c128; real input gives the half spectrum")
      ->required()
      ->type_name("NPY");
  command.add_option("-o,--output", options->output, "Where the result goes")
      ->required()
      ->type_name("NPY");
  command.add_flag("--inverse", options->inverse,
                   "Transform back (ifft); with --length to N real numbers (irfft)");
  command
      .add_option_function<std::string>(
          "--length",
          [options](const std::string& text) {
            options->length = parse_integer("--length", text, 1);
          },
          "Length of the transforms: the input is cut or padded with zeros")
      ->type_name("N");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
