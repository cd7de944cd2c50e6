// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/reduce.hpp>
#include <sluice/operations/resize.hpp>
#include <sluice/operations/spectral.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace sluice::test {
namespace {

using enum element_type;

constexpr auto most = std::numeric_limits<std::int64_t>::max();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

class elementwise_refusals : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    other_ = std::make_unique<device_runtime>(open_device(GetParam()));
    other_stream_ = other_->create_stream();
  }
  void TearDown() override {
    other_stream_ = sluice::stream();
    other_.reset();
    executor_test::TearDown();
  }
  tensor make(element_type type, const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {runtime().allocate_bytes(count * size_of(type), stream(), "test"), type, shape};
  }
  /// Expects that an operation is refused with a text that begins with `argument`, and that this
  /// launches and allocates nothing.
  template <class Operation>
  void refuse(const std::string& argument, Operation operation,
              errc code = errc::invalid_argument) {
    SCOPED_TRACE(argument);
    const auto before = runtime().statistics();
    const auto text = argument + (argument.find(':') == std::string::npos ? ": " : "");
    EXPECT_TRUE(throws(code, text, [&] { (void)run(test_executor(), std::move(operation)); }));
    const auto after = runtime().statistics();
    EXPECT_EQ(after.launches, before.launches);
    EXPECT_EQ(after.peak_bytes, before.peak_bytes);
    EXPECT_EQ(test_executor().waiting(), 0U);
  }
  /// The refusals that every operand has in common. `member` is an operand of `valid`.
  template <class Operation, class Operand>
  void refuse_operand(const std::string& name, const Operation& valid, Operand Operation::*member,
                      bool is_required) {
    const auto model = (valid.*member).value();
    const auto with = [&](const operand& value) {
      auto operation = valid;
      operation.*member = value;
      return operation;
    };
    if (is_required) refuse(name + ": is not given", with({}));
    const auto stale = make(model.type(), model.shape());
    runtime().deallocate(stale.block());
    refuse(name, with(stale), errc::stale_ref);
    refuse(name, with(tensor(other_->allocate_bytes(model.bytes(), other_stream_, "foreign"),
                             model.type(), model.shape())));
  }
  /// The refusals that every result has in common.
  template <class Operation, class Operand>
  void refuse_result(const Operation& valid, const tensor& y, Operand Operation::*overlapping) {
    const auto with = [&](const operand& value) {
      auto operation = valid;
      operation.y = value;
      return operation;
    };
    refuse_operand("y", with(y), &Operation::y, false);
    auto larger = y.shape();
    larger[0] += 1;
    refuse("y: has the shape", with(make(y.type(), larger)));
    auto row = y.shape();
    row[0] = 1;
    if (y.shape()[0] > 1) {
      refuse("y: has the shape", with(make(y.type(), row).broadcast_to(y.shape())));
    }
    // y begins in the memory of an input, one byte or element after it.
    const auto input = (valid.*overlapping).value();
    const auto bytes = input.bytes() + y.bytes() + 64;
    const auto memory = runtime().allocate_bytes(bytes, stream(), "both");
    const tensor x(memory, input.type(), input.shape());
    auto operation = valid;
    operation.*overlapping = x;
    auto strides = y.shape();
    std::int64_t step = 1;
    for (std::size_t d = strides.size(); d-- > 0;) {
      const auto extent = strides[d];
      strides[d] = step;
      step *= extent;
    }
    operation.y = tensor(memory, y.type(), y.shape(), strides, size_of(y.type()));
    refuse("y: shares memory with", operation);
  }

 private:
  std::unique_ptr<device_runtime> other_;
  sluice::stream other_stream_;
};

TEST_P(elementwise_refusals, cast) {
  const sluice::cast valid{.x = make(f32, {3, 4}), .type = i32};
  refuse_operand("x", valid, &sluice::cast::x, true);
  refuse_result(valid, make(i32, {3, 4}), &sluice::cast::x);
  refuse("type: is not given", sluice::cast{.x = make(f32, {3})});
  refuse("type: is f32", sluice::cast{.x = make(c64, {3}), .type = f32});
  refuse("y: is f64", sluice::cast{.x = make(c64, {3}), .y = make(f64, {3})});
  refuse("y: is of type f32", sluice::cast{.x = make(f32, {3}), .type = f64, .y = make(f32, {3})});
}

