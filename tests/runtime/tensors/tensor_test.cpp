// SPDX-License-Identifier: Apache-2.0
// Views of tensors against a list of their elements.
#include "tests/runtime/tensors/tensor_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/tensor.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <limits>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

constexpr auto largest = std::numeric_limits<std::int64_t>::max();

class tensors : public ::testing::Test {
 protected:
  /// A block of `bytes` bytes.
  block_ref block(std::size_t bytes = 1024) {
    return runtime_.allocate_bytes(bytes, stream_, "tensor");
  }
  /// A row-major tensor in a block of its own size.
  tensor make(const extents& shape, element_type type = element_type::f32) {
    auto bytes = size_of(type);
    for (const auto extent : shape) bytes *= static_cast<std::size_t>(extent);
    return {block(std::max<std::size_t>(bytes, 1)), type, shape};
  }
  template <class Function>
  testing::AssertionResult refuses(const char* word, Function&& function) {
    return throws(errc::invalid_argument, word, std::forward<Function>(function));
  }

  device_runtime runtime_{open_host_device()};
  stream stream_ = runtime_.create_stream();
};

extents as_extents(const indices& values) {
  return extents(std::span<const std::int64_t>(values));
}

TEST_F(tensors, are_row_major_without_strides) {
  const auto t = make({2, 3, 4});
  EXPECT_EQ(t.rank(), 3u);
  EXPECT_EQ(t.shape(), (extents{2, 3, 4}));
  EXPECT_EQ(t.strides(), (extents{12, 4, 1}));
  EXPECT_EQ(t.size(), 24u);
  EXPECT_EQ(t.bytes(), 96u);
  EXPECT_EQ(t.extent(), (byte_extent{0, 96}));
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.address(), t.block().address());
  EXPECT_EQ(t.device(), runtime_.device().id());
  EXPECT_FALSE(t.stale());
}

TEST_F(tensors, without_dimensions_have_one_element) {
  const tensor t(block(), element_type::f64, {}, {}, 16);
  EXPECT_EQ(t.rank(), 0u);
  EXPECT_EQ(t.size(), 1u);
  EXPECT_EQ(t.extent(), (byte_extent{16, 24}));
  EXPECT_TRUE(t.is_contiguous());
  EXPECT_EQ(t.reshape({1, 1}).rank(), 2u);
  EXPECT_EQ(t.broadcast_to({3}).size(), 3u);
}

TEST_F(tensors, of_one_dimension_have_strides) {
  const tensor t(block(), element_type::u8, {4}, {2});
  EXPECT_EQ(t.strides(), extents{2});
  EXPECT_EQ(t.offset(), 0u);
}

TEST_F(tensors, have_row_major_strides_where_strides_have_no_meaning) {
  const auto memory = block();
  EXPECT_EQ(tensor(memory, element_type::u8, {1, 4}, {99, 1}),
            tensor(memory, element_type::u8, {1, 4}));
  EXPECT_EQ(tensor(memory, element_type::u8, {0, 7, 2}, {largest, largest, 0}).strides(),
            (extents{14, 2, 1}));
  EXPECT_EQ(tensor(memory, element_type::u8, {0, largest, 3}).strides(), (extents{0, 3, 1}));
  EXPECT_EQ(make({4, 6}).slice(0, 2, 3).transposed().strides(), (extents{1, 1}));
  EXPECT_EQ(make({4, 6}).slice(0, 2, 2).strides(), (extents{6, 1}));
  // The block is there, although there are no elements.
  EXPECT_TRUE(tensor(memory, element_type::u8, {0}));
}

TEST_F(tensors, without_a_block_refer_to_nothing) {
  const tensor none;
  EXPECT_FALSE(none);
  EXPECT_TRUE(none.stale());
  EXPECT_EQ(none.size(), 0u);
  EXPECT_EQ(none.address(), nullptr);
  EXPECT_EQ(none, tensor(gpu_ref<std::uint8_t>()));
  EXPECT_EQ(none.as<float>(), gpu_ref<float>());
  EXPECT_EQ(none.reinterpret(element_type::f32).type(), element_type::f32);
  EXPECT_TRUE(refuses("empty", [&] { (void)none.device(); }));
  auto moved = make({2, 3});
  const auto taken = std::move(moved);
  EXPECT_EQ(moved, none);  // NOLINT(bugprone-use-after-move): what is left is specified
  EXPECT_EQ(taken.size(), 6u);
  EXPECT_FALSE(overlap(none, none));
}

