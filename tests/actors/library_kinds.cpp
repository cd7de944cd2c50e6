// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/library_kinds.hpp"

#include "tests/actors/gemm_request.hpp"
#include "tests/operations/blas_reference.hpp"
#include "tests/operations/dnn/conv2d_reference.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/operations/rng/philox_reference.hpp"
#include "tests/support/relative_error.hpp"

#include <cmath>
#include <limits>

namespace sluice::test {
namespace {

constexpr auto overflowing = std::numeric_limits<std::int64_t>::max() / 2;

std::vector<double> widened(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

/// Names the output of a request, filled with numbers, when that is asked for.
void give_output(session& s, const sample_options& options, std::size_t count,
                 gpu_ref<float>& output, sample& result) {
  if (!options.output_given) return;
  result.output_before = s.numbers<float>(count);
  result.output = s.put(result.output_before);
  output = result.output;
}

/// Collects variations of one good request.
template <class Request>
class variations {
 public:
  explicit variations(Request good) : good_(std::move(good)) {}
  template <class Change>
  void add(std::string description, errc code, std::string word, Change change) {
    Request bad = good_;
    change(bad);
    found_.push_back(
        {std::move(description), caf::make_message(std::move(bad)), code, std::move(word)});
  }
  /// A reference that is missing, too small, stale or foreign.
  template <class T>
  void add_operand(session& s, session& elsewhere, const std::string& name,
                   gpu_ref<T> Request::*member, bool may_be_missing, bool may_be_small = false) {
    const auto count = (good_.*member).size();
    if (!may_be_missing)
      add(name + " missing", errc::invalid_argument, name, [&](Request& r) { r.*member = {}; });
    if (!may_be_small) {
      add(name + " too small", errc::invalid_argument, name,
          [&](Request& r) { r.*member = s.put(s.numbers<T>(count - 1)); });
    }
    add(name + " stale", errc::stale_ref, name, [&](Request& r) { r.*member = s.stale<T>(count); });
    add(name + " elsewhere", errc::invalid_argument, name,
        [&](Request& r) { r.*member = elsewhere.put(elsewhere.numbers<T>(count)); });
  }
  /// An operand that is missing, too small, stale or foreign.
  template <class T, class Operand>
  void add_operand(session& s, session& elsewhere, const std::string& name,
                   Operand Request::*member, bool may_be_missing, bool may_be_small = false) {
    const auto shape = (good_.*member).value().shape();
    const auto count = (good_.*member).value().size();
    const auto replace = [&](Request& r, const gpu_ref<T>& replacement) {
      r.*member = tensor(replacement).reshape(shape);
    };
    if (!may_be_missing)
      add(name + " missing", errc::invalid_argument, name, [&](Request& r) { r.*member = {}; });
    if (!may_be_small) {
      add(name + " too small", errc::invalid_argument, name,
          [&](Request& r) { r.*member = s.put(s.numbers<T>(count - 1)); });
    }
    add(name + " stale", errc::stale_ref, name, [&](Request& r) { replace(r, s.stale<T>(count)); });
    add(name + " elsewhere", errc::invalid_argument, name,
        [&](Request& r) { replace(r, elsewhere.put(elsewhere.numbers<T>(count))); });
  }
  [[nodiscard]] std::vector<mistake> take() { return std::move(found_); }

 private:
  Request good_;
  std::vector<mistake> found_;
};

// blas

sample make_gemm(session& s, const sample_options& options) {
  auto shape = with_gaps(random_gemm_shape(s.generator(), 40), s.generator());
  // The gaps of a new C hold anything.
  if (!options.output_given) shape.ldc = without_gaps(shape).ldc;
  const auto p = random_gemm<float>(shape, 1.5F, options.output_given ? -0.5F : 0, s.generator());
  sample result;
  if (options.output_given) {
    result.output_before = p.c;
    result.output = s.put(p.c);
  }
  result.expected = gemm_reference(p);
  result.bound = error_bound<float>(static_cast<std::size_t>(shape.k));
  result.request = caf::make_message(gemm_request(p, s.put(p.a), s.put(p.b), result.output),
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes gemm_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(5 * 7);
  const sgemm good{.m = 5,
                   .n = 7,
                   .k = 3,
                   .a = s.put(s.numbers<float>(5 * 3)),
                   .b = s.put(s.numbers<float>(3 * 7)),
                   .c = s.put(contents)};
  variations<sgemm> v(good);
  const auto bad = errc::invalid_argument;
  v.add("m negative", bad, "m", [](auto& r) { r.m = -1; });
  v.add("n negative", bad, "n", [](auto& r) { r.n = -1; });
  v.add("k negative", bad, "k", [](auto& r) { r.k = -1; });
  v.add("m overflows", bad, "overflows", [](auto& r) { r.m = overflowing; });
  v.add("lda too small", bad, "lda", [](auto& r) { r.lda = 2; });
  v.add("ldb too small", bad, "ldb", [](auto& r) { r.ldb = 6; });
  v.add("ldc too small", bad, "ldc", [](auto& r) { r.ldc = 6; });
  v.add("lda negative", bad, "lda", [](auto& r) { r.lda = -3; });
  v.add("lda too large", bad, "a:", [](auto& r) { r.lda = 4; });
  v.add("beta without c", bad, "c:", [](auto& r) {
    r.beta = 1;
    r.c = {};
  });
  v.add("c is a", bad, "c:", [&](auto& r) {
    r.a = s.put(s.numbers<float>(100));
    r.c = r.a.subspan(14, 35);
  });
  v.add("c is b", bad, "c:", [&](auto& r) {
    r.c = s.put(s.numbers<float>(35));
    r.b = r.c.subspan(0, 21);
  });
  v.add_operand(s, elsewhere, "a", &sgemm::a, false);
  v.add_operand(s, elsewhere, "b", &sgemm::b, false);
  v.add_operand(s, elsewhere, "c", &sgemm::c, true);
  return {v.take(), good.c, contents};
}

// dnn

sample make_conv2d(session& s, const sample_options& options) {
  const auto p = random_conv2d(random_conv2d_description(s.generator()), s.generator());
  const auto& d = p.description;
  const auto put = [&](const std::vector<float>& values, const extents& shape) {
    return tensor(s.put(values)).reshape(shape);
  };
  sample result;
  result.expected = conv2d_reference(p);
  result.bound = error_bound<float>();
  conv2d r{
      .x = put(p.x, d.x), .w = put(p.w, d.w), .geometry = d.geometry, .activation = d.activation};
  if (d.has_bias) r.bias = s.put(p.bias);
  if (d.has_residual) r.residual = put(p.residual, output_shape(d));
  gpu_ref<float> output;
  give_output(s, options, result.expected.size(), output, result);
  if (output) r.y = tensor(output).reshape(output_shape(d));
  result.request = caf::make_message(std::move(r),
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes conv2d_mistakes(session& s, session& elsewhere) {
  const auto numbers = [&](const extents& shape) {
    return tensor(s.put(s.numbers<float>(element_count(shape)))).reshape(shape);
  };
  const auto contents = s.numbers<float>(2 * 6 * 4 * 3);
  const auto output = s.put(contents);
  const conv2d good{.x = numbers({2, 4, 6, 5}),
                    .w = numbers({6, 2, 3, 3}),
                    .bias = numbers({6}),
                    .y = tensor(output).reshape({2, 6, 4, 3}),
                    .geometry = {.groups = 2}};
  variations<conv2d> v(good);
  const auto bad = errc::invalid_argument;
  v.add("channels not in groups", bad, "groups", [&](auto& r) { r.x = numbers({2, 5, 6, 5}); });
  v.add("filters not in groups", bad, "groups", [&](auto& r) { r.w = numbers({7, 2, 3, 3}); });
  v.add("height too small", bad, "w: ", [&](auto& r) { r.x = numbers({2, 4, 2, 5}); });
  v.add("padding overflows", bad, "padding.h",
        [](auto& r) { r.geometry.padding.h = 2 * overflowing; });
  v.add("result overflows", bad, "y: ", [](auto& r) { r.geometry.padding.h = overflowing / 2; });
  v.add("filters of other channels", bad, "w: ", [&](auto& r) { r.w = numbers({6, 3, 3, 3}); });
  v.add("filters without taps", bad, "w: ", [](auto& r) { r.w = r.w.value().slice(2, 0, 0); });
  v.add("stride zero", bad, "stride.h", [](auto& r) { r.geometry.stride.h = 0; });
  v.add("padding negative", bad, "padding.w", [](auto& r) { r.geometry.padding.w = -1; });
  v.add("dilation zero", bad, "dilation.h", [](auto& r) { r.geometry.dilation.h = 0; });
  v.add("groups zero", bad, "groups", [](auto& r) { r.geometry.groups = 0; });
  v.add("y is x", bad, "y: ", [&](auto& r) {
    r.x = numbers({2, 6, 6, 5});
    r.w = numbers({6, 3, 1, 1});
    r.y = r.x;
  });
  v.add("y is w", bad, "y: ", [&](auto& r) {
    const auto memory = numbers({300});
    r.y = memory.slice(0, 0, 144).reshape({2, 6, 4, 3});
    r.w = memory.slice(0, 100, 208).reshape({6, 2, 3, 3});
  });
  v.add("y is bias", bad, "y: ", [&](auto& r) {
    const auto memory = numbers({300});
    r.y = memory.slice(0, 0, 144).reshape({2, 6, 4, 3});
    r.bias = memory.slice(0, 140, 146);
  });
  v.add_operand<float>(s, elsewhere, "x", &conv2d::x, false);
  v.add_operand<float>(s, elsewhere, "w", &conv2d::w, false);
  v.add_operand<float>(s, elsewhere, "bias", &conv2d::bias, true);
  v.add_operand<float>(s, elsewhere, "y", &conv2d::y, true);
  return {v.take(), output, contents};
}

// fft

sample make_c2r(session& s, const sample_options& options) {
  const auto n = s.number<std::size_t>(1, 67);
  const auto batch = s.number<std::size_t>(1, 5);
  const auto bins = s.numbers<std::complex<float>>(batch * (n / 2 + 1));
  const auto signed_n = static_cast<std::int64_t>(n);
  const auto rows = static_cast<std::int64_t>(batch);
  const double scale = 1.0 / static_cast<double>(n);
  irfft r{.x = tensor(s.put(bins)).reshape({rows, signed_n / 2 + 1}),
          .length = signed_n,
          .scale = scale};
  sample result;
  for (std::size_t b = 0; b < batch; ++b) {
    for (const double x : inverse_real_dft(bins.data() + b * (n / 2 + 1), n))
      result.expected.push_back(x * scale);
  }
  result.bound = error_bound<float>();
  gpu_ref<float> output;
  give_output(s, options, n * batch, output, result);
  if (output) r.y = tensor(output).reshape({rows, signed_n});
  result.request = caf::make_message(std::move(r),
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes c2r_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(3 * 10);
  const auto output = s.put(contents);
  const irfft good{.x = tensor(s.put(s.numbers<std::complex<float>>(3 * 6))).reshape({3, 6}),
                   .y = tensor(output).reshape({3, 10}),
                   .length = 10};
  variations<irfft> v(good);
  const auto bad = errc::invalid_argument;
  v.add("length negative", bad, "length", [](auto& r) { r.length = -10; });
  v.add("length does not fit", bad, "length", [](auto& r) { r.length = 12; });
  v.add("rows of the output overlap", bad, "y: ", [&](auto& r) {
    r.y = tensor(output.block(), element_type::f32, {3, 10}, {9, 1});
  });
  v.add("rows of the output are one row", bad, "y: ", [&](auto& r) {
    r.y = tensor(output.block(), element_type::f32, {3, 10}, {0, 1});
  });
  v.add("scale is infinite", bad, "scale",
        [](auto& r) { r.scale = std::numeric_limits<double>::infinity(); });
  v.add("scale is no number", bad, "scale",
        [](auto& r) { r.scale = std::numeric_limits<double>::quiet_NaN(); });
  v.add("output of fewer rows", bad, "y: ", [&](auto& r) {
    // Another view of memory that must stay usable.
    r.y = tensor(output.subspan(1, 20)).reshape({2, 10});
  });
  v.add("output is input", bad, "y: ", [&](auto& r) {
    r.y = r.x.value().reshape({18}).reinterpret(element_type::f32).slice(0, 0, 30).reshape({3, 10});
  });
  v.add_operand<std::complex<float>>(s, elsewhere, "x", &irfft::x, false);
  v.add_operand<float>(s, elsewhere, "y", &irfft::y, true);
  return {v.take(), output, contents};
}

// rng

sample make_uniform(session& s, const sample_options& options) {
  const auto seed = s.generator()();
  const auto offset = s.number<std::uint64_t>(0, std::uint64_t{1} << 40U);
  const auto count = s.number<std::size_t>(1, 3000);
  sample result;
  for (std::size_t j = 0; j < count; ++j) {
    result.expected.push_back(uniform_reference<float>(seed, offset + j));
  }
  result.bound = 0;
  gpu_ref<float> output;
  give_output(s, options, count, output, result);
  result.request =
      caf::make_message(random_uniform{.shape = extents{static_cast<std::int64_t>(count)},
                                       .seed = seed,
                                       .offset = offset,
                                       .y = output},
                        request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes uniform_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(40);
  const auto output = s.put(contents);
  const random_uniform good{.shape = extents{40}, .seed = 1, .offset = 2, .y = output};
  variations<random_uniform> v(good);
  v.add("the range ends beyond the sequence", errc::invalid_argument, "offset",
        [](auto& r) { r.offset = std::numeric_limits<std::uint64_t>::max() - 38; });
  v.add("the size overflows", errc::invalid_argument, "shape", [](auto& r) {
    r.y = {};
    r.shape = extents{overflowing};
  });
  v.add_operand<float>(s, elsewhere, "y", &random_uniform::y, true);
  return {v.take(), output, contents};
}

// elementwise

sample make_power(session& s, const sample_options& options) {
  const auto in = s.numbers<std::complex<float>>(s.number<std::size_t>(1, 5000));
  sample result;
  for (const auto& z : in) result.expected.push_back(std::norm(std::complex<double>(z)));
  result.bound = error_bound<float>();
  gpu_ref<float> output;
  give_output(s, options, in.size(), output, result);
  result.request = caf::make_message(power_spectrum{.x = s.put(in), .y = output},
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes elementwise_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(24);
  const auto output = s.put(contents);
  const auto bad = errc::invalid_argument;
  std::vector<mistake> mistakes;
  const auto append = [&](std::vector<mistake> more) {
    mistakes.insert(mistakes.end(), more.begin(), more.end());
  };

  variations<power_spectrum> power({.x = s.put(s.numbers<std::complex<float>>(24)), .y = output});
  power.add_operand<std::complex<float>>(s, elsewhere, "x", &power_spectrum::x, false, true);
  power.add_operand<float>(s, elsewhere, "y", &power_spectrum::y, true);
  power.add("power: y is x", bad, "y: ", [](auto& r) {
    r.y = r.x.value().reinterpret(element_type::f32).slice(0, 24, 48);
  });
  append(power.take());

  // 5 frames of 4 samples, in the first 20 elements.
  variations<frame_signal> frame({.signal = s.put(s.numbers<float>(16)),
                                  .window = s.put(s.numbers<float>(4)),
                                  .n_fft = 4,
                                  .hop = 4,
                                  .y = tensor(output.subspan(0, 20)).reshape({5, 4})});
  frame.add("hop 0", bad, "hop", [](auto& r) { r.hop = 0; });
  frame.add("n_fft 0", bad, "n_fft", [](auto& r) {
    r.n_fft = 0;
    r.window = {};
  });
  frame.add("n_fft overflows", bad, "n_fft", [](auto& r) {
    r.n_fft = overflowing;
    r.window = {};
  });
  frame.add("frames: y is signal", bad, "y: ", [&](auto& r) {
    const auto memory = s.put(s.numbers<float>(30));
    r.y = tensor(memory.subspan(0, 20)).reshape({5, 4});
    r.signal = memory.subspan(4, 16);
  });
  frame.add("frames: y is window", bad, "y: ", [&](auto& r) {
    const auto memory = s.put(s.numbers<float>(30));
    r.y = tensor(memory.subspan(0, 20)).reshape({5, 4});
    r.window = memory.subspan(0, 4);
  });
  frame.add_operand<float>(s, elsewhere, "signal", &frame_signal::signal, false, true);
  frame.add_operand<float>(s, elsewhere, "window", &frame_signal::window, true, true);
  frame.add_operand<float>(s, elsewhere, "y", &frame_signal::y, true);
  append(frame.take());

  variations<reduce> largest({.x = s.put(s.numbers<float>(9)),
                              .kind = reduction::max,
                              .keep_dims = true,
                              .y = output.subspan(3, 1)});
  largest.add("maximum of nothing", bad, "x: ", [&](auto& r) { r.x = r.x.value().slice(0, 9, 9); });
  largest.add("maximum: y is x", bad, "y: ", [](auto& r) { r.y = r.x.value().slice(0, 4, 5); });
  largest.add_operand<float>(s, elsewhere, "x", &reduce::x, false, true);
  largest.add_operand<float>(s, elsewhere, "y", &reduce::y, true);
  append(largest.take());

  variations<power_to_decibel> decibel(
      {.x = s.put(s.numbers<float>(24)), .reference = s.put(s.numbers<float>(1)), .y = output});
  decibel.add("amin 0", bad, "options.amin", [](auto& r) { r.options.amin = 0; });
  decibel.add("amin no number", bad, "options.amin",
              [](auto& r) { r.options.amin = std::numeric_limits<double>::quiet_NaN(); });
  decibel.add("top_db negative", bad, "options.top_db", [](auto& r) { r.options.top_db = -1; });
  decibel.add("in place with a bad option", bad, "options.top_db", [&](auto& r) {
    r.x = r.y;
    r.options.top_db = -1;
  });
  decibel.add("decibel: y overlaps x", bad, "y: ", [&](auto& r) {
    const auto memory = s.put(s.numbers<float>(30));
    r.y = memory.subspan(0, 24);
    r.x = memory.subspan(1, 24);
  });
  decibel.add("decibel: y is reference", bad,
              "y: ", [](auto& r) { r.reference = r.y.value().slice(0, 0, 1); });
  decibel.add_operand<float>(s, elsewhere, "x", &power_to_decibel::x, false, true);
  decibel.add_operand<float>(s, elsewhere, "reference", &power_to_decibel::reference, false, true);
  decibel.add_operand<float>(s, elsewhere, "y", &power_to_decibel::y, true);
  append(decibel.take());

  variations<binary> added(
      sluice::add(s.put(s.numbers<float>(24)), s.put(s.numbers<float>(24)), output));
  added.add("add: other types", bad, "b: ", [&](auto& r) { r.b = s.put(s.numbers<double>(24)); });
  added.add_operand<float>(s, elsewhere, "a", &binary::a, false);
  added.add_operand<float>(s, elsewhere, "b", &binary::b, false);
  added.add_operand<float>(s, elsewhere, "y", &binary::y, true);
  append(added.take());
  return {std::move(mistakes), output, contents};
}

// device

sample make_copy(session& s, const sample_options& options) {
  const auto x = s.numbers<float>(s.number<std::size_t>(1, 5000));
  sample result;
  result.expected = widened(x);
  gpu_ref<float> output;
  give_output(s, options, x.size(), output, result);
  result.request = caf::make_message(strided_copy{.x = s.put(x), .y = output},
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

sample make_upload(session& s, const sample_options& options) {
  const auto values = s.numbers<float>(s.number<std::size_t>(1, 5000));
  sample result;
  result.expected = widened(values);
  gpu_ref<float> output;
  give_output(s, options, values.size(), output, result);
  result.request = caf::make_message(sluice::upload{.values = values, .y = output},
                                     request_options{.reply = options.reply, .bits = options.bits});
  return result;
}

mistakes copy_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(12);
  const auto output = s.put(contents);
  const auto bad = errc::invalid_argument;
  std::vector<mistake> mistakes;
  const auto append = [&](std::vector<mistake> more) {
    mistakes.insert(mistakes.end(), more.begin(), more.end());
  };

  variations<strided_copy> copied({.x = s.put(s.numbers<float>(12)), .y = output});
  copied.add_operand<float>(s, elsewhere, "x", &strided_copy::x, false, true);
  copied.add_operand<float>(s, elsewhere, "y", &strided_copy::y, true);
  copied.add("copy: x larger than y", bad,
             "y: ", [&](auto& r) { r.x = s.put(s.numbers<float>(13)); });
  copied.add("copy: x smaller than y", bad,
             "y: ", [&](auto& r) { r.x = s.put(s.numbers<float>(11)); });
  copied.add("copy: x of another shape", bad, "y: ", [](auto& r) {
    r.x = r.x.value().reshape({3, 4});
  });
  copied.add("copy: x of another type", bad,
             "y: ", [&](auto& r) { r.x = s.put(s.numbers<std::uint32_t>(12)); });
  copied.add("copy: y repeats elements", bad,
             "y: ", [&](auto& r) { r.y = tensor(output.subspan(0, 1)).broadcast_to({12}); });
  copied.add("copy: y overlaps x", bad, "y: ", [&](auto& r) {
    const auto memory = s.put(s.numbers<float>(20));
    r.x = memory.subspan(0, 12);
    r.y = memory.subspan(8, 12);
  });
  copied.add("copy: y is x", bad, "y: ", [](auto& r) { r.x = r.y; });
  append(copied.take());

  variations<fill> filled({.value = 3, .y = output});
  filled.add_operand<float>(s, elsewhere, "y", &fill::y, true, true);
  filled.add("fill: neither y nor shape", bad, "shape: ", [](auto& r) { r.y = {}; });
  filled.add("fill: y of another shape", bad, "y: ", [](auto& r) { r.shape = extents{3, 4}; });
  filled.add("fill: y of another type", bad, "y: ", [](auto& r) { r.type = element_type::i32; });
  filled.add("fill: the value is out of range", bad, "value: ", [](auto& r) { r.value = 1e300; });
  filled.add("fill: the value is complex", bad,
             "value: ", [](auto& r) { r.value = std::complex<double>(1, 2); });
  filled.add("fill: the size overflows", bad, "shape: ", [](auto& r) {
    r.y = {};
    r.shape = extents{overflowing};
  });
  append(filled.take());

  variations<allocate> allocated({.shape = extents{1}});
  allocated.add("allocate: the size overflows", bad,
                "shape: ", [](auto& r) { r.shape = extents{overflowing}; });
  allocated.add("allocate: an extent is negative", bad, "shape: ", [](auto& r) {
    r.shape = extents{3, -1};
  });
  append(allocated.take());
  return {std::move(mistakes), output, contents};
}

mistakes transfer_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(12);
  const auto output = s.put(contents);
  const auto bad = errc::invalid_argument;
  std::vector<mistake> mistakes;
  const auto append = [&](std::vector<mistake> more) {
    mistakes.insert(mistakes.end(), more.begin(), more.end());
  };

  variations<sluice::upload> uploaded({.values = s.numbers<float>(12), .y = output});
  uploaded.add_operand<float>(s, elsewhere, "y", &sluice::upload::y, true);
  uploaded.add("upload: values missing", bad, "values: ", [](auto& r) { r.values = {}; });
  uploaded.add("upload: fewer values than y has", bad,
               "y: ", [&](auto& r) { r.values = s.numbers<float>(11); });
  uploaded.add("upload: values of another shape", bad, "y: ", [&](auto& r) {
    r.values = host_tensor(s.numbers<float>(12), {3, 4});
  });
  uploaded.add("upload: values of another type", bad,
               "y: ", [&](auto& r) { r.values = s.numbers<std::uint32_t>(12); });
  append(uploaded.take());

  variations<sluice::download> downloaded({.x = output});
  downloaded.add_operand<float>(s, elsewhere, "x", &sluice::download::x, false, true);
  downloaded.add("download: target is larger than x", bad, "target: ", [](auto& r) {
    r.target = std::make_shared<host_tensor>(element_type::f32, extents{13});
  });
  downloaded.add("download: target is of another shape", bad, "target: ", [](auto& r) {
    r.target = std::make_shared<host_tensor>(element_type::f32, extents{3, 4});
  });
  downloaded.add("download: target is of another type", bad, "target: ", [](auto& r) {
    r.target = std::make_shared<host_tensor>(element_type::i32, extents{12});
  });
  append(downloaded.take());
  return {std::move(mistakes), output, contents};
}

template <class Spawn>
auto starter(Spawn spawn) {
  return [spawn](session& s, std::shared_ptr<kernel_trace> trace) {
    return untyped(spawn(s.system(), s.service(), std::move(trace)));
  };
}

/// A dnn actor that computes convolutions.
caf::actor start_dnn(session& s, std::shared_ptr<kernel_trace> trace) {
  if (!has_convolutions(s.device().id().kind)) {
    throw error(errc::unsupported, "this build has no dnn library for the device");
  }
  return untyped(spawn_dnn(s.system(), s.service(), std::move(trace)));
}

}  // namespace

const std::vector<library_kind>& library_kinds() {
  static const std::vector<library_kind> kinds{
      {"blas", "gemm", starter(spawn_blas), make_gemm, gemm_mistakes},
      {"dnn", "conv2d", start_dnn, make_conv2d, conv2d_mistakes, true},
      {"fft", "irfft", starter(spawn_fft), make_c2r, c2r_mistakes, true},
      {"rng", "random_uniform", starter(spawn_rng), make_uniform, uniform_mistakes, true},
      {"elementwise", "power_spectrum", starter(spawn_elementwise), make_power,
       elementwise_mistakes, true},
      {"device", "strided_copy", starter(spawn_device), make_copy, copy_mistakes, true},
      {"device_upload", "upload", starter(spawn_device), make_upload, transfer_mistakes, true}};
  return kinds;
}

}  // namespace sluice::test
