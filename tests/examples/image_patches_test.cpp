// SPDX-License-Identifier: Apache-2.0
#include "examples/image_patches/image_patches.hpp"

#include "tests/support/devices.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::examples {
namespace {

constexpr auto size = patch_weights::image_size;
constexpr auto patch = patch_weights::patch_size;
constexpr auto side = size / patch;
constexpr std::int64_t features = 5;

class image_patches : public test::named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    device_ = std::make_unique<scoped_device>(
        system_, std::make_shared<device_service>(open_device(GetParam())));
    weights_ = {.scale = numbers({3}),
                .offset = numbers({3}),
                .filters = numbers({features, 3, patch, patch}),
                .bias = numbers({features})};
    service_ = spawn_patch_service(system_, device_->actor(), weights_);
  }
  void TearDown() override {
    service_ = nullptr;
    device_.reset();
  }

  host_tensor numbers(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {test::random_values<float>(generator_, count), shape};
  }
  host_tensor image(std::int64_t height, std::int64_t width) {
    std::vector<std::uint8_t> pixels(static_cast<std::size_t>(height * width * 3));
    for (auto& value : pixels) value = static_cast<std::uint8_t>(generator_());
    return {std::move(pixels), {height, width, 3}};
  }
  /// The features of an image of the size that the service needs, in double precision.
  std::vector<double> reference(const host_tensor& picture) const {
    const auto pixels = picture.values<std::uint8_t>();
    const auto scale = weights_.scale.values<float>();
    const auto offset = weights_.offset.values<float>();
    const auto filters = weights_.filters.values<float>();
    const auto bias = weights_.bias.values<float>();
    std::vector<double> all;
    for (std::int64_t row = 0; row < side; ++row) {
      for (std::int64_t column = 0; column < side; ++column) {
        for (std::int64_t f = 0; f < features; ++f) {
          double sum = bias[static_cast<std::size_t>(f)];
          for (std::int64_t c = 0; c < 3; ++c) {
            for (std::int64_t y = 0; y < patch; ++y) {
              for (std::int64_t x = 0; x < patch; ++x) {
                const auto pixel = ((row * patch + y) * size + column * patch + x) * 3 + c;
                const auto tap = ((f * 3 + c) * patch + y) * patch + x;
                sum += double{filters[static_cast<std::size_t>(tap)]} *
                       (double{scale[static_cast<std::size_t>(c)]} *
                            pixels[static_cast<std::size_t>(pixel)] +
                        offset[static_cast<std::size_t>(c)]);
              }
            }
          }
          all.push_back(sum);
        }
      }
    }
    return all;
  }
  std::vector<float> values(const tensors& result) {
    return ask<host_tensor>(system_, device_->actor(), download{.x = result.front()})
        .to_vector<float>();
  }

  struct configuration : caf::actor_system_config {
    configuration() { configure(*this); }
  };
  configuration configuration_;
  caf::actor_system system_{configuration_};
  std::mt19937_64 generator_ = test::make_generator();
  std::unique_ptr<scoped_device> device_;
  patch_weights weights_;
  patch_service service_;
};

TEST_P(image_patches, agree_with_the_reference) {
  const auto pixels = image(size, size);
  const auto result = ask<tensors>(system_, service_, embed_image{pixels});
  EXPECT_EQ(result.front().shape(), (extents{side * side, features}));
  EXPECT_LE(test::relative_error(values(result), reference(pixels)),
            test::error_bound<float>(static_cast<std::size_t>(3 * patch * patch)));
}

TEST_P(image_patches, of_a_bad_image_fail_alone) {
  // Images of one colour: every size gives the features of the size that needs no interpolation.
  const auto plain = [](std::int64_t height, std::int64_t width) {
    return host_tensor(std::vector<std::uint8_t>(static_cast<std::size_t>(height * width * 3), 77),
                       {height, width, 3});
  };
  const auto expected = reference(plain(size, size));
  caf::scoped_actor self{system_};
  const auto send = [&](host_tensor pixels) {
    return sluice::request(self, service_, caf::infinite, embed_image{std::move(pixels)});
  };
  std::vector<decltype(send({}))> pending;
  for (int i = 0; i < 12; ++i) {
    const auto height = std::int64_t{1} + static_cast<std::int64_t>(generator_() % 300);
    pending.push_back(send(plain(height, 2 * height)));
  }
  pending.push_back(send({}));
  pending.push_back(send(numbers({8, 8, 4})));
  pending.push_back(send(numbers({8, 8})));
  pending.push_back(send(host_tensor(element_type::u8, {0, 8, 3})));
  pending.push_back(send(host_tensor(element_type::f32, {8, 8, 3})));
  pending.push_back(send(plain(30, 40)));
  for (std::size_t i = 0; i < pending.size(); ++i) {
    SCOPED_TRACE(i);
    const bool is_bad = i >= 12 && i < 17;
    std::move(pending[i])
        .receive(
            [&](const tensors& result) {
              EXPECT_FALSE(is_bad);
              EXPECT_LE(test::relative_error(values(result), expected), 1e-5);
            },
            [&](const caf::error& why) {
              EXPECT_TRUE(is_bad) << describe(system_, why);
              const auto known = from_caf_error(why);
              ASSERT_TRUE(known);
              EXPECT_EQ(known->code(), errc::invalid_argument) << known->what();
            });
  }
}

INSTANTIATE_TEST_SUITE_P(devices, image_patches, test::every_device(), test::parameter_name);

}  // namespace
}  // namespace sluice::examples