TEST_F(tensors, convert_from_and_to_references) {
  const auto ref = runtime_.allocate<std::complex<float>>(10, stream_, "ref").subspan(2, 5);
  const tensor t = ref;
  EXPECT_EQ(t.type(), element_type::c64);
  EXPECT_EQ(t.shape(), extents{5});
  EXPECT_EQ(t.offset(), ref.offset());
  EXPECT_EQ(t.as<std::complex<float>>(), ref);
  EXPECT_EQ(make({2, 3}).as<float>().size(), 6u);
  EXPECT_TRUE(refuses("c64, not f32", [&] { (void)t.as<float>(); }));
  EXPECT_TRUE(throws(errc::unsupported, "not contiguous", [&] {
    (void)make({2, 3}).transposed().as<float>();
  }));
}

TEST_F(tensors, refuse_what_is_not_in_the_block) {
  const auto view_of = [&](const extents& shape, const extents& strides, std::size_t offset = 0) {
    return tensor(block(64), element_type::f32, shape, strides, offset);
  };
  EXPECT_EQ(view_of({4, 4}, {4, 1}).size(), 16u);
  EXPECT_EQ(view_of({2, 4}, {12, 1}).extent(), (byte_extent{0, 64}));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({4, 4}, {5, 1}); }));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({4, 4}, {4, 1}, 4); }));
  EXPECT_TRUE(refuses("shape: dimension 1 is negative", [&] { (void)view_of({4, -1}, {1, 1}); }));
  EXPECT_TRUE(refuses("strides: the stride of dimension 0", [&] {
    (void)view_of({4, 1}, {-1, 1});
  }));
  EXPECT_TRUE(refuses("strides", [&] { (void)view_of({4, 1}, {1}); }));
  EXPECT_TRUE(refuses("offset", [&] { (void)view_of({0}, {1}, 65); }));
  EXPECT_TRUE(refuses("offset", [&] { (void)view_of({1}, {1}, 2); }));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({largest, 2}, {0, 0}); }));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({largest}, {0}); }));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({largest, 2}, {largest, 1}); }));
  EXPECT_TRUE(refuses("shape", [&] { (void)view_of({3, 3}, {largest / 2, largest / 2}); }));
  EXPECT_TRUE(refuses("shape: dimension 1 is negative", [&] {
    (void)tensor(block(), element_type::f32, {4, -1});
  }));
  EXPECT_TRUE(refuses("shape: dimension 0 is negative", [&] {
    (void)tensor(block(), element_type::f32, {-3, largest, 3});
  }));
  EXPECT_TRUE(refuses("shape", [&] { (void)tensor(block(), element_type::u8, {largest, 3}); }));
  EXPECT_TRUE(refuses("block", [&] { (void)tensor({}, element_type::u8, {0}); }));
  EXPECT_TRUE(refuses("extents: have 9 dimensions, but at most 8", [&] {
    (void)make({1, 1, 1, 1, 1, 1, 1, 1, 1});
  }));
  // A stride without a second element has no meaning.
  EXPECT_EQ(view_of({1, 16}, {largest, 1}).size(), 16u);
  EXPECT_TRUE(view_of({1, 16}, {largest, 1}).is_contiguous());
  EXPECT_EQ(view_of({0, 7}, {largest, largest}, 64).extent(), (byte_extent{64, 64}));
}

TEST_F(tensors, refuse_views_that_do_not_exist) {
  const auto t = make({4, 6});
  EXPECT_TRUE(refuses("slice: axis 2", [&] { (void)t.slice(2, 0, 1); }));
  EXPECT_TRUE(refuses("slice", [&] { (void)t.slice(1, 3, 7); }));
  EXPECT_TRUE(refuses("slice: -2 to 6 exceeds the extent 6 of axis 1; negative indices do not",
                      [&] { (void)t.slice(1, -2); }));
  EXPECT_TRUE(refuses("slice: 2 to -1 ends before it begins; negative indices do not",
                      [&] { (void)t.slice(1, 2, -1); }));
  EXPECT_TRUE(refuses("slice: 3 to 2 ends before", [&] { (void)t.slice(1, 3, 2); }));
  EXPECT_TRUE(refuses("step", [&] { (void)t.slice(1, 0, 2, 0); }));
  EXPECT_TRUE(refuses("select", [&] { (void)t.select(0, 4); }));
  EXPECT_TRUE(refuses("select: index -1 exceeds the extent 4 of axis 0; negative indices do not",
                      [&] { (void)t.select(0, -1); }));
  EXPECT_TRUE(refuses("permute", [&] { (void)t.permute({0}); }));
  EXPECT_TRUE(refuses("permute", [&] { (void)t.permute({0, 0}); }));
  EXPECT_TRUE(refuses("permute", [&] { (void)t.permute({0, 2}); }));
  EXPECT_TRUE(refuses("transposed", [&] { (void)t.select(0, 0).transposed(); }));
  EXPECT_TRUE(refuses("broadcast_to", [&] { (void)t.broadcast_to({4, 7}); }));
  EXPECT_TRUE(refuses("broadcast_to", [&] { (void)t.broadcast_to({6}); }));
  EXPECT_TRUE(refuses("broadcast_to", [&] { (void)t.broadcast_to({largest, 4, 6}); }));
  EXPECT_TRUE(refuses("reshape", [&] { (void)t.reshape({5, 5}); }));
  EXPECT_TRUE(refuses("reshape", [&] { (void)t.reshape({-1, 5}); }));
  EXPECT_TRUE(refuses("reshape: only one", [&] { (void)t.reshape({-1, -1}); }));
  EXPECT_TRUE(refuses("reshape: dimension 1", [&] { (void)t.reshape({24, -2}); }));
  EXPECT_TRUE(refuses("reshape", [&] { (void)t.reshape({-1, 0}); }));
  EXPECT_TRUE(refuses("reshape", [&] { (void)t.reshape({largest, largest}); }));
  EXPECT_TRUE(throws(errc::unsupported, "reshape", [&] { (void)t.transposed().reshape({24}); }));
  EXPECT_EQ(t.reshape({-1, 3, 2}).shape(), (extents{4, 3, 2}));
  // A step beyond the end leaves one element and no overflow.
  EXPECT_EQ(t.slice(1, 0, 6, largest).size(), 4u);
}

