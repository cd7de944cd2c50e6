// SPDX-License-Identifier: Apache-2.0
// Transfers as operations, in all element types, and `fill`.
#include "tests/operations/executing.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/operations/transfer.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

namespace sluice::test {
namespace {

constexpr element_type all_types[] = {element_type::boolean, element_type::u8,   element_type::i8,
                                      element_type::u16,     element_type::i16,  element_type::i32,
                                      element_type::u32,     element_type::i64,  element_type::u64,
                                      element_type::f16,     element_type::bf16, element_type::f32,
                                      element_type::f64,     element_type::c64,  element_type::c128,
                                      element_type::e4m3,    element_type::e5m2};

class transfer : public executor_test {
 protected:
  /// A tensor of random bytes.
  host_tensor random(element_type type, const extents& shape) {
    host_tensor values(type, shape);
    const auto bytes = random_values<std::uint8_t>(generator_, values.bytes());
    std::copy(bytes.begin(), bytes.end(), static_cast<std::uint8_t*>(values.data().get()));
    return values;
  }
  tensor put(const host_tensor& values) {
    return run(test_executor(), sluice::upload{.values = values});
  }
  host_tensor get(const tensor& x) {
    const auto result = std::make_shared<host_tensor>();
    (void)run(test_executor(), sluice::download{.x = x, .target = result});
    return *result;
  }
  template <class T>
  std::vector<T> filled(const fill& operation) {
    return get(run(test_executor(), operation)).to_vector<T>();
  }
  static bool same_bytes(const host_tensor& a, const host_tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.data().get(), b.data().get(), a.bytes()) == 0;
  }
  std::int64_t number(std::int64_t first, std::int64_t last) {
    return std::uniform_int_distribution<std::int64_t>(first, last)(generator_);
  }