TEST_P(elementwise_refusals, strided_copy) {
  const sluice::strided_copy valid{.x = make(f16, {3, 4})};
  refuse_operand("x", valid, &sluice::strided_copy::x, true);
  refuse_result(valid, make(f16, {3, 4}), &sluice::strided_copy::x);
  const auto x = make(f32, {4, 4});
  refuse("y: shares memory with x", sluice::strided_copy{.x = x, .y = x.transposed()});
  refuse("y: shares memory with x", sluice::strided_copy{.x = x, .y = x});
  refuse("y: is of type f16", sluice::strided_copy{.x = x, .y = make(f16, {4, 4})});
}

TEST_P(elementwise_refusals, affine) {
  const sluice::affine valid{
      .x = make(u8, {3, 4, 5}), .scale = make(f32, {3}), .bias = make(f32, {3}), .axis = 0};
  refuse_operand("x", valid, &sluice::affine::x, true);
  refuse_operand("scale", valid, &sluice::affine::scale, false);
  refuse_operand("bias", valid, &sluice::affine::bias, false);
  refuse_result(valid, make(f32, {3, 4, 5}), &sluice::affine::x);
  const auto with = [&](auto change) {
    auto operation = valid;
    change(operation);
    return operation;
  };
  refuse("x: is of type c64", with([&](auto& a) { a.x = make(c64, {3, 4, 5}); }));
  refuse("scale: is of type c64", with([&](auto& a) { a.scale = make(c64, {3}); }));
  refuse("bias: is of type c128", with([&](auto& a) { a.bias = make(c128, {3}); }));
  refuse("scale: has the shape [4]", with([&](auto& a) { a.scale = make(f32, {4}); }));
  refuse("bias: has the shape [3, 1]", with([&](auto& a) { a.bias = make(f32, {3, 1}); }));
  refuse("bias: has the shape [2]", with([&](auto& a) {
           a.axis.reset();
           a.scale = {};
           a.bias = make(f32, {2});
         }));
  refuse("scale: has the shape [1, 3, 4, 5]", with([&](auto& a) {
           a.axis.reset();
           a.scale = make(f32, {1, 3, 4, 5});
         }));
  refuse("axis: 3", with([](auto& a) { a.axis = 3; }));
  refuse("axis: -4", with([](auto& a) { a.axis = -4; }));
  refuse("axis", with([](auto& a) { a.axis = most; }));
  refuse("axis", with([](auto& a) { a.axis = -most - 1; }));
  refuse("factor: is given beside scale", with([](auto& a) { a.factor = 2; }));
  refuse("offset: is given beside bias", with([](auto& a) { a.offset = 2; }));
  const auto number = [&](auto change) {
    sluice::affine operation{.x = make(f32, {3})};
    change(operation);
    return operation;
  };
  refuse("factor: nan", number([](auto& a) { a.factor = not_a_number; }));
  refuse("factor: 1e+300", number([](auto& a) { a.factor = 1e300; }));
  refuse("offset: 1e+300", number([](auto& a) { a.offset = 1e300; }));
  refuse("offset", number([](auto& a) { a.offset = std::complex<double>(0, 1); }));
  refuse("type: is i32", number([](auto& a) { a.type = i32; }));
  refuse("y: is c64", number([&](auto& a) { a.y = make(c64, {3}); }));
  refuse("y: is of type f64", number([&](auto& a) {
           a.type = f32;
           a.y = make(f64, {3});
         }));
  // The scale of one element is needed for the next one.
  const auto shifted = make(f32, {4});
  for (const auto member : {&affine::x, &affine::scale, &affine::bias}) {
    const std::string name = member == &affine::x       ? "x"
                             : member == &affine::scale ? "scale"
                                                        : "bias";
    refuse("y: shares memory with " + name, number([&](auto& a) {
             a.x = make(f32, {3});
             a.*member = shifted.slice(0, 0, 3);
             a.y = shifted.slice(0, 1, 4);
           }));
  }
}

