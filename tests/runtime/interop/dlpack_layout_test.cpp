// SPDX-License-Identifier: Apache-2.0
// Valid and invalid descriptors, and the layouts read from them.
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/dlpack.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A valid descriptor of `f32` elements, which the tests make invalid.
struct descriptor {
  std::vector<std::int64_t> shape{3, 5};
  std::vector<std::int64_t> strides{5, 1};
  alignas(16) std::array<float, 64> elements{};
  dlpack::tensor tensor{.data = elements.data(),
                        .device = {dlpack::cpu, 0},
                        .ndim = 2,
                        .dtype = {dlpack::real, 32, 1},
                        .shape = shape.data(),
                        .strides = strides.data(),
                        .byte_offset = 0};
};

template <class Spoil>
::testing::AssertionResult refused(errc code, const std::string& field, Spoil spoil) {
  descriptor d;
  spoil(d);
  return throws(code, field, [&] { (void)dlpack::layout_of(d.tensor); });
}

TEST(dlpack_layout, is_what_the_descriptor_says) {
  descriptor d;
  d.tensor.byte_offset = 8;
  const auto read = dlpack::layout_of(d.tensor);
  EXPECT_EQ(read.address, d.elements.data() + 2);
  EXPECT_EQ(read.bytes, 60u);
  EXPECT_EQ(read.type, element_type::f32);
  EXPECT_EQ(read.shape, (extents{3, 5}));
  EXPECT_EQ(read.strides, (extents{5, 1}));
}

TEST(dlpack_layout, knows_the_types) {
  using dlpack::data_type;
  for (const auto& [described, type] :
       {std::pair(data_type{dlpack::boolean, 8, 1}, element_type::boolean),
        std::pair(data_type{dlpack::unsigned_integer, 8, 1}, element_type::u8),
        std::pair(data_type{dlpack::signed_integer, 8, 1}, element_type::i8),
        std::pair(data_type{dlpack::unsigned_integer, 16, 1}, element_type::u16),
        std::pair(data_type{dlpack::signed_integer, 16, 1}, element_type::i16),
        std::pair(data_type{dlpack::signed_integer, 32, 1}, element_type::i32),
        std::pair(data_type{dlpack::unsigned_integer, 64, 1}, element_type::u64),
        std::pair(data_type{dlpack::real, 16, 1}, element_type::f16),
        std::pair(data_type{dlpack::bfloat, 16, 1}, element_type::bf16),
        std::pair(data_type{dlpack::float8_e4m3fn, 8, 1}, element_type::e4m3),
        std::pair(data_type{dlpack::float8_e5m2, 8, 1}, element_type::e5m2),
        std::pair(data_type{dlpack::complex, 64, 1}, element_type::c64)}) {
    descriptor d;
    d.tensor.dtype = described;
    EXPECT_EQ(dlpack::layout_of(d.tensor).type, type);
  }
}

TEST(dlpack_layout, is_compact_without_strides) {
  descriptor d;
  d.tensor.strides = nullptr;
  EXPECT_EQ(dlpack::layout_of(d.tensor).strides, (extents{5, 1}));
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 60u);
}

TEST(dlpack_layout, of_no_dimensions_is_one_element) {
  descriptor d;
  d.tensor.ndim = 0;
  d.tensor.shape = nullptr;
  d.tensor.strides = nullptr;
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 4u);
}

TEST(dlpack_layout, of_no_elements_needs_no_data) {
  descriptor d;
  d.shape = {3, 0};
  d.tensor.shape = d.shape.data();
  d.tensor.data = nullptr;
  d.tensor.byte_offset = 3;
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 0u);
  EXPECT_EQ(dlpack::layout_of(d.tensor).address, nullptr);
}

TEST(dlpack_layout, ignores_the_stride_of_one_element) {
  descriptor d;
  d.shape = {1, 5};
  d.strides = {std::numeric_limits<std::int64_t>::min(), 2};
  d.tensor.shape = d.shape.data();
  d.tensor.strides = d.strides.data();
  EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, 9 * 4u);
  d.shape = {3, 0};
  d.strides = {-1, -1};
  EXPECT_EQ(dlpack::layout_of(d.tensor).strides, (extents{0, 0}));
}

