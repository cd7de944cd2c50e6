// SPDX-License-Identifier: Apache-2.0
// Whether tensors share memory, against sets of bytes.
#include "tests/runtime/tensors/tensor_model.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/tensor.hpp>

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sluice::test {
namespace {

class overlaps : public ::testing::Test {
 protected:
  tensor make(const extents& shape, element_type type = element_type::f32) {
    return {runtime_.allocate_bytes(4096, stream_, "tensor"), type, shape};
  }

  device_runtime runtime_{open_host_device()};
  stream stream_ = runtime_.create_stream();
};

/// Whether any byte of the block belongs to both.
bool share_a_byte(const tensor& a, const tensor& b) {
  std::vector<bool> bytes(a.block().bytes());
  const auto mark = [&](const tensor& t, auto visit) {
    for (const auto offset : model_of(t).offsets) {
      for (std::size_t i = 0; i < size_of(t.type()); ++i)
        visit(static_cast<std::size_t>(offset) + i);
    }
  };
  mark(a, [&](std::size_t byte) { bytes[byte] = true; });
  bool shared = false;
  mark(b, [&](std::size_t byte) { shared = shared || bytes[byte]; });
  return shared;
}

/// A random part of `t` in each dimension, with the step of that dimension in `steps`.
tensor part_of(const tensor& t, const indices& steps, std::mt19937_64& random) {
  auto part = t;
  for (std::size_t axis = 0; axis < t.rank(); ++axis) {
    const auto first = draw(random, 0, t.shape()[axis] - 1);
    part = part.slice(axis, first, draw(random, first + 1, t.shape()[axis]), steps[axis]);
  }
  return part;
}

TEST_F(overlaps, are_refuted_for_parts_of_a_matrix) {
  const auto m = make({8, 6});
  const auto left = m.slice(1, 0, 3);
  const auto right = m.slice(1, 3, 6);
  EXPECT_FALSE(overlap(left, right));
  EXPECT_FALSE(overlap(right, left));
  EXPECT_FALSE(overlap(left.transposed(), right));
  EXPECT_FALSE(overlap(m.slice(0, 0, 4), m.slice(0, 4, 8)));
  EXPECT_FALSE(overlap(left.slice(0, 4, 8), right.slice(0, 0, 4)));
  EXPECT_FALSE(overlap(left.slice(0, 0, 4), right.slice(0, 4, 8)));
  EXPECT_FALSE(overlap(m.slice(0, 0, 8, 2), m.slice(0, 1, 8, 2)));
  EXPECT_FALSE(overlap(m.slice(1, 0, 6, 2), m.slice(1, 1, 6, 2)));
  EXPECT_FALSE(overlap(m.slice(1, 0, 6, 3), m.slice(1, 2, 6, 3)));
  EXPECT_FALSE(overlap(m.select(1, 5), m.select(1, 0)));
  EXPECT_TRUE(overlap(m, m));
  EXPECT_TRUE(overlap(m.slice(1, 0, 4), right));
  EXPECT_TRUE(overlap(m.transposed(), left));
  EXPECT_TRUE(overlap(m.slice(0, 0, 8, 2), m.slice(0, 0, 8, 3)));
}

TEST_F(overlaps, are_refuted_for_parts_of_an_element) {
  const auto complex = make({5, 3}, element_type::c64);
  const auto parts = complex.reinterpret(element_type::f32);
  const auto real = parts.slice(1, 0, 6, 2);
  const auto imaginary = parts.slice(1, 1, 6, 2);
  EXPECT_FALSE(overlap(real, imaginary));
  EXPECT_TRUE(overlap(real, complex));
  EXPECT_TRUE(overlap(imaginary, complex));
}

TEST_F(overlaps, of_references_are_about_bytes_of_one_block) {
  const auto a = runtime_.allocate<float>(8, stream_);
  const auto b = runtime_.allocate<float>(8, stream_);
  EXPECT_TRUE(overlap(a, a));
  EXPECT_TRUE(overlap(a.subspan(0, 4), a.subspan(3, 2)));
  EXPECT_TRUE(overlap(a.subspan(3, 2), a.subspan(0, 4)));
  EXPECT_FALSE(overlap(a.subspan(0, 4), a.subspan(4, 4)));
  EXPECT_FALSE(overlap(a.subspan(4, 4), a.subspan(0, 4)));
  EXPECT_FALSE(overlap(a, b));
  EXPECT_FALSE(overlap(a, gpu_ref<float>()));
  EXPECT_FALSE(overlap(a.subspan(2, 0), a));
  EXPECT_TRUE(overlap(a.reinterpret<double>().subspan(1, 1), a.subspan(3, 1)));
}

TEST_F(overlaps, are_seen_between_imports_of_the_same_bytes) {
  const auto a = runtime_.allocate<float>(8, stream_);
  const auto again = [&](device_runtime& in) {
    return import_dlpack(in, export_dlpack(runtime_, a), {.ready = true}).as<float>();
  };
  auto b = again(runtime_);
  const auto c = again(runtime_);
  EXPECT_TRUE(overlap(a, b));
  EXPECT_TRUE(overlap(b.subspan(0, 4), c.subspan(3, 5)));
  EXPECT_FALSE(overlap(b.subspan(0, 4), c.subspan(4, 4)));
  device_runtime other(open_host_device());
  EXPECT_FALSE(overlap(a, again(other))) << "of another runtime, which is refused as such";
  runtime_.deallocate(b.block());
  EXPECT_FALSE(overlap(b, c)) << "given back, which is refused as such";
}

TEST_F(overlaps, need_one_living_block) {
  const auto a = make({4});
  auto b = a;
  EXPECT_TRUE(overlap(a, b));
  EXPECT_FALSE(overlap(a, make({4})));
  EXPECT_FALSE(overlap(a.slice(0, 1, 1), a));
  runtime_.deallocate(a.block());
  EXPECT_FALSE(overlap(a, b));
}

// The answer is never false for tensors that share a byte.
TEST_F(overlaps, are_never_missed) {
  auto random = make_generator();
  int refuted = 0;
  int shared = 0;
  for (int round = 0; round < 20000; ++round) {
    const auto block = make({1}).block();
    const auto random_view = [&] {
      const element_type types[] = {element_type::u8, element_type::u16, element_type::f32,
                                    element_type::f64};
      const auto type = types[draw(random, 0, 3)];
      extents shape;
      extents strides;
      for (auto rank = draw(random, 0, 3); rank > 0; --rank) {
        shape.push_back(draw(random, 1, 4));
        strides.push_back(draw(random, 0, 12));
      }
      const auto offset = static_cast<std::size_t>(draw(random, 0, 20)) * size_of(type);
      return tensor(block, type, shape, strides, offset);
    };
    const auto a = random_view();
    const auto b = random_view();
    const bool truth = share_a_byte(a, b);
    const bool answer = overlap(a, b);
    ASSERT_EQ(answer, overlap(b, a));
    ASSERT_TRUE(answer || !truth) << round;
    refuted += answer ? 0 : 1;
    shared += truth ? 1 : 0;
  }
  EXPECT_GT(refuted, 2000);
  EXPECT_GT(shared, 2000);
}

// For boxes of one grid the answer is exact.
TEST_F(overlaps, of_boxes_of_one_grid_are_found_exactly) {
  auto random = make_generator();
  int apart = 0;
  for (int round = 0; round < 5000; ++round) {
    const auto grid = make({draw(random, 1, 5), draw(random, 1, 5), draw(random, 1, 5)});
    const indices steps{draw(random, 1, 2), draw(random, 1, 2), draw(random, 1, 2)};
    const auto a = part_of(grid, steps, random);
    const auto b = part_of(grid, steps, random);
    const bool truth = share_a_byte(a, b);
    ASSERT_EQ(overlap(a, b), truth) << round;
    const bool woven = a.extent().first < b.extent().last && b.extent().first < a.extent().last;
    apart += !truth && woven ? 1 : 0;
  }
  EXPECT_GT(apart, 500) << "disjoint, although their extents are not";
}

}  // namespace
}  // namespace sluice::test