TEST_P(elementwise_refusals, binary_operations) {
  for (const auto function : {binary_function::add, binary_function::power}) {
    using Operation = binary;
    binary valid{.function = function};
    valid.a = make(f32, {3, 4});
    valid.b = make(f32, {3, 4});
    refuse_operand("a", valid, &Operation::a, true);
    refuse_operand("b", valid, &Operation::b, true);
    refuse_result(valid, make(f32, {3, 4}), &Operation::a);
    refuse_result(valid, make(f32, {3, 4}), &Operation::b);
    refuse("b: is of type f64, but a is of type f32; cast converts",
           Operation{.function = function, .a = valid.a, .b = make(f64, {3, 4})});
    refuse("b: has the shape [2, 4]",
           Operation{.function = function, .a = valid.a, .b = make(f32, {2, 4})});
    refuse("b: has the shape [5]",
           Operation{.function = function, .a = valid.a, .b = make(f32, {5})});
    refuse("y: is of type i32",
           Operation{.function = function, .a = valid.a, .b = valid.b, .y = make(i32, {3, 4})});
    // An element of b is needed for all rows of y.
    const auto square = make(f32, {3, 4});
    refuse("y: shares memory with b",
           Operation{.function = function, .a = valid.a, .b = square.slice(0, 0, 1), .y = square});
    refuse("y: shares memory with a",
           Operation{.function = function, .a = square.slice(0, 0, 1), .b = valid.b, .y = square});
    // y is one input, but only a part of the memory of the other one, or all of it in another
    // order.
    const auto longer = make(f32, {4, 4});
    const auto rows = longer.slice(0, 0, 3);
    refuse("y: shares memory with b",
           Operation{.function = function, .a = rows, .b = longer.slice(0, 1, 4), .y = rows});
    refuse("y: shares memory with a",
           Operation{.function = function, .a = longer.slice(0, 1, 4), .b = rows, .y = rows});
    refuse("y: shares memory with a",
           Operation{.function = function, .a = longer.transposed(), .b = longer, .y = longer});
    refuse("y: shares memory with a",
           Operation{.function = function, .a = rows, .b = rows, .y = longer.slice(0, 1, 4)});
  }
  refuse("function: is not given", binary{.a = make(f32, {3}), .b = make(f32, {3})});
  refuse("function: 200 is not a valid value", binary{.function = static_cast<binary_function>(200),
                                                      .a = make(f32, {3}),
                                                      .b = make(f32, {3})});
  refuse("a: is of type i32, but atan2 takes these types: f16, bf16, f32, f64; cast converts",
         atan2(make(i32, {3}), make(i32, {3})));
  refuse("a: is of type f32, but left_shift takes these types: boolean, u8 to u64, i8 to i64",
         left_shift(make(f32, {3}), make(f32, {3})));
  refuse("a, b: one of them must be a tensor", add(1, 2));
  refuse("a: is of type e4m3, but add takes all types but e4m3 and e5m2; cast converts",
         add(make(element_type::e4m3, {3}), 1));
  refuse("b: is not given", add(1, {}));
  refuse("a: is not given", add({}, 1));
  refuse("b: 2.5 is not an integer", add(make(i32, {3}), 2.5));
  refuse("a: -1 is negative", subtract(-1, make(u64, {3})));
  refuse("b: 256 is out of the range of u8", multiply(make(u8, {3}), 256));
  refuse("b: 2 is out of the range of bool", equal(make(boolean, {3}), 2));
  refuse("b: 70000 is out of the range of f16", add(make(f16, {3}), 70000));
  refuse("b: 1+2i has an imaginary part", add(make(f32, {3}), std::complex<double>(1, 2)));
  refuse("b: is of type i32, but atan2 takes", atan2(1, make(i32, {3})));
  // The result is boolean.
  const auto x = make(u8, {3});
  refuse("y: is of type u8", less(x, x, make(u8, {3})));
}