TEST_F(tensors, are_reinterpreted_as_other_types) {
  const auto t = make({3, 4}, element_type::c64);
  const auto reals = t.reinterpret(element_type::f32);
  EXPECT_EQ(reals.shape(), (extents{3, 8}));
  EXPECT_EQ(reals.strides(), (extents{8, 1}));
  EXPECT_EQ(reals.reinterpret(element_type::c64), t);
  EXPECT_EQ(t.reinterpret(element_type::i64).shape(), (extents{3, 4}));
  EXPECT_TRUE(t.transposed().reinterpret(element_type::u64));  // the size does not change
  EXPECT_TRUE(
      refuses("last dimension", [&] { (void)t.transposed().reinterpret(element_type::f32); }));
  EXPECT_TRUE(
      refuses("extent", [&] { (void)reals.slice(1, 0, 3).reinterpret(element_type::c64); }));
  EXPECT_TRUE(
      refuses("aligned", [&] { (void)reals.slice(1, 1, 3).reinterpret(element_type::c64); }));
  EXPECT_TRUE(refuses("stride", [&] {
    (void)make({3, 5}).slice(1, 0, 4).reinterpret(element_type::f64);
  }));
  EXPECT_TRUE(refuses(
      "dimensions", [&] { (void)reals.select(0, 0).select(0, 0).reinterpret(element_type::u8); }));
}

/// A tensor of u8 that another program describes. Its memory is not accessed.
class described_tensor {
 public:
  described_tensor(device_runtime& runtime, std::vector<std::int64_t> shape,
                   std::vector<std::int64_t> strides, std::uintptr_t address = 4096)
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    descriptor_.tensor = {.data = reinterpret_cast<void*>(address),
                          .device = {dlpack::cpu, 0},
                          .ndim = static_cast<std::int32_t>(shape_.size()),
                          .dtype = {dlpack::unsigned_integer, 8, 1},
                          .shape = shape_.data(),
                          .strides = strides_.data(),
                          .byte_offset = 0};
    imported_ = import_dlpack(runtime, &descriptor_);
  }
  [[nodiscard]] const tensor& operator*() const noexcept { return imported_; }
  [[nodiscard]] const tensor* operator->() const noexcept { return &imported_; }

 private:
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
  dlpack::managed_tensor descriptor_{};
  tensor imported_;
};

TEST_F(tensors, that_nobody_can_have_are_counted_correctly) {
  constexpr auto large = std::int64_t{1} << 62U;
  const described_tensor apart(runtime_, {2, 2}, {1, large});
  EXPECT_FALSE(apart->is_contiguous());
  EXPECT_TRUE(throws(errc::unsupported, "reshape", [&] { (void)apart->reshape({4}); }));
  const described_tensor two(runtime_, {2}, {large});
  EXPECT_EQ(two->reshape({1, 2}).strides(), (extents{0, large}));
  EXPECT_EQ(two->reshape({2, 1}).strides(), (extents{large, 1}));
  EXPECT_TRUE(two->reinterpret(element_type::i8));
  const described_tensor none(runtime_, {0, 7}, {largest, largest});
  EXPECT_EQ(none->slice(1, 0, 7, 2).strides(), (extents{4, 1}));
  // The second element of the first one lies in the other one.
  constexpr auto q = std::int64_t{1} << 60U;
  const described_tensor a(runtime_, {2}, {6 * q});
  const described_tensor b(runtime_, {4 * q}, {1}, 4096 + static_cast<std::uintptr_t>(5 * q));
  EXPECT_TRUE(overlap(*a, *b));
  EXPECT_TRUE(overlap(*b, *a));
}

