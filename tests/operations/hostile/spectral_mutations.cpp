// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/spectral.hpp>

namespace sluice::test {
namespace {

using enum element_type;

frame_signal valid_frames(bench& test_bench) {
  auto shape = test_bench.shape(static_cast<std::size_t>(test_bench.extent(0, 2)));
  const auto samples = test_bench.extent(8, 16), n_fft = test_bench.extent(2, 4),
             hop = test_bench.extent(1, 3);
  auto frames = shape;
  shape.push_back(samples);
  frames.push_back(1 + (samples + 2 * (n_fft / 2) - n_fft) / hop);
  frames.push_back(n_fft);
  const auto type = test_bench.one_of({f32, f64});
  return {.signal = test_bench.loose(type, shape),
          .window = test_bench.loose(type, {n_fft}),
          .n_fft = test_bench.coin() ? n_fft : 0,
          .hop = hop,
          .y = test_bench.loose(type, frames)};
}

operation_mutations frame_signal_list() {
  mutations_of<frame_signal> mutations(valid_frames);
  mutations.required("signal", &frame_signal::signal);
  mutations.memory("window", &frame_signal::window);
  mutations.output("y", &frame_signal::y, i32);
  mutations.aliasing("y", &frame_signal::y, "signal", &frame_signal::signal);
  mutations.aliasing("y", &frame_signal::y, "window", &frame_signal::window);
  for (const auto type : {boolean, u8, i32, f16, bf16, c64, c128}) {
    const std::string name(to_string(type));
    mutations.add("signal of " + name, bad, "signal", [type](frame_signal& f, bench& test_bench) {
      f.signal = test_bench.make(type, f.signal.value().shape());
    });
    mutations.add("window of " + name, bad, "window", [type](frame_signal& f, bench& test_bench) {
      f.window = test_bench.make(type, f.window.value().shape());
    });
  }
  mutations.add("signal is a number", bad, "signal", [](frame_signal& f, bench& test_bench) {
    f.signal = test_bench.make(f.signal.value().type(), {1}).select(0, 0);
  });
  mutations.add("signal with too many dimensions", bad, "signal",
                [](frame_signal& f, bench& test_bench) {
                  f.signal = test_bench.make(f.signal.value().type(), {1, 1, 1, 1, 1, 1, 1, 16});
                });
  mutations.add("a signal of 2^62 samples without elements", bad, "signal",
                [](frame_signal& f, bench& test_bench) {
                  f.signal = test_bench.empty(f.signal.value().type(), {0, std::int64_t{1} << 62U});
                  f.y = {};
                });
  mutations.add("window of one more sample", bad, "window", [](frame_signal& f, bench& test_bench) {
    const auto n = f.window.value().shape()[0];
    f.n_fft = n;
    f.window = test_bench.make(f.signal.value().type(), {n + 1});
  });
  mutations.add(
      "window with another dimension", bad, "window", [](frame_signal& f, bench& test_bench) {
        f.window = test_bench.make(f.signal.value().type(), {1, f.window.value().shape()[0]});
      });
  mutations.add("window is a number", bad, "window", [](frame_signal& f, bench& test_bench) {
    f.window = test_bench.make(f.signal.value().type(), {1}).select(0, 0);
  });
  mutations.value(&frame_signal::mode, "an unknown mode", "mode", static_cast<pad_mode>(4));
  mutations.add("neither a window nor n_fft", bad, "n_fft", [](frame_signal& f, bench&) {
    f.n_fft = 0;
    f.window = {};
  });
  for (const auto value : {std::int64_t{-1}, -most, least, std::int64_t{1} << 62U, most}) {
    mutations.add("n_fft is " + std::to_string(value), bad, "n_fft",
                  [value](frame_signal& f, bench&) {
                    f.n_fft = value;
                    f.window = {};
                    f.y = {};
                  });
  }
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, -most, least, most}) {
    mutations.value(&frame_signal::hop, "hop is " + std::to_string(value), "hop", value);
  }
  mutations.add("n_fft is less than the length of the window", bad, "window",
                [](frame_signal& f, bench&) { f.n_fft = f.window.value().shape()[0] - 1; });
  mutations.add("n_fft is 2^31, beside a short window", bad, "y",
                [](frame_signal& f, bench&) { f.n_fft = std::int64_t{1} << 31U; });
  mutations.add("another hop than that of y", bad, "y",
                [](frame_signal& f, bench&) { f.hop += 9; });
  return std::move(mutations).take();
}

