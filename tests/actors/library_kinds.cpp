// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/library_kinds.hpp"

#include "tests/actors/gemm_request.hpp"
#include "tests/actors/references/conv2d.hpp"
#include "tests/actors/references/dft.hpp"
#include "tests/actors/references/gemm.hpp"
#include "tests/actors/references/philox.hpp"
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
                 gpu_ref<float>& output, sample& made) {
  if (!options.output_given) return;
  made.output_before = s.numbers<float>(count);
  made.output = s.put(made.output_before);
  output = made.output;
}

/// Collects variations of one good request.
template <class Request>
class variations {
 public:
  explicit variations(Request good) : good_(std::move(good)) {}
  template <class Change>
  void add(std::string what, errc code, std::string word, Change change) {
    Request bad = good_;
    change(bad);
    found_.push_back({std::move(what), caf::make_message(std::move(bad)), code, std::move(word)});
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
  sample made;
  if (options.output_given) {
    made.output_before = p.c;
    made.output = s.put(p.c);
  }
  made.expected = gemm_reference(p);
  made.bound = error_bound<float>(static_cast<std::size_t>(shape.k));
  auto r = gemm_request(p, s.put(p.a), s.put(p.b), made.output);
  r.reply = options.reply;
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes gemm_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(5 * 7);
  const gemm<float> good{.m = 5,
                         .n = 7,
                         .k = 3,
                         .a = s.put(s.numbers<float>(5 * 3)),
                         .b = s.put(s.numbers<float>(3 * 7)),
                         .c = s.put(contents)};
  variations<gemm<float>> v(good);
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
  v.add_operand(s, elsewhere, "a", &gemm<float>::a, false);
  v.add_operand(s, elsewhere, "b", &gemm<float>::b, false);
  v.add_operand(s, elsewhere, "c", &gemm<float>::c, true);
  return {v.take(), good.c, contents};
}

// dnn

sample make_conv2d(session& s, const sample_options& options) {
  const auto p = random_conv2d(random_conv2d_description(s.generator()), s.generator());
  sample made;
  made.expected = conv2d_reference(p);
  made.bound = error_bound<float>();
  conv2d r{.input = p.description.input,
           .filter = p.description.filter,
           .geometry = p.description.geometry,
           .x = s.put(p.x),
           .w = s.put(p.w),
           .bias = p.description.has_bias ? s.put(p.bias) : gpu_ref<float>(),
           .activation = p.description.activation,
           .y = {},
           .reply = options.reply};
  give_output(s, options, made.expected.size(), r.y, made);
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes conv2d_mistakes(session& s, session& elsewhere) {
  conv2d good{.input = {2, 4, 6, 5},
              .filter = {6, 2, 3, 3},
              .geometry = {.groups = 2},
              .x = s.put(s.numbers<float>(2 * 4 * 6 * 5)),
              .w = s.put(s.numbers<float>(6 * 2 * 3 * 3)),
              .bias = s.put(s.numbers<float>(6))};
  const auto contents = s.numbers<float>(2 * 6 * 4 * 3);
  good.y = s.put(contents);
  variations<conv2d> v(good);
  const auto bad = errc::invalid_argument;
  v.add("input.n negative", bad, "input.n", [](auto& r) { r.input.n = -1; });
  v.add("input.c not in groups", bad, "groups", [](auto& r) { r.input.c = 5; });
  v.add("input.h too small", bad, "filter", [](auto& r) { r.input.h = 2; });
  v.add("input overflows", bad, "overflows", [](auto& r) { r.input.n = overflowing; });
  v.add("filter.c wrong", bad, "filter.c", [](auto& r) { r.filter.c = 3; });
  v.add("filter.k not in groups", bad, "groups", [](auto& r) { r.filter.k = 7; });
  v.add("filter.r zero", bad, "filter.r", [](auto& r) { r.filter.r = 0; });
  v.add("stride zero", bad, "stride.h", [](auto& r) { r.geometry.stride.h = 0; });
  v.add("padding negative", bad, "padding.w", [](auto& r) { r.geometry.padding.w = -1; });
  v.add("dilation zero", bad, "dilation.h", [](auto& r) { r.geometry.dilation.h = 0; });
  v.add("groups zero", bad, "groups", [](auto& r) { r.geometry.groups = 0; });
  v.add("y is x", bad, "y:", [&](auto& r) { r.y = r.x; });
  v.add("y is w", bad, "y:", [&](auto& r) {
    r.y = s.put(s.numbers<float>(200));
    r.w = r.y.subspan(50, 108);
  });
  v.add("y is bias", bad, "y:", [&](auto& r) {
    r.y = s.put(s.numbers<float>(200));
    r.bias = r.y.subspan(194, 6);
  });
  v.add_operand(s, elsewhere, "x", &conv2d::x, false);
  v.add_operand(s, elsewhere, "w", &conv2d::w, false);
  v.add_operand(s, elsewhere, "bias", &conv2d::bias, true);
  v.add_operand(s, elsewhere, "y", &conv2d::y, true);
  return {v.take(), good.y, contents};
}

// fft

sample make_c2r(session& s, const sample_options& options) {
  const auto n = s.number<std::size_t>(1, 67);
  const auto batch = s.number<std::size_t>(1, 5);
  const auto bins = s.numbers<std::complex<float>>(batch * (n / 2 + 1));
  fft_c2r<float> r{.shape = {.length = n, .batch = batch},
                   .input = s.put(bins),
                   .scale = 1.0 / static_cast<double>(n),
                   .reply = options.reply};
  sample made;
  for (std::size_t b = 0; b < batch; ++b) {
    for (const double x : inverse_real_dft(bins.data() + b * (n / 2 + 1), n))
      made.expected.push_back(x * r.scale);
  }
  made.bound = error_bound<float>();
  give_output(s, options, n * batch, r.output, made);
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes c2r_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(3 * 10);
  const fft_c2r<float> good{.shape = {.length = 10, .batch = 3},
                            .input = s.put(s.numbers<std::complex<float>>(3 * 6)),
                            .output = s.put(contents)};
  variations<fft_c2r<float>> v(good);
  const auto bad = errc::invalid_argument;
  v.add("length 0", bad, "length", [](auto& r) { r.shape.length = 0; });
  v.add("rows of the output overlap", bad, "output", [](auto& r) { r.shape.output_distance = 9; });
  v.add("rows of the input overlap", bad, "input", [](auto& r) { r.shape.input_distance = 5; });
  v.add("batch overflows", bad, "overflows",
        [](auto& r) { r.shape.batch = static_cast<std::size_t>(overflowing); });
  v.add("scale is infinite", bad, "scale",
        [](auto& r) { r.scale = std::numeric_limits<double>::infinity(); });
  v.add("scale is no number", bad, "scale",
        [](auto& r) { r.scale = std::numeric_limits<double>::quiet_NaN(); });
  v.add("output not aligned", bad, "aligned", [&](auto& r) {
    // Another view of memory that must stay usable.
    r.output = good.output.subspan(1, 29);
    r.shape.batch = 2;
  });
  v.add("output is input", bad, "output:", [&](auto& r) {
    r.output = r.input.template reinterpret<float>().subspan(0, 30);
  });
  v.add_operand(s, elsewhere, "input", &fft_c2r<float>::input, false);
  v.add_operand(s, elsewhere, "output", &fft_c2r<float>::output, true);
  return {v.take(), good.output, contents};
}

// rng

sample make_uniform(session& s, const sample_options& options) {
  random_uniform<float> r{.range = {.seed = s.generator()(),
                                    .offset = s.number<std::uint64_t>(0, std::uint64_t{1} << 40U),
                                    .count = s.number<std::size_t>(1, 3000)},
                          .reply = options.reply};
  sample made;
  for (std::size_t j = 0; j < r.range.count; ++j) {
    made.expected.push_back(uniform_reference<float>(r.range.seed, r.range.offset + j));
  }
  made.bound = 0;
  give_output(s, options, r.range.count, r.output, made);
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes uniform_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(40);
  const random_uniform<float> good{.range = {.seed = 1, .offset = 2, .count = 40},
                                   .output = s.put(contents)};
  variations<random_uniform<float>> v(good);
  v.add("the range ends beyond the sequence", errc::invalid_argument, "",
        [](auto& r) { r.range.offset = std::numeric_limits<std::uint64_t>::max() - 38; });
  v.add("count overflows", errc::invalid_argument, "", [](auto& r) {
    r.range.offset = 0;
    r.range.count = std::numeric_limits<std::size_t>::max() / 2;
  });
  v.add_operand(s, elsewhere, "output", &random_uniform<float>::output, true);
  return {v.take(), good.output, contents};
}

// elementwise

sample make_power(session& s, const sample_options& options) {
  const auto in = s.numbers<std::complex<float>>(s.number<std::size_t>(1, 5000));
  power_spectrum<float> r{.input = s.put(in), .reply = options.reply};
  sample made;
  for (const auto& z : in) made.expected.push_back(std::norm(std::complex<double>(z)));
  made.bound = error_bound<float>();
  give_output(s, options, in.size(), r.output, made);
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes elementwise_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(24);
  const auto output = s.put(contents);
  const auto bad = errc::invalid_argument;
  std::vector<mistake> all;
  const auto append = [&](std::vector<mistake> more) {
    all.insert(all.end(), more.begin(), more.end());
  };

  variations<power_spectrum<float>> power(
      {.input = s.put(s.numbers<std::complex<float>>(24)), .output = output});
  power.add_operand(s, elsewhere, "input", &power_spectrum<float>::input, false, true);
  power.add_operand(s, elsewhere, "output", &power_spectrum<float>::output, true);
  power.add("power: output is input", bad, "output:", [](auto& r) {
    r.output = r.input.template reinterpret<float>().subspan(24, 24);
  });
  append(power.take());

  // 5 frames of 4 samples, in the first 20 elements.
  variations<frame_signal<float>> frame({.layout = {.samples = 16, .n_fft = 4, .hop = 4},
                                         .signal = s.put(s.numbers<float>(16)),
                                         .window = s.put(s.numbers<float>(4)),
                                         .output = output.subspan(0, 20)});
  frame.add("hop 0", bad, "hop", [](auto& r) { r.layout.hop = 0; });
  frame.add("n_fft 0", bad, "n_fft", [](auto& r) { r.layout.n_fft = 0; });
  frame.add("samples overflow", bad, "", [](auto& r) {
    r.layout.samples = static_cast<std::size_t>(-1);
    r.layout.hop = 1;
  });
  frame.add("frames: output is signal", bad, "output:", [&](auto& r) {
    r.output = s.put(s.numbers<float>(30));
    r.signal = r.output.subspan(4, 16);
  });
  frame.add("frames: output is window", bad, "output:", [&](auto& r) {
    r.output = s.put(s.numbers<float>(30));
    r.window = r.output.subspan(0, 4);
  });
  frame.add_operand(s, elsewhere, "signal", &frame_signal<float>::signal, false);
  frame.add_operand(s, elsewhere, "window", &frame_signal<float>::window, true);
  frame.add_operand(s, elsewhere, "output", &frame_signal<float>::output, true);
  append(frame.take());

  variations<maximum<float>> largest(
      {.input = s.put(s.numbers<float>(9)), .output = output.subspan(3, 1)});
  largest.add("maximum of nothing", bad, "input",
              [&](auto& r) { r.input = r.input.subspan(9, 0); });
  largest.add("maximum: output is input", bad,
              "output:", [](auto& r) { r.output = r.input.subspan(4, 1); });
  largest.add_operand(s, elsewhere, "input", &maximum<float>::input, false, true);
  largest.add_operand(s, elsewhere, "output", &maximum<float>::output, true);
  append(largest.take());

  variations<power_to_decibel<float>> decibel({.input = s.put(s.numbers<float>(24)),
                                               .reference = s.put(s.numbers<float>(1)),
                                               .output = output});
  decibel.add("amin 0", bad, "amin", [](auto& r) { r.options.amin = 0; });
  decibel.add("amin no number", bad, "amin",
              [](auto& r) { r.options.amin = std::numeric_limits<double>::quiet_NaN(); });
  decibel.add("top_db negative", bad, "top_db", [](auto& r) { r.options.top_db = -1; });
  decibel.add("in place with a bad option", bad, "top_db", [&](auto& r) {
    r.input = r.output;
    r.options.top_db = -1;
  });
  decibel.add("decibel: output overlaps input", bad, "output:", [&](auto& r) {
    r.output = s.put(s.numbers<float>(30));
    r.input = r.output.subspan(1, 24);
  });
  decibel.add("decibel: output is reference", bad,
              "output:", [](auto& r) { r.reference = r.output.subspan(0, 1); });
  decibel.add_operand(s, elsewhere, "input", &power_to_decibel<float>::input, false, true);
  decibel.add_operand(s, elsewhere, "reference", &power_to_decibel<float>::reference, false);
  decibel.add_operand(s, elsewhere, "output", &power_to_decibel<float>::output, true);
  append(decibel.take());
  return {std::move(all), output, contents};
}

// device

sample make_copy(session& s, const sample_options& options) {
  const auto source = s.numbers<float>(s.number<std::size_t>(1, 5000));
  copy<float> r{.source = s.put(source), .reply = options.reply};
  sample made;
  made.expected = widened(source);
  give_output(s, options, source.size(), r.target, made);
  made.request = caf::make_message(std::move(r));
  return made;
}

mistakes transfer_mistakes(session& s, session& elsewhere) {
  const auto contents = s.numbers<float>(12);
  const auto target = s.put(contents);
  const auto bad = errc::invalid_argument;
  std::vector<mistake> all;
  const auto append = [&](std::vector<mistake> more) {
    all.insert(all.end(), more.begin(), more.end());
  };

  variations<copy<float>> copied({.source = s.put(s.numbers<float>(12)), .target = target});
  copied.add_operand(s, elsewhere, "source", &copy<float>::source, false, true);
  copied.add_operand(s, elsewhere, "target", &copy<float>::target, true);
  copied.add("copy: source larger than target", bad, "target",
             [&](auto& r) { r.source = s.put(s.numbers<float>(13)); });
  copied.add("copy: source smaller than target", bad, "target",
             [&](auto& r) { r.source = s.put(s.numbers<float>(11)); });
  copied.add("copy: target overlaps source", bad, "target", [&](auto& r) {
    r.source = s.put(s.numbers<float>(20));
    r.target = r.source.subspan(8, 12);
    r.source = r.source.subspan(0, 12);
  });
  append(copied.take());

  variations<sluice::upload<float>> uploaded({.values = s.numbers<float>(12), .target = target});
  uploaded.add_operand(s, elsewhere, "target", &sluice::upload<float>::target, true);
  uploaded.add("upload: fewer values than the target has", bad, "target",
               [](auto& r) { r.values.pop_back(); });
  append(uploaded.take());

  variations<fill<float>> filled({.target = target, .value = 3});
  filled.add_operand(s, elsewhere, "target", &fill<float>::target, false, true);
  append(filled.take());

  variations<allocate<float>> allocated({.count = 1});
  allocated.add("count overflows", bad, "",
                [](auto& r) { r.count = std::numeric_limits<std::size_t>::max() / 4; });
  append(allocated.take());
  return {std::move(all), target, contents};
}

template <class Spawn>
auto starter(Spawn spawn) {
  return [spawn](session& s, std::shared_ptr<kernel_trace> trace) {
    return untyped(spawn(s.system(), s.service(), std::move(trace)));
  };
}

}  // namespace

const std::vector<library_kind>& library_kinds() {
  static const std::vector<library_kind> all{
      {"blas", "gemm", starter(spawn_blas), make_gemm, gemm_mistakes},
      {"dnn", "conv2d", starter(spawn_dnn), make_conv2d, conv2d_mistakes},
      {"fft", "fft c2r", starter(spawn_fft), make_c2r, c2r_mistakes},
      {"rng", "random uniform", starter(spawn_rng), make_uniform, uniform_mistakes},
      {"elementwise", "power", starter(spawn_elementwise), make_power, elementwise_mistakes},
      {"device", "copy", starter(spawn_device), make_copy, transfer_mistakes}};
  return all;
}

}  // namespace sluice::test
