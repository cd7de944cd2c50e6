// SPDX-License-Identifier: Apache-2.0
// Malformed programs and runs: each mutation of a valid program states the error that it causes.
// Nothing is queued, planned or allocated.
#include "tests/operations/program/programs.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A valid program with a step of every library, and a run of it. A mutation replaces one part.
struct parts {
  // Operands of the steps.
  operand signal, window, spectrum_of, power_of, mel_a, mel_b, mel_c, scaled_x, loudest_x, image,
      filters, bias, sum_a, sum_b;
  // Parameters.
  double mel_beta = 0;
  std::int64_t hop = 4;
  std::optional<extents> axes{};
  extents noise_shape{5, 26};
  scalar deviation = 1;
  conv2d_geometry geometry{};
};

class malformed_programs : public programs {
 protected:
  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    clip_ = numbers({100});
    picture_ = numbers({1, 3, 6, 7});
    window_ = numbers({16});
    filterbank_ = numbers({5, 9});
    filters_ = numbers({4, 3, 2, 2});
    integers_ = alone(cast{.x = clip_, .type = element_type::i32});
    doubles_ = alone(cast{.x = filterbank_, .type = element_type::f64});
    product_ = numbers({5, 26});
  }
  void TearDown() override {
    for (auto* t :
         {&clip_, &picture_, &window_, &filterbank_, &filters_, &integers_, &doubles_, &product_}) {
      *t = tensor();
    }
    programs::TearDown();
  }

  using mutation = std::function<void(parts&, program_builder&)>;
  using run_mutation = std::function<void(sluice::run&)>;

  /// A run of the program with one part replaced.
  sluice::run valid(const mutation& mutate = {}) {
    program_builder p;
    const auto clip = p.input("clip");
    const auto picture = p.input("picture");
    const auto gain = p.scalar("gain");
    parts with;
    with.signal = clip;
    with.window = window_;
    with.mel_a = filterbank_;
    with.image = picture;
    with.filters = filters_;
    if (mutate) mutate(with, p);
    const auto or_else = [](operand& value, const program_value& usual) {
      if (!value) value = usual;
    };
    const auto frames = p.add(
        "frames", frame_signal{.signal = with.signal, .window = with.window, .hop = with.hop});
    or_else(with.spectrum_of, frames);
    const auto spectrum = p.add("spectrum", rfft{.x = with.spectrum_of});
    or_else(with.power_of, spectrum);
    const auto power = p.add("power", power_spectrum{.x = with.power_of});
    or_else(with.mel_b, power.transposed());
    const auto mel = p.add(
        "mel", gemm{.a = with.mel_a, .b = with.mel_b, .c = with.mel_c, .beta = with.mel_beta});
    or_else(with.scaled_x, mel);
    const auto scaled = p.add("scaled", affine{.x = with.scaled_x, .factor = gain});
    or_else(with.loudest_x, scaled);
    const auto loudest =
        p.add("loudest", reduce{.x = with.loudest_x, .kind = reduction::max, .axes = with.axes});
    const auto noise = p.add(
        "noise", random_normal{.shape = with.noise_shape, .seed = 7, .stddev = with.deviation});
    or_else(with.sum_a, scaled);
    or_else(with.sum_b, noise);
    const auto sum = p.add("sum", add(with.sum_a, with.sum_b));
    const auto filtered = p.add(
        "filtered",
        conv2d{.x = with.image, .w = with.filters, .bias = with.bias, .geometry = with.geometry});
    return {.what = std::move(p).build({sum, loudest, filtered.transposed()}),
            .inputs = {clip_, picture_},
            .scalars = {2}};
  }
  /// Expects that a run is refused with a text that begins with `text`.
  void refused(errc code, const std::string& text, const std::function<sluice::run()>& make) {
    SCOPED_TRACE(text);
    const auto request = make();
    const auto before = runtime().statistics();
    const auto queue = test_executor().status();
    const auto why = error_of([&] { return results_of(request); });
    ASSERT_TRUE(why) << "nothing was refused";
    EXPECT_EQ(why->code(), code) << why->what();
    EXPECT_EQ(std::string(why->what()).substr(0, text.size()), text);
    EXPECT_EQ(runtime().statistics().launches, before.launches);
    EXPECT_EQ(runtime().statistics().blocks, before.blocks);
    EXPECT_EQ(test_executor().status().plans.made, queue.plans.made);
    EXPECT_EQ(test_executor().status().requests, 0U);
  }
  void refused_step(errc code, const std::string& step, const std::string& argument,
                    const mutation& mutate) {
    refused(code, "step '" + step + "': " + argument + ": ", [&] { return valid(mutate); });
  }
  void refused_run(errc code, const std::string& text, const run_mutation& mutate) {
    refused(code, text, [&] {
      auto request = valid();
      mutate(request);
      return request;
    });
  }

  tensor clip_, picture_, window_, filterbank_, filters_, integers_, doubles_, product_;
};