operation_mutations power_list() {
  mutations_of<power_spectrum> mutations([](bench& test_bench) -> power_spectrum {
    const auto shape = any_shape(test_bench);
    const bool is_double = test_bench.coin();
    return {.x = test_bench.loose(is_double ? c128 : c64, shape),
            .y = test_bench.loose(is_double ? f64 : f32, shape)};
  });
  mutations.required("x", &power_spectrum::x);
  mutations.output("y", &power_spectrum::y, c64);
  mutations.aliasing("y", &power_spectrum::y, "x", &power_spectrum::x);
  for (const auto type : {boolean, u8, i32, u64, f16, bf16, f32, f64}) {
    mutations.add("x of " + std::string(to_string(type)), bad, "x",
                  [type](power_spectrum& p, bench& test_bench) {
                    p.x = test_bench.make(type, p.x.value().shape());
                  });
  }
  mutations.add("y of the other precision", bad, "y", [](power_spectrum& p, bench& test_bench) {
    p.y = test_bench.make(p.y.value().type() == f32 ? f64 : f32, p.x.value().shape());
  });
  return std::move(mutations).take();
}

operation_mutations decibel_list() {
  mutations_of<power_to_decibel> mutations([](bench& test_bench) -> power_to_decibel {
    const auto shape = any_shape(test_bench);
    const auto type = test_bench.one_of({f32, f64});
    return {.x = test_bench.loose(type, shape),
            .reference = test_bench.make(type, {test_bench.coin() ? 1 : shape[shape.size() - 1]}),
            .y = test_bench.loose(type, shape)};
  });
  mutations.required("x", &power_to_decibel::x);
  mutations.required("reference", &power_to_decibel::reference);
  mutations.output("y", &power_to_decibel::y, i32);
  mutations.aliasing("y", &power_to_decibel::y, "x", &power_to_decibel::x);
  for (const auto type : {boolean, u8, i32, f16, bf16, c64, c128}) {
    const std::string name(to_string(type));
    mutations.add("x of " + name, bad, "x", [type](power_to_decibel& p, bench& test_bench) {
      p.x = test_bench.make(type, p.x.value().shape());
    });
    mutations.add("reference of " + name, bad, "reference",
                  [type](power_to_decibel& p, bench& test_bench) {
                    p.reference = test_bench.make(type, p.reference.value().shape());
                  });
  }
  mutations.add(
      "reference that cannot be broadcast", bad, "reference",
      [](auto& p, bench& test_bench) { p.reference = test_bench.make(p.x.value().type(), {9}); });
  mutations.add("reference of more dimensions", bad, "reference", [](auto& p, bench& test_bench) {
    auto shape = p.x.value().shape();
    shape.push_back(1);
    p.reference = test_bench.make(p.x.value().type(), shape);
  });
  mutations.add("y begins within the reference", bad, "y", [](auto& p, bench& test_bench) {
    auto shape = p.x.value().shape();
    const auto rows = shape[0]++;
    const auto memory = test_bench.make(p.x.value().type(), shape);
    p.reference = memory.slice(0, 0, rows);
    p.y = memory.slice(0, 1, rows + 1);
  });
  for (const double amin : {0.0, -0.0, -1.0, 1e-320, nan, infinity, -infinity}) {
    mutations.add("amin is " + scalar(amin).text(), bad, "options.amin",
                  [amin](auto& p, bench&) { p.options.amin = amin; });
  }
  for (const double amin : {1e-300, 1e300}) {
    mutations.add("amin is out of f32", bad, "options.amin", [amin](auto& p, bench& test_bench) {
      const auto shape = p.x.value().shape();
      p = {.x = test_bench.loose(f32, shape),
           .reference = test_bench.make(f32, {1}),
           .y = test_bench.loose(f32, shape)};
      p.options.amin = amin;
    });
  }
  for (const double top_db : {-1.0, -1e-300, nan, -infinity}) {
    mutations.add("top_db is " + scalar(top_db).text(), bad, "options.top_db",
                  [top_db](auto& p, bench&) { p.options.top_db = top_db; });
  }
  return std::move(mutations).take();
}

}  // namespace

std::vector<operation_mutations> spectral_mutations() {
  std::vector<operation_mutations> all;
  all.push_back(frame_signal_list());
  all.push_back(power_list());
  all.push_back(decibel_list());
  return all;
}

}  // namespace sluice::test
