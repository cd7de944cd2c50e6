// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/hostile/mutations.hpp"
#include "tests/operations/hostile/scalars.hpp"

#include <sluice/operations/spectral.hpp>

namespace sluice::test {
namespace {

using enum element_type;

frame_signal valid_frames(bench& on) {
  auto shape = on.shape(static_cast<std::size_t>(on.extent(0, 2)));
  const auto samples = on.extent(8, 16), n_fft = on.extent(2, 4), hop = on.extent(1, 3);
  auto frames = shape;
  shape.push_back(samples);
  frames.push_back(1 + (samples + 2 * (n_fft / 2) - n_fft) / hop);
  frames.push_back(n_fft);
  const auto type = on.one_of({f32, f64});
  return {.signal = on.loose(type, shape),
          .window = on.loose(type, {n_fft}),
          .n_fft = on.coin() ? n_fft : 0,
          .hop = hop,
          .y = on.loose(type, frames)};
}

operation_mutations frame_signal_list() {
  mutations_of<frame_signal> to(valid_frames);
  to.required("signal", &frame_signal::signal);
  to.memory("window", &frame_signal::window);
  to.output("y", &frame_signal::y, i32);
  to.aliasing("y", &frame_signal::y, "signal", &frame_signal::signal);
  to.aliasing("y", &frame_signal::y, "window", &frame_signal::window);
  for (const auto type : {boolean, u8, i32, f16, bf16, c64, c128}) {
    const std::string name(to_string(type));
    to.add("signal of " + name, bad, "signal", [type](frame_signal& f, bench& on) {
      f.signal = on.make(type, f.signal.value().shape());
    });
    to.add("window of " + name, bad, "window", [type](frame_signal& f, bench& on) {
      f.window = on.make(type, f.window.value().shape());
    });
  }
  to.add("signal is a number", bad, "signal", [](frame_signal& f, bench& on) {
    f.signal = on.make(f.signal.value().type(), {1}).select(0, 0);
  });
  to.add("signal with too many dimensions", bad, "signal", [](frame_signal& f, bench& on) {
    f.signal = on.make(f.signal.value().type(), {1, 1, 1, 1, 1, 1, 1, 16});
  });
  to.add("a signal of 2^62 samples without elements", bad, "signal",
         [](frame_signal& f, bench& on) {
           f.signal = on.empty(f.signal.value().type(), {0, std::int64_t{1} << 62U});
           f.y = {};
         });
  to.add("window of one more sample", bad, "window", [](frame_signal& f, bench& on) {
    const auto n = f.window.value().shape()[0];
    f.n_fft = n;
    f.window = on.make(f.signal.value().type(), {n + 1});
  });
  to.add("window with another dimension", bad, "window", [](frame_signal& f, bench& on) {
    f.window = on.make(f.signal.value().type(), {1, f.window.value().shape()[0]});
  });
  to.add("window is a number", bad, "window", [](frame_signal& f, bench& on) {
    f.window = on.make(f.signal.value().type(), {1}).select(0, 0);
  });
  to.add("neither a window nor n_fft", bad, "n_fft", [](frame_signal& f, bench&) {
    f.n_fft = 0;
    f.window = {};
  });
  for (const auto value : {std::int64_t{-1}, -most, least, std::int64_t{1} << 62U, most}) {
    to.add("n_fft is " + std::to_string(value), bad, "n_fft", [value](frame_signal& f, bench&) {
      f.n_fft = value;
      f.window = {};
      f.y = {};
    });
  }
  for (const auto value : {std::int64_t{0}, std::int64_t{-1}, -most, least, most}) {
    to.value(&frame_signal::hop, "hop is " + std::to_string(value), "hop", value);
  }
  to.add("n_fft is not the length of the window", bad, "window",
         [](frame_signal& f, bench&) { f.n_fft = std::int64_t{1} << 31U; });
  to.add("another hop than that of y", bad, "y", [](frame_signal& f, bench&) { f.hop += 9; });
  return std::move(to).take();
}

operation_mutations power_list() {
  mutations_of<power_spectrum> to([](bench& on) -> power_spectrum {
    const auto shape = any_shape(on);
    const bool is_double = on.coin();
    return {.x = on.loose(is_double ? c128 : c64, shape),
            .y = on.loose(is_double ? f64 : f32, shape)};
  });
  to.required("x", &power_spectrum::x);
  to.output("y", &power_spectrum::y, c64);
  to.aliasing("y", &power_spectrum::y, "x", &power_spectrum::x);
  for (const auto type : {boolean, u8, i32, u64, f16, bf16, f32, f64}) {
    to.add("x of " + std::string(to_string(type)), bad, "x",
           [type](power_spectrum& p, bench& on) { p.x = on.make(type, p.x.value().shape()); });
  }
  to.add("y of the other precision", bad, "y", [](power_spectrum& p, bench& on) {
    p.y = on.make(p.y.value().type() == f32 ? f64 : f32, p.x.value().shape());
  });
  return std::move(to).take();
}

operation_mutations decibel_list() {
  mutations_of<power_to_decibel> to([](bench& on) -> power_to_decibel {
    const auto shape = any_shape(on);
    const auto type = on.one_of({f32, f64});
    return {.x = on.loose(type, shape),
            .reference = on.make(type, {on.coin() ? 1 : shape[shape.size() - 1]}),
            .y = on.loose(type, shape)};
  });
  to.required("x", &power_to_decibel::x);
  to.required("reference", &power_to_decibel::reference);
  to.output("y", &power_to_decibel::y, i32);
  to.aliasing("y", &power_to_decibel::y, "x", &power_to_decibel::x);
  for (const auto type : {boolean, u8, i32, f16, bf16, c64, c128}) {
    const std::string name(to_string(type));
    to.add("x of " + name, bad, "x",
           [type](power_to_decibel& p, bench& on) { p.x = on.make(type, p.x.value().shape()); });
    to.add("reference of " + name, bad, "reference", [type](power_to_decibel& p, bench& on) {
      p.reference = on.make(type, p.reference.value().shape());
    });
  }
  to.add("reference that cannot be broadcast", bad, "reference",
         [](auto& p, bench& on) { p.reference = on.make(p.x.value().type(), {9}); });
  to.add("reference of more dimensions", bad, "reference", [](auto& p, bench& on) {
    auto shape = p.x.value().shape();
    shape.push_back(1);
    p.reference = on.make(p.x.value().type(), shape);
  });
  to.add("y begins within the reference", bad, "y", [](auto& p, bench& on) {
    auto shape = p.x.value().shape();
    const auto rows = shape[0]++;
    const auto memory = on.make(p.x.value().type(), shape);
    p.reference = memory.slice(0, 0, rows);
    p.y = memory.slice(0, 1, rows + 1);
  });
  for (const double amin : {0.0, -0.0, -1.0, 1e-320, nan, infinity, -infinity}) {
    to.add("amin is " + scalar(amin).text(), bad, "options.amin",
           [amin](auto& p, bench&) { p.options.amin = amin; });
  }
  for (const double amin : {1e-300, 1e300}) {
    to.add("amin is out of f32", bad, "options.amin", [amin](auto& p, bench& on) {
      const auto shape = p.x.value().shape();
      p = {.x = on.loose(f32, shape), .reference = on.make(f32, {1}), .y = on.loose(f32, shape)};
      p.options.amin = amin;
    });
  }
  for (const double top_db : {-1.0, -1e-300, nan, -infinity}) {
    to.add("top_db is " + scalar(top_db).text(), bad, "options.top_db",
           [top_db](auto& p, bench&) { p.options.top_db = top_db; });
  }
  return std::move(to).take();
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