constexpr auto invalid = errc::invalid_argument;

TEST_P(malformed_programs, are_refused_by_the_step_that_cannot_be) {
  EXPECT_EQ(results_of(valid()).size(), 3U);
  const auto step = [&](const char* name, const char* argument, const mutation& mutate) {
    refused_step(invalid, name, argument, mutate);
  };
  step("frames", "signal", [&](parts& p, auto&) { p.signal = integers_; });
  step("frames", "signal", [&](parts& p, auto&) { p.signal = small(1).reshape({}); });
  step("frames", "window", [&](parts& p, auto&) { p.window = doubles_.reshape({45}); });
  step("frames", "window", [&](parts& p, auto&) { p.window = filterbank_; });
  step("frames", "hop", [](parts& p, auto&) { p.hop = 0; });
  step("frames", "hop", [](parts& p, auto&) { p.hop = -4; });
  step("spectrum", "x", [&](parts& p, auto&) { p.spectrum_of = integers_; });
  step("spectrum", "x", [&](parts& p, auto&) { p.spectrum_of = small(1).reshape({}); });
  step("power", "x", [&](parts& p, auto&) { p.power_of = filterbank_; });
  step("mel", "b", [&](parts& p, auto&) { p.mel_b = filterbank_; });
  step("mel", "b", [&](parts& p, auto&) { p.mel_b = doubles_.transposed(); });
  step("mel", "a", [&](parts& p, auto&) { p.mel_a = integers_.reshape({10, 10}); });
  step("mel", "a", [&](parts& p, auto&) { p.mel_a = window_; });
  step("mel", "c", [](parts& p, auto&) { p.mel_beta = 1; });
  step("mel", "c", [&](parts& p, auto&) { p.mel_c = filterbank_, p.mel_beta = 1; });
  step("mel", "c", [&](parts& p, auto&) { p.mel_c = doubles_, p.mel_beta = 1; });
  step("mel", "c", [&](parts& p, auto&) { p.mel_c = product_; });  // with a beta of 0
  step("scaled", "x",
       [&](parts& p, auto& b) { p.scaled_x = b.add("again", rfft{.x = filterbank_}); });
  step("loudest", "axes", [](parts& p, auto&) { p.axes = extents{2}; });
  step("loudest", "axes", [](parts& p, auto&) { p.axes = extents{0, -2}; });
  step("loudest", "x",
       [&](parts& p, auto& b) { p.loudest_x = b.add("again", rfft{.x = filterbank_}); });
  step("noise", "shape", [](parts& p, auto&) { p.noise_shape = {-1, 26}; });
  step("noise", "stddev", [](parts& p, auto&) { p.deviation = -1; });
  step("sum", "b", [](parts& p, auto&) { p.noise_shape = {5, 25}; });
  step("sum", "b", [&](parts& p, auto&) { p.sum_b = doubles_; });
  step("filtered", "x", [&](parts& p, auto&) { p.image = filterbank_; });
  step("filtered", "w", [&](parts& p, auto&) { p.filters = numbers({4, 2, 2, 2}); });
  step("filtered", "w", [&](parts& p, auto&) { p.filters = numbers({4, 3, 8, 2}); });
  step("filtered", "bias", [&](parts& p, auto&) { p.bias = numbers({5}); });
  step("filtered", "geometry.groups", [](parts& p, auto&) { p.geometry.groups = 2; });
  step("filtered", "geometry.stride.w", [](parts& p, auto&) { p.geometry.stride.w = 0; });
}