TEST_P(elementwise_refusals, unary_operations) {
  unary valid = exp(make(f32, {3, 4}));
  refuse_operand("x", valid, &unary::x, true);
  refuse_result(valid, make(f32, {3, 4}), &unary::x);
  refuse("function: is not given", unary{.x = valid.x});
  refuse("function: 200 is not a valid value",
         unary{.function = static_cast<unary_function>(200), .x = valid.x});
  refuse("x: is of type i32, but exp takes these types: f16, bf16, f32, f64; cast converts",
         exp(make(i32, {3})));
  refuse("x: is of type f64, but bitwise_not takes", bitwise_not(make(f64, {3})));
  refuse("x: is of type f64, but conjugate takes", conjugate(make(f64, {3})));
  refuse("x: is of type c64, but sign takes", sign(make(c64, {3})));
  refuse("alpha: is given, but exp has none",
         unary{.function = unary_function::exp, .x = valid.x, .alpha = 1});
  refuse("beta: is given, but elu has none",
         unary{.function = unary_function::elu, .x = valid.x, .beta = 1});
  refuse("alpha: is 0; celu divides by it", celu(valid.x, 0));
  refuse("alpha: ", leaky_relu(valid.x, std::complex<double>(0, 1)));
  refuse("most: 1.5 is not an integer", clip(make(u8, {3}), 1, 1.5));
  for (const auto type : {f32, f64, u8, i32}) {
    refuse("least: nan is not", clip(make(type, {3}), NAN, 3));
    refuse("most: nan is not", clip(make(type, {3}), {}, NAN));
  }
  refuse("least: inf is not an integer", clip(make(u8, {3}), INFINITY, {}));
  refuse("most: -inf is not an integer", clip(make(i32, {3}), {}, -INFINITY));
  refuse("y: is of type u8", isnan(make(f32, {3}), make(u8, {3})));
  refuse("y: is of type c64", abs(make(c64, {3}), make(c64, {3})));
}

TEST_P(elementwise_refusals, where_operations) {
  const where valid{
      .condition = make(boolean, {3, 4}), .a = make(f32, {3, 4}), .b = make(f32, {3, 4})};
  refuse_operand("condition", valid, &where::condition, true);
  refuse_operand("a", valid, &where::a, true);
  refuse_operand("b", valid, &where::b, true);
  refuse_result(valid, make(f32, {3, 4}), &where::a);
  refuse("condition: is of type u8, but must be boolean",
         where{.condition = make(u8, {3, 4}), .a = valid.a, .b = valid.b});
  refuse("b: is of type f64, but a is of type f32; cast converts",
         where{.condition = valid.condition, .a = valid.a, .b = make(f64, {3, 4})});
  const auto with = [&](const operand_or_number& a, const operand_or_number& b) {
    return where{.condition = valid.condition, .a = a, .b = b};
  };
  refuse("a, b: one of them must be a tensor", with(1, 2));
  refuse("b: is not given", with(1, {}));
  refuse("a: 0.5 is not an integer", with(0.5, make(i8, {4})));
  refuse("b: 128 is out of the range of i8", with(make(i8, {4}), 128));
  refuse("condition: has the shape [2], which cannot be broadcast with [3, 4]",
         where{.condition = make(boolean, {2}), .a = valid.a, .b = valid.b});
}

TEST_P(elementwise_refusals, order_of_complex_numbers) {
  refuse("a: is of type c64, but maximum takes", maximum(make(c64, {3}), make(c64, {3})));
  refuse("a: is of type c128", minimum(make(c128, {3}), make(c128, {3})));
}

TEST_P(elementwise_refusals, reduce) {
  const sluice::reduce valid{.x = make(f32, {3, 4, 5}), .axes = extents{1}};
  refuse_operand("x", valid, &sluice::reduce::x, true);
  refuse_result(valid, make(f32, {3, 5}), &sluice::reduce::x);
  const auto with = [&](const extents& axes) {
    auto operation = valid;
    operation.axes = axes;
    return operation;
  };
  refuse("axes: 3", with({3}));
  refuse("axes: -4", with({0, -4}));
  refuse("axes", with({most}));
  refuse("axes: 1 is repeated", with({1, 1}));
  refuse("axes: -2 is repeated", with({1, -2}));
  refuse("x: is of type c64", sluice::reduce{.x = make(c64, {3}), .kind = reduction::max});
  refuse("correction: is 1", sluice::reduce{.x = make(f32, {3}), .correction = 1});
  refuse("correction: is -1",
         sluice::reduce{.x = make(f32, {3}), .kind = reduction::variance, .correction = -1});
  refuse("last: is true", sluice::reduce{.x = make(f32, {3}), .last = true});
  for (const auto kind : {reduction::max, reduction::mean, reduction::argmin}) {
    refuse("x: has the shape [3, 0]",
           sluice::reduce{.x = make(f32, {3, 0}), .kind = kind, .axes = extents{1}});
  }
  refuse("y: is of type i32",
         sluice::reduce{.x = make(i32, {3}), .y = make(i32, {1}).select(0, 0)});
  const auto x = make(f32, {4});
  refuse("y: shares memory with x", sluice::reduce{.x = x, .y = x.select(0, 2)});
}

