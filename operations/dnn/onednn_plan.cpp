// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/check_onednn.hpp"
#include "operations/dnn/convolution_parts.hpp"
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/onednn_part.hpp"
#include "operations/dnn/single_thread_scope.hpp"
#include "operations/dnn/workspace_layout.hpp"
#include "runtime/seam.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using dnnl::memory;
using operations::convolution_call;
using operations::convolution_shape;

/// Whether oneDNN takes a convolution.
///
/// The time in which it plans grows with the width: 0.2 s for 2^16 elements, 20 s for 2^26, where
/// oneDNN 2.6 can end the process. Its indices have 32 bits in places.
bool suits_onednn(const convolution_shape& key) noexcept {
  constexpr std::int64_t widest = std::int64_t{1} << 17;
  constexpr std::int64_t highest = std::int64_t{1} << 28;
  constexpr std::int64_t greatest = std::numeric_limits<std::int32_t>::max();
  const auto fits = [&](std::size_t axis, std::int64_t limit) {
    const auto padding = std::max(key.before[axis], key.after[axis]);
    return key.input[axis] <= limit && key.output[axis] <= limit && padding <= limit &&
           key.input[axis] + 2 * padding <= limit && key.dilation[axis] <= limit &&
           key.taps[axis] <= limit / key.dilation[axis];
  };
  const auto few = [](std::initializer_list<std::int64_t> values) {
    return std::max(values) <= greatest;
  };
  return key.has_padding() && fits(0, highest) && fits(1, highest) && fits(2, widest) &&
         few({key.n, key.c, key.k, key.stride[0], key.stride[1], key.stride[2], key.x_image(),
              key.y_image(), key.w_extent()});
}

/// A convolution along the width as one along the height. The elements stay where they are.
convolution_shape turned(convolution_shape key) noexcept {
  for (auto* numbers :
       {&key.input, &key.taps, &key.output, &key.before, &key.after, &key.stride, &key.dilation}) {
    std::swap((*numbers)[1], (*numbers)[2]);
  }
  return key;
}

/// The key as it is given to oneDNN; nothing if the convolution is computed directly.
std::optional<convolution_shape> key_for_onednn(const convolution_shape& key) noexcept {
  if (suits_onednn(key)) return key;
  const bool is_one_row =
      key.rank() == 2 && key.input[1] == 1 && key.taps[1] == 1 && key.output[1] == 1;
  if (is_one_row && suits_onednn(turned(key))) return turned(key);
  return std::nullopt;
}

/// A convolution by oneDNN. Threads of the device compute its parts, each with scratch memory of
/// its own.
class onednn_plan final : public convolution_plan {
 public:
  /// The plan for these parts; nullptr if oneDNN has no implementation that needs little memory.
  /// @throws dnnl::error
  static std::shared_ptr<onednn_plan> make(const convolution_shape& key,
                                           const std::vector<convolution_part>& parts,
                                           const onednn_lane& lane) {
    auto plan = std::make_shared<onednn_plan>(key, lane.engine);
    // One in the middle, because most are like it, chooses the order of the filters.
    const auto& model = parts[parts.size() / 2];
    const auto fits = [&](const part_primitives& primitives) {
      return parts.size() * primitives.bytes() + primitives.weights().get_size() <=
             workspace_limit(key);
    };
    if (!plan->add_shape(model.shape, nullptr, fits)) return nullptr;
    const auto weights = plan->primitives_.front().weights();
    for (const auto& part : parts) {
      auto shape = plan->index_of(part.shape);
      if (!shape) {
        if (!plan->add_shape(part.shape, &weights, fits)) return nullptr;
        shape = plan->shapes_.size() - 1;
      }
      plan->parts_.push_back({*shape, part.image, part.x_offset, part.y_offset});
    }
    plan->w_ = conversion(lane.engine, filters_of(key).desc(), weights, true);
    plan->place();
    return plan;
  }