 private:
  std::mt19937_64 generator_ = make_generator();
};

TEST_P(transfer, brings_elements_of_all_types_there_and_back) {
  for (const auto type : all_types) {
    SCOPED_TRACE(to_string(type));
    for (const auto& shape :
         {extents{number(1, 40), number(1, 40)}, extents{number(1, 9)}, extents{}, extents{3, 0, 2},
          extents{number(20'000, 70'000)}, extents{300'000}}) {
      const auto values = random(type, shape);
      const auto x = put(values);
      EXPECT_EQ(x.type(), type);
      EXPECT_EQ(x.shape(), shape);
      EXPECT_TRUE(same_bytes(get(x), values));
    }
  }
}

TEST_P(transfer, takes_pinned_memory) {
  for (const auto count : {std::int64_t{10}, std::int64_t{1'000'000}}) {
    const auto values = random(element_type::f32, {count});
    const auto before = runtime().statistics().pinned_bytes;
    auto pinned = host_tensor::pinned(runtime(), element_type::f32, {count});
    std::memcpy(pinned.data().get(), values.data().get(), values.bytes());
    const auto x = put(pinned);
    const auto result =
        std::make_shared<host_tensor>(host_tensor::pinned(runtime(), element_type::f32, {count}));
    const auto memory = result->data();
    (void)run(test_executor(), sluice::download{.x = x, .target = result});
    EXPECT_EQ(result->data(), memory);
    EXPECT_TRUE(same_bytes(*result, values));
    EXPECT_EQ(runtime().statistics().pinned_bytes, before) << "the bytes passed through a slot";
  }
}

TEST_P(transfer, writes_a_part_of_a_tensor) {
  const auto all = put(host_tensor(std::vector<float>(20, 1), {5, 4}));
  const auto y =
      run(test_executor(), sluice::upload{.values = host_tensor(std::vector<float>(8, 2), {2, 4}),
                                          .y = all.slice(0, 1, 3)});
  EXPECT_EQ(y, all.slice(0, 1, 3));
  std::vector<float> expected(20, 1);
  std::fill(expected.begin() + 4, expected.begin() + 12, 2.0F);
  EXPECT_EQ(get(all).to_vector<float>(), expected);
  EXPECT_EQ(get(all.slice(0, 2, 4)).to_vector<float>(),
            std::vector<float>(expected.begin() + 8, expected.begin() + 16));
}

TEST_P(transfer, takes_any_strides) {
  for (const auto type : all_types) {
    SCOPED_TRACE(to_string(type));
    const auto inner = random(type, {number(1, 30), number(1, 30)});
    const auto last = inner.shape()[0];
    const auto outer = random(type, {inner.shape()[1], last + 3});
    const auto all = put(outer);
    // Some columns of `all` are the rows of `inner`.
    const auto y = all.slice(1, 2, 2 + last).transposed();
    EXPECT_EQ(run(test_executor(), sluice::upload{.values = inner, .y = y}), y);
    EXPECT_TRUE(same_bytes(get(y), inner));
    EXPECT_TRUE(same_bytes(get(y.transposed()),
                           get(run(test_executor(), strided_copy{.x = y.transposed()}))));
    (void)run(test_executor(), fill{.value = 1, .y = y});
    const auto ones = get(run(test_executor(), fill{.value = 1, .shape = y.shape(), .type = type}));
    EXPECT_TRUE(same_bytes(get(y), ones));
    // The elements around it stay as they are.
    (void)run(test_executor(),
              sluice::upload{.values = get(put(outer).slice(1, 2, 2 + last).transposed()), .y = y});
    EXPECT_TRUE(same_bytes(get(all), outer));
    EXPECT_TRUE(same_bytes(get(put(random(type, {1})).broadcast_to({0, 3})), random(type, {0, 3})));
  }
  const auto one = put(host_tensor(std::vector<float>{7}, {1}));
  EXPECT_EQ(get(one.broadcast_to({2, 3})).to_vector<float>(), std::vector<float>(6, 7));
}

TEST_P(transfer, a_download_is_answered_when_the_elements_are_there) {
  const host_tensor values(std::vector<std::uint32_t>(1000, 7));
  const auto x = put(values);
  const auto result = std::make_shared<host_tensor>(x.type(), x.shape());
  const auto address = result->data();
  (void)run(test_executor(), sluice::download{.x = x, .target = result},
            {.reply = reply_on::enqueued});
  EXPECT_EQ(result->to_vector<std::uint32_t>(), std::vector<std::uint32_t>(1000, 7));
  EXPECT_EQ(result->data(), address) << "a given tensor is filled";
}

TEST_P(transfer, fills_tensors_with_infinities_and_nan) {
  for (const double value : {HUGE_VAL, -HUGE_VAL}) {
    EXPECT_EQ(filled<float>({.value = value, .shape = extents{5}}),
              std::vector<float>(5, static_cast<float>(value)));
    EXPECT_EQ(filled<double>({.value = value, .shape = extents{5}, .type = element_type::f64}),
              std::vector<double>(5, value));
  }
  for (const auto x : filled<float>({.value = std::nan(""), .shape = extents{5}})) {
    EXPECT_TRUE(std::isnan(x));
  }
  EXPECT_TRUE(throws(errc::invalid_argument, "value: inf is not", [&] {
    (void)run(test_executor(),
              fill{.value = HUGE_VAL, .shape = extents{1}, .type = element_type::i32});
  }));
}

TEST_P(transfer, fills_tensors_of_all_types) {
  EXPECT_EQ(filled<float>({.value = 0.1, .shape = extents{2, 3}}), std::vector<float>(6, 0.1F));
  EXPECT_EQ(filled<double>({.value = 0.1, .shape = extents{5}, .type = element_type::f64}),
            std::vector<double>(5, 0.1));
  using c128 = std::complex<double>;
  EXPECT_EQ(filled<c128>({.value = c128(1, -2), .shape = extents{5}, .type = element_type::c128}),
            std::vector<c128>(5, {1, -2}));
  EXPECT_EQ(filled<std::uint8_t>({.value = 255, .shape = extents{5}, .type = element_type::u8}),
            std::vector<std::uint8_t>(5, 255));
  EXPECT_EQ(filled<std::int8_t>({.value = -128, .shape = extents{5}, .type = element_type::i8}),
            std::vector<std::int8_t>(5, -128));
  constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(
      filled<std::uint64_t>({.value = largest, .shape = extents{5}, .type = element_type::u64}),
      std::vector<std::uint64_t>(5, largest));
  for (const auto type : {element_type::f16, element_type::bf16}) {
    const auto y = run(test_executor(), fill{.value = 0.5, .shape = extents{4}, .type = type});
    const auto values = get(y);
    for (int i = 0; i < 4; ++i) {
      const float element =
          type == element_type::f16
              ? static_cast<float>(static_cast<const f16*>(values.data().get())[i])
              : static_cast<float>(static_cast<const bf16*>(values.data().get())[i]);
      EXPECT_EQ(element, 0.5F);
    }
  }
  const auto bits = [&](element_type type, const scalar& value) {
    const auto y =
        get(run(test_executor(), fill{.value = value, .shape = extents{1}, .type = type}));
    std::uint16_t all = 0;
    std::memcpy(&all, y.data().get(), sizeof all);
    return all;
  };
  // Halfway between two numbers in f32, but not as they are.
  EXPECT_EQ(bits(element_type::f16, 1 + 0x1p-11 + 0x1p-30), 0x3c01);
  EXPECT_EQ(bits(element_type::bf16, (std::int64_t{1} << 60) + (std::int64_t{1} << 52) + 1),
            0x5d81);
  EXPECT_EQ(bits(element_type::bf16, (std::uint64_t{1} << 60) + (std::uint64_t{1} << 52)), 0x5d80);
  EXPECT_EQ(bits(element_type::f16, -2), 0xc000);
  EXPECT_EQ(filled<float>({.value = 1, .shape = extents{0, 3}}), std::vector<float>());
  EXPECT_EQ(filled<std::uint8_t>({.value = 77, .shape = extents{0}, .type = element_type::u8}),
            std::vector<std::uint8_t>());
  // A given tensor says what it takes.
  const auto y = put(host_tensor(std::vector<std::int32_t>(6, 1), {2, 3}));
  (void)run(test_executor(), fill{.value = -7, .y = y.slice(0, 1, 2)});
  EXPECT_EQ(get(y).to_vector<std::int32_t>(), (std::vector<std::int32_t>{1, 1, 1, -7, -7, -7}));
}

TEST_P(transfer, refuses_arguments_by_name) {
  const auto x = put(host_tensor(std::vector<float>(12, 1), {3, 4}));
  const auto before = runtime().statistics();
  const auto refused = [&](errc code, const char* word, auto operation) {
    SCOPED_TRACE(word);
    EXPECT_TRUE(throws(code, word, [&] { (void)run(test_executor(), operation); }));
  };
  const host_tensor values(std::vector<float>(12, 2), {3, 4});
  refused(errc::invalid_argument, "values: is not given", sluice::upload{});
  refused(errc::invalid_argument, "y: has the shape",
          sluice::upload{.values = values, .y = x.slice(0, 0, 2)});
  refused(errc::invalid_argument, "y: is of type",
          sluice::upload{.values = host_tensor(std::vector<double>(12), {3, 4}), .y = x});
  refused(errc::invalid_argument, "x: is not given",
          sluice::download{.target = std::make_shared<host_tensor>(values)});
  refused(errc::invalid_argument, "target: is not given", sluice::download{.x = x});
  refused(errc::invalid_argument, "target: is of type",
          sluice::download{
              .x = x, .target = std::make_shared<host_tensor>(element_type::f32, extents{4, 3})});
  const auto nowhere = std::make_shared<host_tensor>();
  refused(
      errc::out_of_memory, "x: its packed copy takes",
      sluice::download{
          .x = put(host_tensor(std::vector<float>(1), {1})).broadcast_to({std::int64_t{1} << 44U}),
          .target = nowhere});
  EXPECT_FALSE(*nowhere);
  refused(errc::invalid_argument, "shape: is not given", fill{.value = 1});
  refused(errc::invalid_argument,
          "value:", fill{.value = 256, .shape = extents{1}, .type = element_type::u8});
  refused(errc::invalid_argument,
          "value:", fill{.value = -1, .shape = extents{1}, .type = element_type::u64});
  refused(errc::invalid_argument,
          "value:", fill{.value = 2, .shape = extents{1}, .type = element_type::boolean});
  refused(errc::invalid_argument,
          "value:", fill{.value = 1e300, .shape = extents{1}, .type = element_type::f32});
  refused(errc::invalid_argument,
          "value:", fill{.value = 1e6, .shape = extents{1}, .type = element_type::f16});
  refused(errc::invalid_argument,
          "value:", fill{.value = std::complex<double>(0, 1), .shape = extents{1}});
  refused(errc::invalid_argument, "shape:", fill{.value = 1, .shape = extents{-1}});
  EXPECT_EQ(runtime().statistics().blocks, before.blocks);
  EXPECT_EQ(get(x).to_vector<float>(), std::vector<float>(12, 1));
}

TEST_P(transfer, counts_the_elements_of_a_waiting_upload) {
  const auto small = make_executor({.max_waiting_bytes = 1 << 20U});
  small->prepare(descriptor_of(operation_type<sluice::upload>{}));
  const host_tensor large(element_type::u8, {1 << 19U});
  gate closed;
  closed.hold(small->lane().stream());
  std::vector<pending_answer> answers;
  while (!small->lane().full()) answers.push_back(submit(*small, fill{.shape = extents{1}}));
  answers.push_back(submit(*small, sluice::upload{.values = large}));
  EXPECT_GT(small->status().bytes, large.bytes());
  auto refused = submit(*small, sluice::upload{.values = large});
  EXPECT_TRUE(throws(errc::overloaded, "bytes", [&] { (void)wait(*small, refused); }));
  closed.open();
  for (auto& a : answers) (void)wait(*small, a);
}

TEST_P(transfer, converts_host_tensors_as_cast_does) {
  std::vector<double> numbers;
  for (int i = 0; i < 91; ++i) numbers.push_back(static_cast<double>(number(-40'000, 40'000)) / 64);
  for (const auto from : all_types) {
    const auto x = host_tensor(numbers, {7, 13}).to(from);
    for (const auto to : all_types) {
      SCOPED_TRACE(std::string(to_string(from)) + " to " + std::string(to_string(to)));
      const bool is_refused =
          from >= element_type::c64 && to < element_type::c64 && to != element_type::boolean;
      if (is_refused) {
        EXPECT_TRUE(throws(errc::invalid_argument, "type: is " + std::string(to_string(to)),
                           [&] { (void)x.to(to); }));
        continue;
      }
      const auto y = x.to(to);
      EXPECT_EQ(y.type(), to);
      EXPECT_EQ(y.shape(), x.shape());
      const auto expected = get(run(test_executor(), sluice::cast{.x = put(x), .type = to}));
      EXPECT_TRUE(same_bytes(y, expected));
      EXPECT_EQ(y.data() == x.data(), from == to);
    }
  }
  EXPECT_EQ(host_tensor(element_type::f32, {0, 3}).to(element_type::f16).shape(), (extents{0, 3}));
  EXPECT_FALSE(host_tensor().to(element_type::f16));
  constexpr float infinite = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(host_tensor(std::vector<float>{infinite, -infinite, nan, 1.9F, -1.9F})
                .to(element_type::i8)
                .to_vector<std::int8_t>(),
            (std::vector<std::int8_t>{127, -128, 0, 1, -1}));
  EXPECT_TRUE(throws(errc::invalid_argument, "type: 99", [] {
    (void)host_tensor(std::vector<float>{1}).to(static_cast<element_type>(99));
  }));
}

INSTANTIATE_TEST_SUITE_P(devices, transfer, every_device(), parameter_name);

TEST(host_tensor, shares_its_elements) {
  const host_tensor values(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto copy = values;
  EXPECT_EQ(copy.values<float>().data(), values.values<float>().data());
  EXPECT_EQ(values.type(), element_type::f32);
  EXPECT_EQ(values.bytes(), 24U);
  EXPECT_EQ(values.to_vector<float>()[5], 6);
  EXPECT_FALSE(host_tensor());
  EXPECT_TRUE(host_tensor(std::vector<float>()));
}

TEST(host_tensor, has_another_shape_with_the_same_elements) {
  const host_tensor rows(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const auto columns = rows.reshape({3, 1, 2});
  EXPECT_EQ(columns.shape(), (extents{3, 1, 2}));
  EXPECT_EQ(columns.data(), rows.data());
  EXPECT_TRUE(throws(errc::invalid_argument, "", [&] { (void)rows.reshape({7}); }));
}

TEST(host_tensor, shares_its_first_elements) {
  const host_tensor x(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2});
  const auto rows = x.first(2);
  EXPECT_EQ(rows.shape(), (extents{2, 2}));
  EXPECT_EQ(rows.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(rows.data(), x.data());
  EXPECT_EQ(x.first(0).shape(), (extents{0, 2}));
  EXPECT_EQ(host_tensor(element_type::f32, {0, 2}).first(0).size(), 0U);
  for (const std::int64_t count : {4, -1}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "count: is", [&] { (void)x.first(count); }));
  }
  const host_tensor number(element_type::f32, {});
  EXPECT_TRUE(throws(errc::invalid_argument, "no dimension", [&] { (void)number.first(0); }));
}

TEST(host_tensor, shares_elements_of_others) {
  const auto memory = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  {
    const auto x = host_tensor::external({memory, memory->data()}, element_type::f32, {2, 3});
    EXPECT_EQ(x.values<float>().data(), memory->data());
    EXPECT_EQ(x.shape(), extents({2, 3}));
    EXPECT_EQ(memory.use_count(), 2);
  }
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_TRUE(throws(errc::invalid_argument, "elements",
                     [] { (void)host_tensor::external(nullptr, element_type::f32, {0}); }));
  const std::shared_ptr<void> odd(memory, reinterpret_cast<char*>(memory->data()) + 2);
  EXPECT_TRUE(throws(errc::invalid_argument, "elements",
                     [&] { (void)host_tensor::external(odd, element_type::f32, {1}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "shape",
                     [&] { (void)host_tensor::external(memory, element_type::f32, {-1}); }));
}

TEST(host_tensor, leaves_nothing_behind_when_it_is_moved) {
  host_tensor source(std::vector<float>{1, 2, 3});
  const auto address = source.data();
  host_tensor target(std::move(source));
  EXPECT_EQ(target.data(), address);
  // NOLINTNEXTLINE(bugprone-use-after-move): this is the test.
  EXPECT_TRUE(!source && source.size() == 0 && source.shape().empty());
  source = std::move(target);
  EXPECT_EQ(source.data(), address);
}

TEST(host_tensor, holds_booleans) {
  const std::vector<bool> values{true, false, true, true};
  host_tensor booleans(values, {2, 2});
  EXPECT_EQ(booleans.type(), element_type::boolean);
  EXPECT_EQ(booleans.to_vector<bool>(), values);
  booleans.values<bool>()[1] = true;
  EXPECT_EQ(booleans.to_vector<bool>(), std::vector<bool>(4, true));
  EXPECT_EQ(host_tensor(std::vector<bool>()).shape(), extents{0});
  EXPECT_TRUE(throws(errc::invalid_argument, "shape", [&] { (void)host_tensor(values, {3}); }));
}

TEST(host_tensor, refuses_shapes_and_types_that_do_not_fit) {
  EXPECT_TRUE(throws(errc::invalid_argument, "shape", [] {
    (void)host_tensor(std::vector<float>(5), {2, 3});
  }));
  EXPECT_TRUE(throws(errc::invalid_argument, "overflows", [] {
    (void)host_tensor(element_type::f32, {std::int64_t{1} << 40U, std::int64_t{1} << 40U});
  }));
  const host_tensor five(std::vector<float>(5));
  EXPECT_TRUE(throws(errc::invalid_argument, "values: are of type f32, but are read as f64",
                     [&] { (void)five.values<double>(); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "values: are of type f32, but are read as f64",
                     [&] { (void)five.to_vector<double>(); }));
}

template <class Tensor>
concept lends_values = requires(Tensor&& x) {
  std::forward<Tensor>(x).template values<float>();
};

// A temporary would be destroyed before its elements are read.
static_assert(lends_values<host_tensor&> && lends_values<const host_tensor&>);
static_assert(!lends_values<host_tensor> && !lends_values<const host_tensor>);

}  // namespace
}  // namespace sluice::test