// A number that the outer program gives is known like one of the step itself.
TEST_P(malformed_programs, are_refused_alike_within_others) {
  program_builder q;
  const auto a = q.input("a");
  const auto c = q.input("c");
  const program inner = std::move(q).build(
      {q.add("product", gemm{.a = a, .b = a, .c = c, .beta = q.scalar("beta")})});
  const auto with = [&](double beta) {
    program_builder p;
    const auto x = p.input("x");
    return sluice::run{std::move(p).build({p.add("inner", inner, {x, x}, {beta}).front()}),
                       {numbers({3, 3})}};
  };
  refused(invalid, "step 'inner.product': c: is given, but the step does not read it",
          [&] { return with(0); });
  EXPECT_EQ(results_of(with(1)).size(), 1U);
}

TEST_P(malformed_programs, are_refused_by_the_view_that_cannot_be) {
  const auto refused_view = [&](const char* name, const auto& view) {
    program_builder p;
    const auto clip = p.input("clip");
    const program program = std::move(p).build({p.add("copied", strided_copy{.x = view(clip)})});
    refused(invalid, std::string("view 'clip.") + name + "': ", [&] {
      return sluice::run{program, {clip_}};
    });
  };
  refused_view("transposed()", [](const auto& x) { return x.transposed(); });
  refused_view("reshape([7, -1])", [](const auto& x) { return x.reshape({7, -1}); });
  refused_view("reshape([-1, -1])", [](const auto& x) { return x.reshape({-1, -1}); });
  refused_view("permute([1])", [](const auto& x) { return x.permute({1}); });
  refused_view("permute([0, 0])", [](const auto& x) { return x.permute({0, 0}); });
  refused_view("slice(1, 0, end, 1)", [](const auto& x) { return x.slice(1, 0); });
  refused_view("slice(0, 101, end, 1)", [](const auto& x) { return x.slice(0, 101); });
  refused_view("slice(0, 0, 101, 1)", [](const auto& x) { return x.slice(0, 0, 101); });
  refused_view("slice(0, 0, 10, 0)", [](const auto& x) { return x.slice(0, 0, 10, 0); });
  refused_view("select(0, 100)", [](const auto& x) { return x.select(0, 100); });
  refused_view("broadcast_to([99])", [](const auto& x) { return x.broadcast_to({99}); });
  refused_view("broadcast_to([-1])", [](const auto& x) { return x.broadcast_to({-1}); });
}

// Results lie as their operands do, so a reshape may need a copy.
TEST_P(malformed_programs, are_refused_by_a_reshape_that_needs_a_copy) {
  const auto x = numbers({2, 3, 4});
  const auto build = [](bool copies) {
    program_builder p;
    auto y = p.add("y", exp(p.input("x").permute({0, 2, 1})));
    if (copies) y = p.add("copy", strided_copy{.x = y});
    return std::move(p).build({p.add("z", negate(y.reshape({2, 12})))});
  };
  refused(errc::unsupported,
          "view 'y.reshape([2, 12])': reshape: a tensor of shape [2, 4, 3] with strides [12, 1, 4] "
          "cannot be viewed as [2, 12] without a copy; strided_copy makes one",
          [&] {
            return sluice::run{build(false), {x}};
          });
  EXPECT_EQ(bits(results_of({build(true), {x}})[0]),
            bits(alone(negate(alone(exp(x.permute({0, 2, 1})))))));
}