  onednn_plan(const convolution_shape& key, const dnnl::engine& engine)
      : key_(key), engine_(engine), no_bias_(static_cast<std::size_t>(key.y_channels())) {}

  std::size_t bytes() const noexcept override {
    constexpr std::size_t primitives = std::size_t{256} << 10U;  // mostly generated code
    return primitives * shapes_.size() + parts_.size() * sizeof(placed_part) +
           no_bias_.size() * sizeof(float);
  }
  std::size_t workspace_bytes() const noexcept override { return layout_.bytes(); }

  prepacked_layout layout_of_w() const override {
    if (!w_.needed()) return {};
    return {w_.bytes(), "oneDNN " + identity_of(w_.outer()) + identity_of(w_.inner())};
  }
  void prepack_w(const float* w, void* copy) const override {
    const library_call_scope scope({{w, static_cast<std::size_t>(key_.w_extent()) * sizeof(float)}},
                                   {{copy, w_.bytes()}});
    check_onednn("a reorder of oneDNN", [&] {
      const single_thread_scope single_thread;
      memory source(w_.outer(), engine_, const_cast<float*>(w));
      memory target(w_.inner(), engine_, copy);
      dnnl::stream stream(engine_);
      dnnl::reorder(source, target).execute(stream, source, target);
      stream.wait();
    });
  }

  void run(const convolution_call& call, const f32_operands& operands) const override {
    const auto bytes = [](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * sizeof(float);
    };
    const library_call_scope scope(
        {{operands.x, bytes(call.key.x_extent())},
         operands.prepacked_w != nullptr ? read_range{operands.prepacked_w, w_.bytes()}
                                         : read_range{operands.w, bytes(call.key.w_extent())},
         {operands.bias, operands.bias == nullptr ? 0 : bytes(call.key.y_channels())}},
        {{operands.y, bytes(call.key.y_extent())}, {operands.workspace, workspace_bytes()}});
    check_onednn("a convolution of oneDNN", [&] { execute(call, operands); });
  }

 private:
  struct placed_part {
    std::size_t shape;
    std::int64_t image;
    std::int64_t x_offset;
    std::int64_t y_offset;
  };

  template <class Accepts>
  [[nodiscard]] bool add_shape(const part_shape& shape, const memory::desc* weights,
                               const Accepts& accepts) {
    auto primitives = part_primitives::make(key_, shape, engine_, weights, accepts);
    if (!primitives) return false;
    shapes_.push_back(shape);
    primitives_.push_back(std::move(*primitives));
    return true;
  }
  [[nodiscard]] std::optional<std::size_t> index_of(const part_shape& shape) const noexcept {
    const auto place = std::find(shapes_.begin(), shapes_.end(), shape);
    if (place == shapes_.end()) return std::nullopt;
    return static_cast<std::size_t>(place - shapes_.begin());
  }
  void place() {
    w_position_ = layout_.take(w_.bytes());
    w_scratchpad_position_ = layout_.take(w_.scratchpad_bytes());
    for (const auto& primitives : primitives_) {
      part_bytes_ = std::max(part_bytes_, primitives.bytes());
    }
    parts_position_ = layout_.take(part_bytes_ * parts_.size());
  }