// Random chains of views. The list of elements is computed without strides.
TEST_F(tensors, show_the_elements_that_a_list_has) {
  auto random = make_generator();
  int reshaped = 0;
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    indices shape(static_cast<std::size_t>(draw(random, 0, 4)));
    for (auto& extent : shape) extent = draw(random, 0, 9) == 0 ? 0 : draw(random, 1, 5);
    auto t = make(as_extents(shape));
    auto model = model_of(t);
    for (int step = 0; step < 5; ++step) {
      const auto rank = static_cast<std::int64_t>(model.shape.size());
      const auto axis = static_cast<std::size_t>(rank == 0 ? 0 : draw(random, 0, rank - 1));
      const auto extent = rank == 0 ? 0 : model.shape[axis];
      switch (draw(random, 0, 4)) {
        case 0: {  // permute
          indices axes(model.shape.size());
          std::iota(axes.begin(), axes.end(), 0);
          std::shuffle(axes.begin(), axes.end(), random);
          indices wanted;
          for (const auto a : axes) wanted.push_back(model.shape[static_cast<std::size_t>(a)]);
          t = t.permute(as_extents(axes));
          model = model.viewed(wanted, [&](const indices& index) {
            indices from(index.size());
            for (std::size_t i = 0; i < index.size(); ++i)
              from[static_cast<std::size_t>(axes[i])] = index[i];
            return from;
          });
          break;
        }
        case 1: {  // slice
          if (rank == 0) break;
          const auto first = draw(random, 0, extent);
          const auto last = draw(random, first, extent);
          const auto stride = draw(random, 1, 3);
          auto wanted = model.shape;
          wanted[axis] = 0;
          for (auto i = first; i < last; i += stride) ++wanted[axis];
          t = t.slice(axis, first, last, stride);
          model = model.viewed(wanted, [&](indices index) {
            index[axis] = first + index[axis] * stride;
            return index;
          });
          break;
        }
        case 2: {  // select
          if (rank == 0 || extent == 0) break;
          const auto position = draw(random, 0, extent - 1);
          auto wanted = model.shape;
          wanted.erase(wanted.begin() + static_cast<std::ptrdiff_t>(axis));
          t = t.select(axis, position);
          model = model.viewed(wanted, [&](indices index) {
            index.insert(index.begin() + static_cast<std::ptrdiff_t>(axis), position);
            return index;
          });
          break;
        }
        case 3: {  // broadcast
          if (rank >= 5) break;
          auto wanted = model.shape;
          for (auto& e : wanted) {
            if (e == 1) e = draw(random, 0, 3);
          }
          const bool longer = draw(random, 0, 1) == 1;
          if (longer) wanted.insert(wanted.begin(), draw(random, 1, 3));
          const auto source_shape = model.shape;
          t = t.broadcast_to(as_extents(wanted));
          model = model.viewed(wanted, [&](indices index) {
            if (longer) index.erase(index.begin());
            for (std::size_t i = 0; i < source_shape.size(); ++i) {
              if (source_shape[i] == 1) index[i] = 0;
            }
            return index;
          });
          break;
        }
        default: {  // reshape, to a random factorisation
          indices wanted;
          auto rest = static_cast<std::int64_t>(model.offsets.size());
          if (rest == 0) {
            wanted = {draw(random, 0, 3), 0};
          } else {
            while (rest > 1 && wanted.size() < 6) {
              const auto factor = draw(random, 1, rest);
              if (rest % factor != 0) continue;
              wanted.push_back(factor);
              rest /= factor;
            }
            wanted.push_back(rest);
          }
          const tensor_model expected{wanted, model.offsets};
          if (expected.has_strides()) {
            t = t.reshape(as_extents(wanted));
            model = expected;
            ++reshaped;
          } else {
            EXPECT_TRUE(
                throws(errc::unsupported, "reshape", [&] { (void)t.reshape(as_extents(wanted)); }));
            ++refused;
          }
          break;
        }
      }
      const auto seen = model_of(t);
      ASSERT_EQ(seen.shape, model.shape);
      ASSERT_EQ(seen.offsets, model.offsets);
      ASSERT_EQ(t.size(), model.offsets.size());
      if (!model.offsets.empty()) {
        const auto [low, high] = std::minmax_element(model.offsets.begin(), model.offsets.end());
        ASSERT_EQ(t.extent(), (byte_extent{static_cast<std::size_t>(*low),
                                           static_cast<std::size_t>(*high) + sizeof(float)}));
        bool contiguous = true;
        for (std::size_t i = 1; i < model.offsets.size(); ++i)
          contiguous = contiguous && model.offsets[i] == model.offsets[i - 1] + 4;
        ASSERT_EQ(t.is_contiguous(), contiguous);
      }
    }
  }
  EXPECT_GT(reshaped, 500);
  EXPECT_GT(refused, 50);
}

}  // namespace
}  // namespace sluice::test