TEST_P(malformed_programs, are_refused_if_a_size_overflows) {
  constexpr std::int64_t huge = std::int64_t{1} << 40;
  refused_step(invalid, "noise", "shape", [](parts& p, auto&) { p.noise_shape = {huge, huge}; });
  refused_step(invalid, "sum", "y", [&](parts& p, auto&) {
    p.sum_a = small(1).broadcast_to({huge, 1});
    p.sum_b = small(1).broadcast_to({1, huge});
  });
  refused_step(invalid, "mel", "c", [&](parts& p, auto&) {
    p.mel_a = small(1).broadcast_to({huge, 1});
    p.mel_b = small(1).broadcast_to({1, huge});
  });
}

TEST_P(malformed_programs, take_the_inputs_and_scalars_that_they_have) {
  refused_run(invalid, "what: is no program", [](auto& request) { request.what = program(); });
  refused_run(invalid, "inputs: there are 0, but the program takes 2",
              [](auto& request) { request.inputs.clear(); });
  refused_run(invalid, "inputs: there is 1, but the program takes 2",
              [](auto& request) { request.inputs.pop_back(); });
  refused_run(invalid, "inputs: there are 3, but the program takes 2",
              [&](auto& request) { request.inputs.emplace_back(clip_); });
  refused_run(invalid, "picture: is not given",
              [](auto& request) { request.inputs[1] = run_input(); });
  refused_run(invalid, "scalars: there are 0, but the program takes 1",
              [](auto& request) { request.scalars.clear(); });
  refused_run(invalid, "scalars: there are 2, but the program takes 1",
              [](auto& request) { request.scalars.emplace_back(1); });
  program_builder other;
  const auto of_program = other.scalar("gain");
  refused_run(invalid, "gain: is a scalar of a program",
              [&](auto& request) { request.scalars[0] = of_program; });
  refused_run(invalid,
              "step 'frames': signal: ", [&](auto& request) { request.inputs[0] = integers_; });
  refused_run(invalid, "step 'frames': signal: ", [&](auto& request) {
    request.inputs[0] = get(integers_);
  });
  refused_run(invalid, "step 'filtered': x: ", [&](auto& request) {
    request.inputs[1] = numbers({1, 3, 6});
  });
}

TEST_P(malformed_programs, do_not_touch_memory_that_is_gone_or_elsewhere) {
  device_service other(opened_device());
  const auto stream = other.runtime().create_stream();
  const auto elsewhere = [&](const tensor& like) {
    return tensor(other.runtime().allocate_bytes(like.bytes(), stream.ref()), like.type(),
                  like.shape());
  };
  const auto freed = [&](const tensor& like) {
    auto copy = numbers(like.shape());
    const auto stale = copy;
    runtime().deallocate(copy.block());
    return stale;
  };
  const auto foreign_clip = elsewhere(clip_);
  const auto foreign_window = elsewhere(window_);
  const auto foreign_sum = elsewhere(product_);
  const auto stale_clip = freed(clip_);
  const auto stale_window = freed(window_);
  const auto stale_sum = freed(product_);
  refused_run(errc::stale_ref, "clip", [&](auto& request) { request.inputs[0] = stale_clip; });
  refused_run(invalid, "clip: the memory belongs to another device runtime",
              [&](auto& request) { request.inputs[0] = foreign_clip; });
  refused(errc::stale_ref, "frames.window",
          [&] { return valid([&](parts& p, auto&) { p.window = stale_window; }); });
  refused(invalid, "frames.window: the memory belongs to another device runtime",
          [&] { return valid([&](parts& p, auto&) { p.window = foreign_window; }); });
  refused(errc::stale_ref, "table", [&] {
    return valid(
        [&](parts& p, program_builder& b) { p.window = b.constant("table", stale_window); });
  });
  const auto give = [](sluice::run& request, const tensor& output) {
    request.outputs = {output, operand(), operand()};
  };
  refused_run(errc::stale_ref, "outputs[0]", [&](auto& request) { give(request, stale_sum); });
  refused_run(invalid, "outputs[0]: the memory belongs to another device runtime",
              [&](auto& request) { give(request, foreign_sum); });
}

