// SPDX-License-Identifier: Apache-2.0
// The work that a request states before it is queued, against the time that it took when it was
// measured on one core.
#include "tests/operations/executing.hpp"

#include <sluice/operations.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::test {
namespace {

class stated_work : public ::testing::Test {
 protected:
  stated_work()
      : service_(std::make_shared<device_service>(open_host_device({.threads = 1}))),
        executor_(service_, nullptr, {.max_work = 1}),
        stream_(service_->runtime().create_stream()),
        memory_(service_->runtime().allocate<double>(2, stream_.ref())) {}

  /// Elements of a shape. They are one element in memory.
  tensor view(const extents& shape, element_type type = element_type::f32) {
    const extents one(std::vector<std::int64_t>(shape.size(), 1));
    return tensor(memory_.block(), type, one).broadcast_to(shape);
  }
  /// What a request states. It is refused before anything is queued.
  template <class Operation>
  double work_of(const Operation& operation) {
    constexpr std::string_view verb = "takes ";
    pending<typename answer_to<Operation>::type> answer(alarm_);
    executor_.submit(operation, {}, answer.token());
    EXPECT_TRUE(answer.answered());
    try {
      (void)answer.get();
    } catch (const error& failure) {
      const std::string text = failure.what();
      const auto place = text.find(verb);
      if (place != std::string::npos) return std::stod(text.substr(place + verb.size()));
      ADD_FAILURE() << text;
    }
    return 0;
  }
  /// Expects `work` to be `milliseconds`, or to differ by a factor that a limit can bear.
  static void expect_work(double work, double milliseconds) {
    constexpr double factor = 5;
    EXPECT_GT(work, milliseconds * 1e6 / factor);
    EXPECT_LT(work, milliseconds * 1e6 * factor);
  }

 private:
  std::shared_ptr<alarm> alarm_ = std::make_shared<alarm>();
  std::shared_ptr<device_service> service_;
  executor executor_;
  sluice::stream stream_;
  gpu_ref<double> memory_;
};

TEST_F(stated_work, of_regions_counts_their_samples) {
  const auto regions = [&](std::int64_t ratio) {
    return roi_align{.x = view({1, 8, 50, 60}),
                     .rois = view({100, 4}),
                     .batch_indices = view({100}, element_type::i64),
                     .height = 5,
                     .width = 6,
                     .sampling_ratio = ratio};
  };
  // 15 ns for each of 8 · 100 · 30 · ratio² samples.
  expect_work(work_of(regions(4)), 5.8);
  expect_work(work_of(regions(40)), 576);
  // Regions that cover X: 11² samples in each bin.
  expect_work(work_of(regions(0)), 44);
}

TEST_F(stated_work, of_resized_tensors_counts_the_weights_of_their_axes) {
  expect_work(work_of(resize{.x = view({1, 1, 44374}),
                             .sizes = {16860},
                             .mode = resize_mode::cubic,
                             .antialias = true}),
              2.1);
  expect_work(
      work_of(resize{
          .x = view({571935}, element_type::u8), .sizes = {2451567}, .mode = resize_mode::nearest}),
      80);
}

TEST_F(stated_work, of_convolutions_counts_blocks_of_channels_and_groups) {
  // One channel takes as long as 16.
  expect_work(work_of(convolution{.x = view({1, 1, 1'000'000}), .w = view({1, 1, 30})}), 343);
  expect_work(
      work_of(convolution{
          .x = view({1, 1, 64}), .w = view({1, 1, 30}), .before = {1'000'000}, .after = {0}}),
      56);
  expect_work(
      work_of(convolution{
          .x = view({1, 64, 100'000}), .w = view({64, 64, 3}), .before = {1}, .after = {1}}),
      30);
  expect_work(work_of(transposed_convolution{.x = view({6, 1280, 76, 2}),
                                             .w = view({1280, 44, 1, 5}),
                                             .strides = {3, 1},
                                             .dilation = {3, 2},
                                             .groups = 32}),
              600);
}

TEST_F(stated_work, of_short_rows_counts_them) {
  expect_work(work_of(sort{.x = view({100'000, 1})}), 6);
  expect_work(work_of(attention{
                  .q = view({2, 8, 1000, 1}), .k = view({2, 8, 2, 1}), .v = view({2, 8, 2, 1})}),
              3.2);
  expect_work(work_of(lstm{.x = view({100, 1, 1}), .w = view({1, 4, 1}), .r = view({1, 4, 1})}),
              0.2);
}

TEST_F(stated_work, counts_functions_and_pairs) {
  expect_work(
      work_of(grid_sample{
          .x = view({1, 8, 40, 40}), .grid = view({1, 100, 100, 2}), .mode = grid_mode::cubic}),
      8);
  expect_work(work_of(non_maximum_suppression{.boxes = view({1, 2000, 4}),
                                              .scores = view({1, 10, 2000}),
                                              .max_output_boxes_per_class = 2000}),
              130);
  expect_work(
      work_of(pool{.x = view({1, 8, 200, 200}), .kind = pooling::lp, .window = {5, 5}, .p = 5}),
      100);
  expect_work(work_of(local_response_norm{.x = view({1, 10, 100'000}), .size = 3}), 15);
  expect_work(work_of(random_normal{.shape = {1'000'000}}), 20);
  expect_work(work_of(reduce{.x = view({1'000'000}), .kind = reduction::log_sum_exp}), 12);
}

}  // namespace
}  // namespace sluice::test