  void execute(const convolution_call& call, const f32_operands& operands) const {
    const void* w = operands.prepacked_w != nullptr ? operands.prepacked_w : operands.w;
    if (w_.needed() && operands.prepacked_w == nullptr) {
      const single_thread_scope single_thread;
      dnnl::stream stream(engine_);
      const auto memory_at = [&](const memory::desc& desc, const void* address) {
        return memory(desc, engine_, const_cast<void*>(address));
      };
      w = operands.workspace + w_position_;
      w_.execute(stream, memory_at(w_.outer(), operands.w), memory_at(w_.inner(), w),
                 operands.workspace + w_scratchpad_position_);
      stream.wait();
    }
    const float* const bias = operands.bias != nullptr ? operands.bias : no_bias_.data();
    parallel_for(static_cast<std::int64_t>(parts_.size()), [&](std::int64_t number) {
      const single_thread_scope single_thread;
      const auto index = static_cast<std::size_t>(number);
      const auto& part = parts_[index];
      primitives_[part.shape].execute(
          engine_, {.x = operands.x + part.x_offset,
                    .w = static_cast<const float*>(w),
                    .bias = bias,
                    .y = operands.y + part.y_offset,
                    .workspace = operands.workspace + parts_position_ + index * part_bytes_});
      finish_part(call, operands, part);
    });
  }
  /// Adds the residual to a part of Y and applies the activation.
  void finish_part(const convolution_call& call, const f32_operands& operands,
                   const placed_part& part) const {
    const auto& shape = shapes_[part.shape];
    const auto axis = row_axis(key_);
    const auto strides = key_.y_strides();
    const auto all_rows = key_.y_extents()[axis];
    const auto rows = key_.is_transposed() ? all_rows : shape.output;
    // The elements of a part lie side by side in each plane, or in each image.
    const bool has_planes = key_.order == operations::channel_order::first && rows < all_rows;
    const auto runs = has_planes ? key_.y_channels() : 1;
    const auto count = has_planes         ? rows * strides.axes[axis]
                       : rows == all_rows ? key_.y_image()
                                          : rows * strides.axes[axis];
    const auto offset = part.y_offset - part.image * strides.image;
    for (std::int64_t image = part.image; image < part.image + shape.images; ++image) {
      for (std::int64_t run = 0; run < runs; ++run) {
        const auto position = offset + run * strides.channel;
        finish(call.function,
               operands.residual == nullptr
                   ? nullptr
                   : operands.residual + image * call.output.residual_distance + position,
               count, operands.y + image * strides.image + position);
      }
    }
  }

  convolution_shape key_;
  dnnl::engine engine_;
  std::vector<float> no_bias_;  // zeros: one plan serves requests with and without a bias
  std::vector<part_shape> shapes_;
  std::vector<part_primitives> primitives_;  // of each shape
  std::vector<placed_part> parts_;
  conversion w_;
  workspace_layout layout_;
  std::size_t w_position_ = 0;
  std::size_t w_scratchpad_position_ = 0;
  std::size_t parts_position_ = 0;
  std::size_t part_bytes_ = 0;
};

/// The plan of oneDNN for a convolution, divided into parts if that is possible; nullptr if there
/// is none.
/// @throws dnnl::error
std::shared_ptr<onednn_plan> make_plan(const convolution_shape& key, const onednn_lane& lane) {
  if (const auto parts = parts_of(key); !parts.empty()) {
    try {
      if (auto plan = onednn_plan::make(key, parts, lane)) return plan;
    } catch (const dnnl::error& failure) {
      if (failure.status != dnnl_unimplemented && failure.status != dnnl_invalid_arguments) throw;
    }
  }
  return onednn_plan::make(key, {whole_of(key)}, lane);
}

}  // namespace

std::size_t workspace_limit(const convolution_shape& key) noexcept {
  constexpr std::size_t always_allowed = std::size_t{64} << 20U;
  const auto elements = key.n * (key.x_image() + key.y_image()) + key.w_extent();
  return always_allowed + 2 * sizeof(float) * static_cast<std::size_t>(elements);
}

onednn_lane::onednn_lane(device_runtime&, stream_ref)
    : engine(check_onednn("oneDNN's CPU engine",
                          [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })) {}

std::shared_ptr<const convolution_plan> make_onednn_plan(lane_libraries& libraries,
                                                         const convolution_shape& shape) {
  const auto key = key_for_onednn(shape);
  if (!key) return nullptr;
  const single_thread_scope single_thread;
  try {
    return make_plan(*key, libraries.get<onednn_lane>());
  } catch (const dnnl::error& failure) {
    if (failure.status == dnnl_unimplemented || failure.status == dnnl_invalid_arguments) {
      return nullptr;
    }
    check_onednn("a plan of oneDNN", []() -> void { throw; });
    return nullptr;
  }
}

}  // namespace sluice::host