TEST_P(malformed_programs, take_outputs_of_the_type_and_shape_of_the_results) {
  const auto refused_outputs = [&](const std::string& text, const std::vector<operand>& outputs) {
    refused_run(invalid, text, [&](auto& request) { request.outputs = outputs; });
  };
  const auto first = numbers({5, 26});
  refused_outputs("outputs: there is 1", {first});
  refused_outputs("outputs: there are 4", {first, operand(), operand(), operand()});
  refused_outputs("outputs[0]: has the shape [26, 5]", {first.transposed(), operand(), operand()});
  refused_outputs("outputs[0]: is of type i32",
                  {first.reinterpret(element_type::i32), operand(), operand()});
  refused_outputs("outputs[2]: has the shape [1, 4, 5, 6]",
                  {operand(), operand(), numbers({1, 4, 5, 6})});
  refused_outputs("outputs[0]: has the shape [5, 26] and the strides",
                  {numbers({1, 26}).broadcast_to({5, 26}), operand(), operand()});
  refused_outputs("outputs[1]: shares memory with outputs[0]",
                  {first, first.select(0, 2).select(0, 3), operand()});
  refused_outputs("outputs[0]: shares memory with the constant mel.a",
                  {tensor(filterbank_.block(), element_type::f32, {5, 1}).broadcast_to({5, 26}),
                   operand(), operand()});
}

TEST(malformed_program, cannot_be_built) {
  const auto refused = [](errc code, const std::string& text, const auto& work) {
    SCOPED_TRACE(text);
    const auto why = error_of([&] {
      work();
      return 0;
    });
    ASSERT_TRUE(why);
    EXPECT_EQ(why->code(), code);
    EXPECT_EQ(std::string(why->what()).substr(0, text.size()), text);
  };
  program_builder p;
  const auto x = p.input("x");
  const auto gain = p.scalar("gain");
  program_builder other;
  const auto foreign = other.input("y");
  const auto foreign_gain = other.scalar("gain");
  const auto sum = p.add("sum", add(x, x));
  refused(invalid, "step 'product': a: is a value of another program",
          [&] { (void)p.add("product", gemm{.a = foreign, .b = x}); });
  const operand forged(value_reference{operand(x).reference().program, 12345});
  refused(invalid, "step 'product': a: is a value of another program",
          [&] { (void)p.add("product", gemm{.a = forged, .b = x}); });
  refused(invalid, "step 'product': c: is a value of another program",
          [&] { (void)p.add("product", gemm{.a = x, .b = x, .c = foreign, .beta = 1}); });
  refused(invalid, "step 'scaled': factor: is a scalar of another program",
          [&] { (void)p.add("scaled", affine{.x = x, .factor = foreign_gain}); });
  refused(errc::unsupported, "step 'up': upload cannot be a step of a program",
          [&] { (void)p.add("up", sluice::upload{.values = std::vector<float>{1}}); });
  refused(invalid, "empty: is no tensor", [&] { (void)p.constant("empty", tensor()); });
  refused(invalid, "empty: is no tensor", [&] { (void)p.constant("empty", host_tensor()); });
  program_builder q;
  const auto inner_x = q.input("x");
  const auto level = q.scalar("level");
  const program inner =
      std::move(q).build({q.add("scaled", affine{.x = inner_x, .factor = level})});
  refused(invalid, "part: is no program", [&] { (void)p.add("part", program(), {x}); });
  refused(invalid, "step 'part': inputs: there are 2, but the program takes 1", [&] {
    (void)p.add("part", inner, {x, x}, {gain});
  });
  refused(invalid, "step 'part': scalars: there are 0, but the program takes 1",
          [&] { (void)p.add("part", inner, {x}); });
  refused(invalid, "step 'part': x: is not given",
          [&] { (void)p.add("part", inner, {operand()}, {gain}); });
  refused(invalid, "step 'part': x: is a value of another program",
          [&] { (void)p.add("part", inner, {foreign}, {gain}); });
  refused(invalid, "step 'part': level: is a scalar of another program",
          [&] { (void)p.add("part", inner, {x}, {foreign_gain}); });
  const host_tensor table(element_type::f32, {4});
  refused(invalid, "step 'part': level: is a scalar of another program",
          [&] { (void)p.add("part", inner, {p.constant("kept", table)}, {foreign_gain}); });
  refused(invalid, "outputs: are not given", [&] { (void)std::move(p).build({}); });
  refused(invalid, "outputs: output 0 is no result of a step",
          [&] { (void)std::move(p).build({x.transposed()}); });
  refused(invalid, "outputs: output 1 is a value of another program", [&] {
    (void)std::move(p).build({sum, foreign});
  });
  const auto program = std::move(p).build({sum});
  // Nothing is left of what was refused.
  EXPECT_EQ(program.text(),
            "gain = scalar\nx = input\nsum = add(a = x, b = x)\nkept = constant f32[4]\n"
            "outputs: sum\n");
}