TEST_P(elementwise_refusals, resize) {
  const sluice::resize valid{.x = make(u8, {2, 4, 5}), .sizes = {3, 6}};
  refuse_operand("x", valid, &sluice::resize::x, true);
  refuse_result(valid, make(u8, {2, 3, 6}), &sluice::resize::x);
  const auto with = [&](auto change) {
    auto operation = valid;
    change(operation);
    return operation;
  };
  refuse("x: is of type i32", with([&](auto& r) { r.x = make(i32, {4, 5}); }));
  refuse("x: is of type c64", with([&](auto& r) { r.x = make(c64, {4, 5}); }));
  refuse("x: has the shape [4]", with([&](auto& r) { r.x = make(u8, {4}); }));
  refuse("x: has the shape [2, 0, 5]", with([&](auto& r) { r.x = make(u8, {2, 0, 5}); }));
  refuse("sizes, scales: one of them must be given", with([](auto& r) { r.sizes = {}; }));
  refuse("sizes, scales: one of them must be given, or a y of the rank of x", with([](auto& r) {
           r.sizes = {};
           r.axes = {1, 2};
         }));
  refuse("sizes: has 4 numbers", with([](auto& r) { r.sizes = {1, 2, 3, 4}; }));
  refuse("sizes: -1", with([](auto& r) { r.sizes = {-1, 3}; }));
  refuse("sizes: -9223372036854775808", with([](auto& r) { r.sizes = {3, -most - 1}; }));
  refuse("y", with([](auto& r) { r.sizes = {most, 2}; }));
  refuse("axes: is [0], but sizes has 2 numbers", with([](auto& r) { r.axes = {0}; }));
  refuse("axes: 3 is not one of", with([](auto& r) { r.axes = {0, 3}; }));
  refuse("axes: is [1, -2], which names one twice", with([](auto& r) { r.axes = {1, -2}; }));
  refuse("scales: are given beside sizes", with([](auto& r) { r.scales = {2}; }));
  for (const resize::numbers scales : {resize::numbers{-1}, {0, 1}, {INFINITY}, {NAN}}) {
    refuse("scales: must be finite", with([&](auto& r) {
             r.sizes = {};
             r.scales = scales;
           }));
  }
  refuse("scales: leave no element", with([](auto& r) {
           r.sizes = {};
           r.scales = {0.1};
         }));
  refuse("policy: is given, but needs sizes", with([](auto& r) {
           r.sizes = {};
           r.scales = {2};
           r.policy = resize_policy::not_larger;
         }));
  refuse("sizes: leave no element", with([](auto& r) {
           r.sizes = {1, 1};
           r.policy = resize_policy::not_larger;
           r.x = r.x.value().broadcast_to({2, 4, 5}).slice(1, 0, 1);
         }));
  refuse("antialias: is true", with([](auto& r) {
           r.mode = resize_mode::nearest;
           r.antialias = true;
         }));
  refuse("exclude_outside: is true", with([](auto& r) {
           r.mode = resize_mode::area;
           r.exclude_outside = true;
         }));
  refuse("coordinates: are stated", with([](auto& r) {
           r.mode = resize_mode::area;
           r.coordinates = resize_coordinates::asymmetric;
         }));
  refuse("a: is not a finite", with([](auto& r) { r.a = NAN; }));
  refuse("roi_begin: is not finite", with([](auto& r) { r.roi_begin = {NAN}; }));
  refuse("roi_end: is not finite", with([](auto& r) { r.roi_end = {1, INFINITY}; }));
  refuse("y: has the shape [2, 3, 7]", with([&](auto& r) { r.y = make(u8, {2, 3, 7}); }));
}

