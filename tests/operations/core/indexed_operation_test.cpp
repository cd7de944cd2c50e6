// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/executing.hpp"
#include "tests/operations/strided.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/indexed_operation.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

struct difference_body {
  const std::int64_t* a;
  const std::int64_t* b;
  std::int64_t* y;
  void operator()(std::size_t i) const {
    y[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(a[i]) -
                                     static_cast<std::uint64_t>(b[i]));
  }
};

/// y = a - b for i64 of one shape.
struct difference {
  operand a{};
  operand b{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("a", &difference::a), input("b", &difference::b),
                           output("y", &difference::y));
  }
  static constexpr std::string_view name = "difference";
  static constexpr bool has_kernel = false;
  struct call {
    std::size_t count;
  };
  static call infer(const difference& op, inference& inference) {
    const auto& a = inference.require(op.a);
    const auto& b = inference.require(op.b);
    if (b.shape != a.shape) throw inference.refusal(op.b, "has another shape than a");
    inference.result(op.y, element_type::i64, a.shape);
    return {a.size()};
  }
  static difference_body body(const call&, const launch_of<difference>& launch) {
    return {launch.get<const std::int64_t>(&difference::a),
            launch.get<const std::int64_t>(&difference::b),
            launch.get<std::int64_t>(&difference::y)};
  }
};

struct transposing_body {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t row_stride;
  std::int64_t column_stride;
  const std::int64_t* x;
  std::int64_t* y;
  void operator()(std::size_t i) const {
    const auto index = static_cast<std::int64_t>(i);
    y[i] = x[index / rows * column_stride + index % rows * row_stride];
  }
};

/// y = the transposed matrix x, with a body that takes the strides of x.
struct transposed_copy {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &transposed_copy::x), output("y", &transposed_copy::y));
  }
  static constexpr std::string_view name = "transposed_copy";
  static constexpr bool has_kernel = false;
  static constexpr bool takes_strides = true;
  struct call {
    std::size_t count;
    std::array<std::int64_t, 2> shape;
    std::array<std::int64_t, 2> strides;
  };
  static call infer(const transposed_copy& op, inference& inference) {
    const auto& x = inference.require(op.x);
    inference.result(op.y, element_type::i64, {x.shape[1], x.shape[0]});
    inference.make_contiguous(op.y);
    return {x.size(), {x.shape[0], x.shape[1]}, {x.strides[0], x.strides[1]}};
  }
  static transposing_body body(const call& c, const launch_of<transposed_copy>& launch) {
    return {c.shape[0],
            c.shape[1],
            c.strides[0],
            c.strides[1],
            launch.get<const std::int64_t>(&transposed_copy::x),
            launch.get<std::int64_t>(&transposed_copy::y)};
  }
};

/// y = x of any type, which the launch takes for f64. Refuses nothing. May be launched in batches.
struct unchecked_copy {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &unchecked_copy::x), output("y", &unchecked_copy::y));
  }
};
struct unchecked_copy_call {
  std::size_t count;
};
const operation_descriptor& descriptor_of(operation_type<unchecked_copy>) {
  using call = unchecked_copy_call;
  using launch = launch_of<unchecked_copy>;
  static const typed_operation_descriptor<unchecked_copy, call> descriptor(
      {.name = "unchecked_copy",
       .infer = [](const unchecked_copy& op, inference& inference) -> call {
         const auto& x = inference.require(op.x);
         inference.result(op.y, x.type, x.shape);
         inference.make_contiguous(op.x, op.y);
         return {x.size()};
       },
       .host = {.library = "test"},
       .compute =
           [](const call& c, const launch& memory) {
             const auto* const x = memory.get<const double>(&unchecked_copy::x);
             std::copy_n(x, c.count, memory.get<double>(&unchecked_copy::y));
           },
       .cuda = {.library = "test"},
       .enqueue = [](lane_libraries&, const call&,
                     const launch& memory) { (void)memory.get<const double>(&unchecked_copy::x); },
       .batches = {.most = [](const call&) -> std::size_t { return 8; },
                   .same = [](const call& a, const call& b) { return a.count == b.count; },
                   .enqueue =
                       [](lane_libraries&, const call&, const batch_of<unchecked_copy>& batch) {
                         (void)batch[0].get<const double>(&unchecked_copy::x);
                       }}});
  return descriptor;
}

class indexed_operations : public executor_test {
 protected:
  template <class T>
  tensor values(std::vector<T> elements) {
    return upload(runtime(), stream(), elements);
  }
  inline static const std::string wrong_type =
      "x: is of type f32, but its launch accesses it as f64";
};