// A constant of a step that is refused is none of the program.
TEST_P(malformed_programs, keep_nothing_of_a_step_that_is_refused) {
  program_builder other;
  const auto foreign = other.input("y");
  program_builder p;
  const auto x = p.input("x");
  EXPECT_TRUE(throws(invalid, "step 'bad': b: is a value of another program",
                     [&] { (void)p.add("bad", add(window_, foreign)); }));
  const auto program = std::move(p).build({p.add("copy", strided_copy{.x = x})});
  EXPECT_EQ(program.text(), "x = input\ncopy = strided_copy(x = x)\noutputs: copy\n");
  const auto source = numbers({16});
  EXPECT_EQ(results_of({program, {source}, {window_}})[0], window_);
  EXPECT_EQ(bits(window_), bits(source));
}

TEST_P(malformed_programs, name_the_step_with_too_many_operands) {
  program_builder p;
  const auto x = p.input("x");
  const concatenate wide{.x = std::vector<operand>(max_operands + 1, x)};
  EXPECT_TRUE(
      throws(errc::invalid_argument, "step 'joined': x", [&] { (void)p.add("joined", wide); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'concatenate': x", [&] { (void)p.add(wide); }));
}

TEST_P(malformed_programs, name_long_chains_of_views) {
  constexpr int views = 100'000;
  program_builder p;
  const auto x = p.input("x");
  auto seen = x;
  for (int i = 0; i < views; ++i) seen = seen.transposed();
  const program program = std::move(p).build({p.add("copy", strided_copy{.x = seen})});
  EXPECT_TRUE(throws(errc::invalid_argument, "view 'x.transposed()'", [&] {
    (void)results_of({program, {numbers({3})}});
  }));
  EXPECT_GT(program.text().size(), static_cast<std::size_t>(views) * (sizeof(".transposed()") - 1));
}

TEST_P(malformed_programs, are_not_worked_out_without_room_in_the_queue) {
  const auto full = make_executor({.max_waiting = 0});
  program_builder p;
  const auto x = p.input("x");
  const program program = std::move(p).build({p.add("sum", add(x, x))});
  const auto input = numbers({3});
  EXPECT_TRUE(throws(errc::overloaded, "", [&] {
    (void)run(*full, sluice::run{program, {input, input}});
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, malformed_programs, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