TEST_P(elementwise_refusals, frame_signal) {
  const sluice::frame_signal valid{
      .signal = make(f32, {2, 16}), .window = make(f32, {4}), .n_fft = 4, .hop = 4};
  refuse_operand("signal", valid, &sluice::frame_signal::signal, true);
  refuse_operand("window", valid, &sluice::frame_signal::window, false);
  refuse_result(valid, make(f32, {2, 5, 4}), &sluice::frame_signal::signal);
  refuse_result(valid, make(f32, {2, 5, 4}), &sluice::frame_signal::window);
  const auto with = [&](auto change) {
    auto operation = valid;
    change(operation);
    return operation;
  };
  refuse("signal: is of type i32", with([&](auto& f) { f.signal = make(i32, {16}); }));
  refuse("signal: has no dimension",
         with([&](auto& f) { f.signal = make(f32, {1}).select(0, 0); }));
  refuse("signal: has too many", with([&](auto& f) {
           f.signal = make(f32, {1, 1, 1, 1, 1, 1, 1, 16});
         }));
  refuse("window: is of type f64", with([&](auto& f) { f.window = make(f64, {4}); }));
  refuse("window: has the shape [5]", with([&](auto& f) { f.window = make(f32, {5}); }));
  refuse("window: has the shape [1, 4]", with([&](auto& f) { f.window = make(f32, {1, 4}); }));
  refuse("n_fft", with([](auto& f) {
           f.n_fft = 0;
           f.window = {};
         }));
  refuse("n_fft: -1", with([](auto& f) { f.n_fft = -1; }));
  refuse("n_fft", with([](auto& f) {
           f.n_fft = most;
           f.window = {};
         }));
  refuse("hop: is not given", with([](auto& f) { f.hop = 0; }));
  refuse("hop", with([](auto& f) { f.hop = most; }));
}

TEST_P(elementwise_refusals, power_spectrum) {
  const sluice::power_spectrum valid{.x = make(c64, {3, 4})};
  refuse_operand("x", valid, &sluice::power_spectrum::x, true);
  refuse_result(valid, make(f32, {3, 4}), &sluice::power_spectrum::x);
  refuse("x: is of type f32", sluice::power_spectrum{.x = make(f32, {3})});
  refuse("y: is of type f64", sluice::power_spectrum{.x = valid.x, .y = make(f64, {3, 4})});
}

TEST_P(elementwise_refusals, power_to_decibel) {
  const sluice::power_to_decibel valid{.x = make(f32, {3, 4}), .reference = make(f32, {1})};
  refuse_operand("x", valid, &sluice::power_to_decibel::x, true);
  refuse_operand("reference", valid, &sluice::power_to_decibel::reference, true);
  refuse_result(valid, make(f32, {3, 4}), &sluice::power_to_decibel::x);
  const auto with = [&](auto change) {
    auto operation = valid;
    change(operation);
    return operation;
  };
  refuse("x: is of type f16", with([&](auto& d) { d.x = make(f16, {3}); }));
  refuse("reference: is of type f64", with([&](auto& d) { d.reference = make(f64, {1}); }));
  refuse("reference: has the shape [3]", with([&](auto& d) { d.reference = make(f32, {3}); }));
  for (const double amin : {0.0, -1.0, 1e-100, 1e100, not_a_number}) {
    refuse("amin", with([&](auto& d) { d.options.amin = amin; }));
  }
  for (const double top_db : {-1.0, not_a_number}) {
    refuse("top_db", with([&](auto& d) { d.options.top_db = top_db; }));
  }
  refuse("y: shares memory with reference", with([&](auto& d) {
           const auto memory = make(f32, {4});
           d.x = make(f32, {3});
           d.reference = memory.slice(0, 0, 3);
           d.y = memory.slice(0, 1, 4);
         }));
}

INSTANTIATE_TEST_SUITE_P(devices, elementwise_refusals, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
