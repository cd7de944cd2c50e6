// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/convolution_functions.hpp"
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/workspace_layout.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/seam.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using operations::convolution_call;
using operations::convolution_key;
using operations::convolution_operands;

/// Computes by the definition.
class direct_plan final : public convolution_plan {
 public:
  void run(const convolution_call& call, const f32_operands& operands) const override {
    fill_with_bias(call.output, operands.bias, operands.y);
    if (call.multiplies) add_products(call.key, operands.x, operands.w, operands.y);
    finish(call.output, call.function, operands.residual, operands.y);
  }
};

/// A convolution of 16-bit numbers: one of f32 over copies without gaps in the workspace, whose
/// result is rounded.
class converted_plan final : public operation_plan {
 public:
  /// The plan of a convolution that multiplies.
  /// @param plan that of `without_gaps(key)`
  converted_plan(std::shared_ptr<const convolution_plan> plan, const convolution_key& key)
      : plan_(std::move(plan)) {
    (void)layout_.take(plan_->workspace_bytes());  // first
    const auto take = [&](std::int64_t elements) {
      return layout_.take(static_cast<std::size_t>(elements) * sizeof(float));
    };
    x_ = take(key.n * std::max(key.x_image(), key.y_image()));  // also the residual
    w_ = take(key.w_extent());
    bias_ = take(key.y_channels());
    y_ = take(key.n * key.y_image());
  }

  /// The same convolution of f32.
  [[nodiscard]] static convolution_key without_gaps(convolution_key key) noexcept {
    key.element = static_cast<std::int64_t>(element_type::f32);
    key.x_distance = key.x_image();
    key.y_distance = key.y_image();
    return key;
  }

  std::size_t bytes() const noexcept override { return plan_->bytes(); }
  std::size_t workspace_bytes() const noexcept override { return layout_.bytes(); }

  /// The layout of W as f32: that of the other plan, or without one as it is.
  [[nodiscard]] prepacked_layout layout_of_w(const convolution_call& call) const {
    auto layout = plan_->layout_of_w();
    if (layout.bytes == 0) layout.bytes = w_bytes(call);
    layout.identity += std::string("f32 of ") += to_string(call.type);
    layout.identity += ' ' + std::to_string(call.key.w_extent());
    return layout;
  }
  void prepack_w(const convolution_call& call, const void* w, void* copy) const {
    const auto type = operations::storage_of(call.type);
    if (plan_->layout_of_w().bytes == 0) {
      return load_f32(type, w, call.key.w_extent(), static_cast<float*>(copy));
    }
    std::vector<float> numbers(static_cast<std::size_t>(call.key.w_extent()));
    load_f32(type, w, call.key.w_extent(), numbers.data());
    plan_->prepack_w(numbers.data(), copy);
  }

  void run(const convolution_call& call, const convolution_operands& operands,
           void* workspace) const {
    const auto& key = call.key;
    const auto type = operations::storage_of(call.type);
    auto* const memory = static_cast<std::byte*>(workspace);
    const auto floats_at = [&](std::size_t position) {
      return reinterpret_cast<float*>(memory + position);
    };
    const auto bytes = static_cast<std::int64_t>(size_of(call.type));
    const auto image_of = [&](const void* images, std::int64_t i, std::int64_t distance) {
      return static_cast<const std::byte*>(images) + i * distance * bytes;
    };
    const float* w = floats_at(w_);
    const void* prepacked_w = nullptr;
    if (!operands.w_is_prepacked) {
      load_f32(type, operands.w, key.w_extent(), floats_at(w_));
    } else if (plan_->layout_of_w().bytes == 0) {
      w = static_cast<const float*>(operands.w);
    } else {
      prepacked_w = operands.w;
    }
    if (operands.bias != nullptr) {
      load_f32(type, operands.bias, key.y_channels(), floats_at(bias_));
    }
    for_each_image(key.n, key.x_image(), [&](std::int64_t i) {
      load_f32(type, image_of(operands.x, i, key.x_distance), key.x_image(),
               floats_at(x_) + i * key.x_image());
    });
    auto inner = call;
    inner.key = without_gaps(key);
    inner.function = activation::none;  // after the residual
    inner.output.distance = call.output.image();
    inner.output.residual_distance = call.output.image();
    plan_->run(inner, {.x = floats_at(x_),
                       .w = w,
                       .bias = operands.bias != nullptr ? floats_at(bias_) : nullptr,
                       .y = floats_at(y_),
                       .workspace = memory,
                       .prepacked_w = prepacked_w});
    const float* residual = nullptr;
    if (operands.residual != nullptr) {
      // The memory of X is free again.
      residual = floats_at(x_);
      for_each_image(key.n, key.y_image(), [&](std::int64_t i) {
        load_f32(type, image_of(operands.residual, i, call.output.residual_distance), key.y_image(),
                 floats_at(x_) + i * key.y_image());
      });
    }
    finish(inner.output, call.function, residual, floats_at(y_));
    for_each_image(key.n, key.y_image(), [&](std::int64_t i) {
      store_f32(type, floats_at(y_) + i * key.y_image(), key.y_image(),
                static_cast<std::byte*>(operands.y) + i * key.y_distance * bytes);
    });
  }