TEST(launch_of_operands, is_checked_for_their_element_types) {
  double x = 1;
  double y = 2;
  const std::array<void*, 4> addresses{&x, &y, &x, nullptr};
  const std::array types{element_type::f64, element_type::c64};
  const launch_of<unchecked_copy> one({.addresses = std::span(addresses).first(2), .types = types});
  EXPECT_EQ(one.get<const double>(&unchecked_copy::x), &x);
  EXPECT_EQ(one.get<const void>(&unchecked_copy::x), &x);
  EXPECT_EQ(one.get<std::byte>(&unchecked_copy::y), reinterpret_cast<std::byte*>(&y));
  EXPECT_TRUE(throws(errc::invalid_argument, "y: is of type c64, but its launch accesses it as f64",
                     [&] { (void)one.get<double>(&unchecked_copy::y); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "x: is of type f64, but its launch accesses it as f32",
                     [&] { (void)one.get<const float>(&unchecked_copy::x); }));
  const batch_of<unchecked_copy> batch({.addresses = addresses, .types = types});
  EXPECT_TRUE(throws(errc::invalid_argument, "x: is of type f64",
                     [&] { (void)batch[1].get<const float>(&unchecked_copy::x); }));
  EXPECT_EQ(batch[1].get<float>(&unchecked_copy::y), nullptr) << "is not given";
  const launch_of<unchecked_copy> unchecked({.addresses = std::span(addresses).first(2)});
  EXPECT_EQ(unchecked.get<const float>(&unchecked_copy::x), reinterpret_cast<const float*>(&x));
}

TEST_P(indexed_operations, fail_if_their_launch_takes_an_operand_for_another_type) {
  const auto x = values<float>({1, 2, 3, 4});
  EXPECT_TRUE(throws(errc::invalid_argument, wrong_type,
                     [&] { (void)run(test_executor(), unchecked_copy{.x = x}); }));
  const auto gaps = x.slice(0, 0, 4, 2);
  EXPECT_TRUE(throws(errc::invalid_argument, wrong_type,
                     [&] { (void)run(test_executor(), unchecked_copy{.x = gaps}); }));
}

TEST_P(indexed_operations, fail_in_a_batch_if_it_takes_an_operand_for_another_type) {
  const auto x = values<float>({1, 2, 3, 4});
  gate closed;
  closed.hold(test_executor().lane().stream());
  std::vector<pending<tensor>> answers;
  for (int i = 0; i < 6; ++i) answers.push_back(submit(test_executor(), unchecked_copy{.x = x}));
  closed.open();
  for (auto& answer : answers) {
    EXPECT_TRUE(throws(errc::invalid_argument, wrong_type, [&] { (void)wait(answer); }));
  }
}

TEST_P(indexed_operations, fail_in_a_program_if_a_step_takes_an_operand_for_another_type) {
  program_builder p;
  const auto x = p.input("x");
  const auto program =
      std::move(p).build({p.add("copy", unchecked_copy{.x = p.add("sum", add(x, x))})});
  EXPECT_TRUE(throws(errc::invalid_argument, "step 'copy': " + wrong_type, [&] {
    (void)run(test_executor(), sluice::run{program, {values<float>({1, 2, 3, 4})}});
  }));
  if (runtime().device().id().kind != device_kind::host) return;  // it enqueues nothing there
  const auto results = run(test_executor(), sluice::run{program, {values<double>({1, 2})}});
  EXPECT_EQ(download(results[0].as<double>(), stream()), (std::vector<double>{2, 4}));
}

TEST_P(indexed_operations, get_strides_if_they_take_them) {
  if (runtime().device().id().kind != device_kind::host) GTEST_SKIP() << "has no kernel";
  auto generator = make_generator();
  for (int i = 0; i < 20; ++i) {
    const extents shape{static_cast<std::int64_t>(generator() % 6) + 1,
                        static_cast<std::int64_t>(generator() % 6) + 1};
    const auto x =
        strided<std::int64_t>(runtime(), stream(), generator, random_layout(generator, shape));
    const auto y =
        strided<std::int64_t>(runtime(), stream(), generator, {.shape = {shape[1], shape[0]}});
    EXPECT_EQ(run(test_executor(), transposed_copy{.x = x.view(), .y = y.view()}), y.view());
    auto expected = y.memory();
    for_each_index(shape, [&](const extents& index) {
      expected[y.position({index[1], index[0]})] = x[index];
    });
    EXPECT_EQ(y.current(), expected);
  }
}

TEST_P(indexed_operations, compute_operands_of_any_strides_on_the_host) {
  if (runtime().device().id().kind != device_kind::host) GTEST_SKIP() << "has no kernel";
  auto generator = make_generator();
  for (int i = 0; i < 30; ++i) {
    extents shape;
    for (auto rank = generator() % 4; rank > 0; --rank) {
      shape.push_back(static_cast<std::int64_t>(generator() % 5));
    }
    SCOPED_TRACE(to_string(shape));
    const auto make = [&] {
      return strided<std::int64_t>(runtime(), stream(), generator, random_layout(generator, shape));
    };
    const auto a = make();
    const auto b = make();
    const auto y = make();
    EXPECT_EQ(run(test_executor(), difference{.a = a.view(), .b = b.view(), .y = y.view()}),
              y.view());
    auto expected = y.memory();
    for_each_index(shape, [&](const extents& index) {
      const auto left = static_cast<std::uint64_t>(a[index]);
      const auto right = static_cast<std::uint64_t>(b[index]);
      expected[y.position(index)] = static_cast<std::int64_t>(left - right);
    });
    EXPECT_EQ(y.current(), expected);
    EXPECT_TRUE(run(test_executor(), difference{.a = a.view(), .b = b.view()}).is_contiguous());
  }
}

TEST_P(indexed_operations, are_refused_by_a_gpu_without_a_kernel) {
  if (runtime().device().id().kind == device_kind::host) GTEST_SKIP() << "computes it";
  const tensor x = runtime().allocate<std::int64_t>(4, stream(), "x");
  EXPECT_TRUE(throws(errc::unsupported, "difference: this build does not have it for GPUs",
                     [&] { (void)run(test_executor(), difference{.a = x, .b = x}); }));
}

TEST_P(indexed_operations, are_named_in_refusals) {
  const tensor x = runtime().allocate<std::int64_t>(4, stream(), "x");
  EXPECT_TRUE(throws(errc::invalid_argument, "b: has another shape than a", [&] {
    (void)run(test_executor(), difference{.a = x, .b = x.slice(0, 0, 3)});
  }));
  EXPECT_EQ(descriptor_of(operation_type<difference>{}).name(), "difference");
  EXPECT_EQ(descriptor_of(operation_type<difference>{}).library(device_kind::host), "own");
}

INSTANTIATE_TEST_SUITE_P(devices, indexed_operations, every_device(), parameter_name);

}  // namespace
}  // namespace sluice::test
