// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/check_onednn.hpp"
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/single_thread_scope.hpp"
#include "runtime/seam.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace sluice::host {
namespace {

using operations::convolution_call;
using operations::convolution_shape;
using operations::spatial;

/// A convolution whose filters have one tap, of images with channels first: Y = W · X of each
/// image, with a row for each channel. oneDNN's convolutions would reorder X and Y.
class pointwise_plan final : public convolution_plan {
 public:
  explicit pointwise_plan(const convolution_shape& key)
      : key_(key), pixels_(operations::product_of(key.output)) {
    // Like the parts of other convolutions: about 0.5 ms, and not too narrow.
    constexpr double products_of_part = 1 << 24;
    constexpr std::int64_t least_pixels = 256;
    const double parts = key.products() / products_of_part / static_cast<double>(key.n);
    const auto most = std::max<std::int64_t>(pixels_ / least_pixels, 1);
    const auto count =
        parts < static_cast<double>(most) ? static_cast<std::int64_t>(parts) + 1 : most;
    part_pixels_ = (pixels_ + count - 1) / count;
    parts_of_image_ = (pixels_ + part_pixels_ - 1) / part_pixels_;
  }

  std::size_t bytes() const noexcept override { return sizeof(*this); }

  void run(const convolution_call& call, const f32_operands& operands) const override {
    const auto bytes = [](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * sizeof(float);
    };
    const library_call_scope scope(
        {{operands.x, bytes(call.key.x_extent())},
         {operands.w, bytes(call.key.w_extent())},
         {operands.bias, operands.bias == nullptr ? 0 : bytes(call.key.y_channels())}},
        {{operands.y, bytes(call.key.y_extent())}});
    constexpr double products_in_nanosecond = 30;
    const work_chunks chunks(key_.n * parts_of_image_,
                             static_cast<double>(part_pixels_) * static_cast<double>(key_.k) *
                                 static_cast<double>(key_.c) / products_in_nanosecond);
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const single_thread_scope single_thread;
      for (auto part = chunks[chunk].begin; part < chunks[chunk].end; ++part) {
        multiply(call, operands, part / parts_of_image_, part % parts_of_image_ * part_pixels_);
      }
    });
  }

 private:
  void multiply(const convolution_call& call, const f32_operands& operands, std::int64_t image,
                std::int64_t first) const {
    const auto count = std::min(part_pixels_, pixels_ - first);
    const float* const x = operands.x + image * key_.x_distance + first;
    float* const y = operands.y + image * key_.y_distance + first;
    for (std::int64_t k = 0; operands.bias != nullptr && k < key_.k; ++k) {
      std::fill_n(y + k * pixels_, count, operands.bias[k]);
    }
    const float beta = operands.bias != nullptr ? 1 : 0;
    check_onednn("a product of oneDNN", [&] {
      const auto status = dnnl::sgemm('N', 'N', key_.k, count, key_.c, 1, operands.w, key_.c, x,
                                      pixels_, beta, y, pixels_);
      if (status != dnnl::status::success) {
        throw dnnl::error(static_cast<dnnl_status_t>(status), "sgemm");
      }
    });
    const float* const residual =
        operands.residual == nullptr
            ? nullptr
            : operands.residual + image * call.output.residual_distance + first;
    if (count == pixels_) return finish(call.function, residual, key_.k * pixels_, y);
    for (std::int64_t k = 0; k < key_.k; ++k) {
      finish(call.function, residual == nullptr ? nullptr : residual + k * pixels_, count,
             y + k * pixels_);
    }
  }

  convolution_shape key_;
  std::int64_t pixels_;  // of an image
  std::int64_t part_pixels_ = 0;
  std::int64_t parts_of_image_ = 0;
};

}  // namespace

std::shared_ptr<const convolution_plan> make_pointwise_plan(const convolution_shape& key) {
  constexpr spatial ones{1, 1, 1};
  constexpr spatial zeros{};
  constexpr std::int64_t enough_pixels = 128;  // with fewer ones, reorders cost less
  const bool is_pointwise = !key.is_transposed() && key.groups == 1 && key.taps == ones &&
                            key.stride == ones && key.before == zeros && key.after == zeros &&
                            key.order == operations::channel_order::first;
  if (!is_pointwise || operations::product_of(key.output) < enough_pixels) return nullptr;
  return std::make_shared<pointwise_plan>(key);
}

}  // namespace sluice::host