 private:
  [[nodiscard]] static std::size_t w_bytes(const convolution_call& call) noexcept {
    return static_cast<std::size_t>(call.key.w_extent()) * sizeof(float);
  }
  template <class Function>
  static void for_each_image(std::int64_t images, std::int64_t elements, const Function& function) {
    constexpr double nanoseconds_of_element = 0.3;
    const work_chunks chunks(images, nanoseconds_of_element * static_cast<double>(elements));
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      for (auto i = begin; i < end; ++i) function(i);
    });
  }

  std::shared_ptr<const convolution_plan> plan_;
  workspace_layout layout_;
  std::size_t x_ = 0;
  std::size_t w_ = 0;
  std::size_t bias_ = 0;
  std::size_t y_ = 0;
};

/// Writes the activation of the bias and the residual, or 0, to each element of a result of 16
/// bits.
void fill_16_bits(const convolution_call& call, const convolution_operands& operands) {
  const auto type = operations::storage_of(call.type);
  const auto bytes = static_cast<std::int64_t>(size_of(call.type));
  std::vector<float> bias(static_cast<std::size_t>(call.output.channels));
  if (operands.bias != nullptr) {
    load_f32(type, operands.bias, call.output.channels, bias.data());
  }
  auto image = call.output;
  image.images = 1;
  std::vector<float> elements(static_cast<std::size_t>(image.image()));
  std::vector<float> residual(operands.residual != nullptr ? elements.size() : 0);
  for (std::int64_t i = 0; i < call.output.images; ++i) {
    if (operands.residual != nullptr) {
      load_f32(
          type,
          static_cast<const std::byte*>(operands.residual) + i * image.residual_distance * bytes,
          image.image(), residual.data());
    }
    if (i == 0 || operands.residual != nullptr) {
      fill_with_bias(image, bias.data(), elements.data());
      finish(image, call.function, residual.empty() ? nullptr : residual.data(), elements.data());
    }
    store_f32(type, elements.data(), image.image(),
              static_cast<std::byte*>(operands.y) + i * image.distance * bytes);
  }
}

/// The plan of a convolution of f32 that multiplies.
std::shared_ptr<const convolution_plan> make_f32_plan(lane_libraries& libraries,
                                                      const convolution_key& key) {
  if (auto plan = make_pointwise_plan(key)) return plan;
  if (auto plan = make_window_plan(key)) return plan;
  // What oneDNN does not take is computed directly.
  if (auto plan = make_onednn_plan(libraries, key)) return plan;
  return std::make_shared<direct_plan>();
}

}  // namespace

std::string dnn_version() {
  const dnnl_version_t* const v = dnnl_version();
  return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' + std::to_string(v->patch);
}

void prepare_dnn(lane_libraries& libraries) {
  (void)libraries.get<onednn_lane>();
}

std::shared_ptr<const operation_plan> make_convolution_plan(lane_libraries& libraries,
                                                            const convolution_call& call) {
  if (!call.multiplies) return std::make_shared<direct_plan>();
  if (call.type == element_type::f32) return make_f32_plan(libraries, call.key);
  return std::make_shared<converted_plan>(
      make_f32_plan(libraries, converted_plan::without_gaps(call.key)), call.key);
}

void compute_convolution(const convolution_call& call, const convolution_operands& operands,
                         const operation_plan& plan, void* workspace) {
  if (call.type != element_type::f32) {
    return call.multiplies ? static_cast<const converted_plan&>(plan).run(call, operands, workspace)
                           : fill_16_bits(call, operands);
  }
  static_cast<const convolution_plan&>(plan).run(
      call, {static_cast<const float*>(operands.x), static_cast<const float*>(operands.w),
             static_cast<const float*>(operands.bias), static_cast<float*>(operands.y),
             static_cast<std::byte*>(workspace), operands.w_is_prepacked ? operands.w : nullptr,
             static_cast<const float*>(operands.residual)});
}

prepacked_layout layout_of_filters(const convolution_call& call, const operation_plan& plan) {
  if (!call.multiplies) return {};
  if (call.type != element_type::f32) {
    return static_cast<const converted_plan&>(plan).layout_of_w(call);
  }
  return static_cast<const convolution_plan&>(plan).layout_of_w();
}

void prepack_filters(const convolution_call& call, const operation_plan& plan, const void* w,
                     void* copy) {
  if (call.type != element_type::f32) {
    return static_cast<const converted_plan&>(plan).prepack_w(call, w, copy);
  }
  static_cast<const convolution_plan&>(plan).prepack_w(static_cast<const float*>(w), copy);
}

}  // namespace sluice::host