TEST(dlpack_layout, covers_every_element_of_random_strides) {
  auto random = make_generator();
  for (int round = 0; round < 200; ++round) {
    descriptor d;
    const auto dimensions = random() % 5;
    d.shape.assign(dimensions, 0);
    d.strides.assign(dimensions, 0);
    std::vector<std::int64_t> offsets{0};
    for (std::size_t i = 0; i < dimensions; ++i) {
      d.shape[i] = 1 + static_cast<std::int64_t>(random() % 4);
      d.strides[i] = static_cast<std::int64_t>(random() % 7);
      std::vector<std::int64_t> further;
      for (const auto offset : offsets) {
        for (std::int64_t k = 0; k < d.shape[i]; ++k) further.push_back(offset + k * d.strides[i]);
      }
      offsets = further;
    }
    d.tensor.ndim = static_cast<std::int32_t>(dimensions);
    d.tensor.shape = d.shape.data();
    d.tensor.strides = d.strides.data();
    const auto last = *std::ranges::max_element(offsets);
    EXPECT_EQ(dlpack::layout_of(d.tensor).bytes, static_cast<std::size_t>(last + 1) * 4);
  }
}

TEST(dlpack_layout, refuses_what_is_malformed) {
  constexpr auto invalid = errc::invalid_argument;
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const auto with = [](auto change) {
    return [change](descriptor& d) {
      change(d.tensor);
    };
  };
  EXPECT_TRUE(refused(invalid, "ndim", with([](auto& t) { t.ndim = -1; })));
  EXPECT_TRUE(refused(errc::unsupported, "ndim", with([](auto& t) { t.ndim = 9; })));
  EXPECT_TRUE(refused(errc::unsupported, "ndim",
                      with([](auto& t) { t.ndim = std::numeric_limits<std::int32_t>::max(); })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) { t.shape = nullptr; })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) { t.shape[1] = -1; })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = -3;
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = most;
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = most / 20 + 1;  // only the bytes overflow, not the elements
                        t.strides = nullptr;
                      })));
  EXPECT_TRUE(refused(invalid, "shape", with([](auto& t) {
                        t.shape[0] = most / 8;  // all of them the same elements
                        t.strides[0] = 0;
                      })));
  EXPECT_TRUE(refused(invalid, "strides", with([](auto& t) { t.strides[0] = most; })));
  EXPECT_TRUE(refused(invalid, "strides", with([](auto& t) { t.strides[0] = most / 2 - 1; })));
  EXPECT_TRUE(refused(errc::unsupported, "strides", with([](auto& t) { t.strides[1] = -1; })));
  EXPECT_TRUE(refused(invalid, "data", with([](auto& t) { t.data = nullptr; })));
  EXPECT_TRUE(refused(invalid, "data",
                      with([](auto& t) { t.data = static_cast<std::byte*>(t.data) + 2; })));
  EXPECT_TRUE(refused(invalid, "byte_offset", with([](auto& t) { t.byte_offset = 2; })));
  EXPECT_TRUE(
      refused(invalid, "byte_offset", with([](auto& t) { t.byte_offset = ~std::uint64_t{7}; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.lanes", with([](auto& t) { t.dtype.lanes = 4; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.lanes", with([](auto& t) { t.dtype.lanes = 0; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.code", with([](auto& t) { t.dtype.code = 3; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.code", with([](auto& t) { t.dtype = {7, 8, 1}; })));
  // Other numbers of 8 bits.
  for (const auto code : std::initializer_list<std::uint8_t>{8, 9, 11, 13, 14}) {
    EXPECT_TRUE(refused(errc::unsupported, "dtype.code", with([code](auto& t) {
                          t.dtype = {code, 8, 1};
                        })));
  }
  EXPECT_TRUE(refused(errc::unsupported, "dtype.bits", with([](auto& t) { t.dtype.bits = 8; })));
  EXPECT_TRUE(refused(errc::unsupported, "dtype.bits", with([](auto& t) {
                        t.dtype = {dlpack::float8_e4m3fn, 16, 1};
                      })));
}

TEST(dlpack_layout, takes_an_offset_that_makes_up_for_the_data) {
  descriptor d;
  d.tensor.data = static_cast<std::byte*>(d.tensor.data) + 2;
  d.tensor.byte_offset = 6;
  EXPECT_EQ(dlpack::layout_of(d.tensor).address, d.elements.data() + 2);
}

TEST(dlpack_layout, wants_complex_elements_aligned_to_their_size) {
  descriptor d;
  d.tensor.dtype = {dlpack::complex, 64, 1};
  d.tensor.byte_offset = 4;
  EXPECT_TRUE(
      throws(errc::invalid_argument, "byte_offset", [&] { (void)dlpack::layout_of(d.tensor); }));
}

TEST(dlpack_stream, is_never_0_or_minus_1) {
  EXPECT_TRUE(
      throws(errc::invalid_argument, "stream", [] { (void)foreign_stream(std::uintptr_t{0}); }));
  EXPECT_TRUE(
      throws(errc::invalid_argument, "stream", [] { (void)foreign_stream(~std::uintptr_t{0}); }));
}

}  // namespace
}  // namespace sluice::test
