// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/gathering_executor.hpp"
#include "tests/operations/program/programs.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {
/// Programs whose runs are launched together.
class batched_programs : public programs {
 protected:
  static constexpr float tolerance = 1e-4F;
  static constexpr std::int64_t n_mels = 5;
  static constexpr std::int64_t samples = 61;
  using sizes = std::vector<std::size_t>;

  void SetUp() override {
    programs::SetUp();
    if (IsSkipped()) return;
    set_options({});
    shift_ = numbers({n_mels, 1});
    window_ = get(numbers({16}));
    filterbank_ = get(numbers({n_mels, 9}));
  }
  void TearDown() override {
    traced_.reset();
    shift_ = tensor();
    programs::TearDown();
  }

  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return open_device(GetParam());
    return open_host_device(
        {.jitter = host_jitter{process_seed(), std::chrono::microseconds(20)}, .faults = faults_});
  }

  [[nodiscard]] fault_script& faults() { return *faults_; }
  [[nodiscard]] executor& traced() { return traced_->get(); }
  void set_options(executor_options options) {
    traced_ = std::make_unique<gathering_executor>(service(), waking(), options);
  }
  [[nodiscard]] const tensor& shift() const { return shift_; }
  /// Runs each of them alone, then submits all so that they wait together, then lets them go.
  template <class Run = sluice::run>
  auto submit_together(
      std::vector<Run> runs, const request_options& options = {},
      const std::function<void()>& before_launch = [] {}) {
    for (const auto& one : runs) {
      (void)run(traced(), one);
      prepare_batches(one);
    }
    return submit_at_once(std::move(runs), options, before_launch);
  }
  /// Makes the executables of all batches of runs like this one.
  template <class Run>
  void prepare_batches(const Run& one) {
    sluice::prepare request{.what = one.what, .scalars = one.scalars};
    for (const auto& input : one.inputs) {
      request.inputs.push_back(input.on_host() ? tensor_spec::row_major(input.type(), input.shape())
                                               : tensor_spec::of(input.on_device()));
    }
    if constexpr (std::is_same_v<Run, run_to_host>) {
      request.to_host = true;
    } else {
      for (const auto& output : one.outputs) {
        const auto& given = output.value();
        request.outputs.push_back(given ? std::optional(tensor_spec::of(given)) : std::nullopt);
      }
    }
    (void)run(traced(), std::move(request));
  }
  /// Submits all so that they wait together, then lets them go. Their executables are there.
  template <class Run = sluice::run>
  auto submit_at_once(
      std::vector<Run> runs, const request_options& options = {},
      const std::function<void()>& before_launch = [] {}) {
    traced_->begin();
    traced_->gather();
    std::vector<decltype(submit(traced(), std::move(runs.front()), options))> all;
    for (auto& one : runs) all.push_back(submit(traced(), std::move(one), options));
    before_launch();
    traced_->launch_gathered();
    return all;
  }
  tensors answer_of(pending<tensors>& answer) { return wait(traced(), answer); }
  [[nodiscard]] sizes launches() const { return traced_->launched(); }

  /// The axis along which the runs lie from now on: 0, or 1 of clips of two channels.
  void lie_along(std::size_t axis) { axis_ = axis; }
  [[nodiscard]] extents clip_shape(std::int64_t rows = 1) const {
    return axis_ == 0 ? extents{rows, samples} : extents{2, rows, samples};
  }
  /// Spectrograms of clips, and their rows' sums. The input "shift" is not per request.
  program spectrogram(const program_options& options = {.max_in_batch = 128}) {
    program_builder p;
    const auto clip = p.input("clip", per_request.along(axis_));
    const auto shift = p.input("shift");
    const auto frames = p.add(
        "frames", frame_signal{.signal = clip, .window = p.constant("window", window_), .hop = 7});
    const auto power = p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
    const auto mel =
        p.add("mel", gemm{.a = p.constant("filterbank", filterbank_), .b = power.transposed()});
    const auto shifted = p.add("shifted", add(mel, shift));
    const auto sums = p.add("sums", reduce{.x = shifted, .axes = extents{-1}});
    return std::move(p).build({shifted, sums}, options);
  }
  void expect_equal(const tensors& found, const tensors& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].shape(), expected[i].shape());
      const auto a = values(found[i]);
      const auto b = values(expected[i]);
      float largest = 1;
      for (const auto x : b) largest = std::max(largest, std::abs(x));
      for (std::size_t j = 0; j < b.size(); ++j) ASSERT_NEAR(a[j], b[j], tolerance * largest);
    }
  }
  std::vector<tensor> clips(std::size_t count, std::int64_t rows = 1) {
    std::vector<tensor> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back(numbers(clip_shape(rows)));
    return all;
  }

 private:
  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
  std::unique_ptr<gathering_executor> traced_;
  std::size_t axis_ = 0;
  tensor shift_;
  host_tensor window_;
  host_tensor filterbank_;
};

}  // namespace sluice::test
