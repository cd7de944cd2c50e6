// SPDX-License-Identifier: Apache-2.0
#include "tools/io/displayed.hpp"
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

namespace {

struct gemm_options {
  common_options common;
  std::string a;
  std::string b;
  std::optional<std::string> c;
  std::string output;
  double alpha = 1;
  std::optional<double> beta;
  bool transpose_a = false;
  bool transpose_b = false;
};

/// The operands, and the sizes of C = alpha · op(A) · op(B) + beta · C0: op(A) is m × k, op(B) is
/// k × n.
struct gemm_inputs {
  io::array a;
  io::array b;
  std::optional<io::array> c;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

void require_matrix(const std::string& path, const io::array& array) {
  require_dimensions(path, array, 2, "a matrix");
}

void require_same_type(const std::string& path, const io::array& array, const std::string& first,
                       const io::array& a) {
  if (array.type != a.type)
    refuse_file(path, fmt::format("its elements are {}, but those of {} are {}",
                                  to_string(array.type), io::displayed(first), to_string(a.type)));
}

gemm_inputs read_inputs(const gemm_options& options) {
  constexpr std::array types{element_type::f32, element_type::f64};
  gemm_inputs in;
  in.a = read_array("A", options.a, types);
  require_matrix(options.a, in.a);
  in.b = read_array("B", options.b, types);
  require_matrix(options.b, in.b);
  require_same_type(options.b, in.b, options.a, in.a);

  in.m = in.a.shape[options.transpose_a ? 1 : 0];
  in.k = in.a.shape[options.transpose_a ? 0 : 1];
  in.n = in.b.shape[options.transpose_b ? 0 : 1];
  const std::int64_t b_rows = in.b.shape[options.transpose_b ? 1 : 0];
  if (b_rows != in.k) {
    const auto name = [](std::int64_t rows, std::int64_t columns, bool transposed) {
      return fmt::format("{}{}x{}", transposed ? "transposed " : "", rows, columns);
    };
    refuse_file(
        options.b,
        fmt::format("is {}, but needs {} rows: {} is {}", name(b_rows, in.n, options.transpose_b),
                    in.k, io::displayed(options.a), name(in.m, in.k, options.transpose_a)));
  }

  if (options.c) {
    in.c = read_array("--c", *options.c, types);
    require_matrix(*options.c, *in.c);
    require_same_type(*options.c, *in.c, options.a, in.a);
    if (in.c->shape[0] != in.m || in.c->shape[1] != in.n)
      refuse_file(*options.c, fmt::format("is {}, but the product is {}x{}",
                                          shape_text(in.c->shape), in.m, in.n));
  }
  return in;
}

/// Converts `value` to T. Throws if the result is not finite.
template <class T>
T scalar(std::string_view option, double value) {
  const T converted = static_cast<T>(value);
  if (!std::isfinite(converted))
    throw error(errc::invalid_argument, fmt::format("{}: {} is too large for {}", option, value,
                                                    to_string(element_type_v<T>)));
  return converted;
}

template <class T>
void compute(const gemm_options& options, gemm_inputs& in) {
  const std::array shape{in.m, in.n};
  const T alpha = scalar<T>("--alpha", options.alpha);
  const T beta = scalar<T>("--beta", options.c ? options.beta.value_or(1.0) : 0.0);
  const std::size_t result_bytes =
      require_countable(io::displayed(options.b), element_type_v<T>, shape);

  session current(options.common);
  const std::size_t operand_bytes = in.a.bytes.size() + in.b.bytes.size();
  require_memory(options.output, current.info(),
                 std::max({in.a.bytes.size(), in.b.bytes.size(), result_bytes}),
                 saturating_add(operand_bytes, result_bytes));

  blas_gemm<T> request{.transpose_a = options.transpose_a ? transpose::yes : transpose::no,
                       .transpose_b = options.transpose_b ? transpose::yes : transpose::no,
                       .m = in.m,
                       .n = in.n,
                       .k = in.k,
                       .alpha = alpha,
                       .a = upload_array<T>(current, in.a),
                       .b = upload_array<T>(current, in.b),
                       .beta = beta};
  if (beta != T{0}) request.c = upload_array<T>(current, *in.c);
  const auto product = current.ask<gpu_ref<T>>(current.device().blas(), std::move(request));
  const launch_summary launch = current.last_launch();
  write_array(options.output, shape, download_values(current, product));
  current.finish();
  print_summary(options.common, {{"-o", options.output}},
                fmt::format("gemm {}x{}x{} {} on {}{}: {} -> {}", in.m, in.n, in.k,
                            to_string(element_type_v<T>), current.device_name(),
                            library_text(launch), latency_text(launch), options.output));
}

void run(const gemm_options& options) {
  if (options.beta && !options.c)
    throw error(errc::invalid_argument, "--beta: needs --c, the matrix that beta multiplies");
  std::vector<named_file> inputs{{"A", options.a}, {"B", options.b}};
  if (options.c) inputs.push_back({"--c", *options.c});
  require_distinct_files(options.common, {{"-o", options.output}}, inputs);
  gemm_inputs in = read_inputs(options);
  with_real_type(in.a.type, [&](auto zero) { compute<decltype(zero)>(options, in); });
}

}  // namespace

void add_gemm_command(CLI::App& program) {
  const auto options = std::make_shared<gemm_options>();
  CLI::App& command =
      add_command(program, "gemm", "Multiply matrices: C = alpha A B + beta C0", options->common);
  add_input(command, "A", options->a, "Left matrix, f32 or f64")->required()->type_name("NPY");
  add_input(command, "B", options->b, "Right matrix, same type as A")->required()->type_name("NPY");
  add_output(command, "-o,--output", options->output, "Output file for C")
      ->required()
      ->type_name("NPY");
  add_input(command, "--c", options->c, "Input file for C0; without --beta, beta is 1")
      ->type_name("NPY");
  command
      .add_option_function<std::string>(
          "--alpha",
          [options](const std::string& text) { options->alpha = parse_finite("--alpha", text); },
          "Factor alpha [1]")
      ->type_name("X");
  command
      .add_option_function<std::string>(
          "--beta",
          [options](const std::string& text) { options->beta = parse_finite("--beta", text); },
          "Factor beta of C0; needs --c")
      ->type_name("X");
  command.add_flag("--transpose-a", options->transpose_a, "Transpose A");
  command.add_flag("--transpose-b", options->transpose_b, "Transpose B");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
