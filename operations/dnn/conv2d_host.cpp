// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/check_onednn.hpp"
#include "operations/dnn/conv2d_functions.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/onednn_convolution.hpp"
#include "operations/dnn/single_thread_scope.hpp"
#include "runtime/seam.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::host {
namespace {

using dnnl::memory;
using operations::conv2d_call;
using operations::conv2d_key;
using operations::image_strides;

/// oneDNN's engine and stream for one lane.
struct onednn_lane {
  onednn_lane(device_runtime&, stream_ref)
      : engine(check_onednn("oneDNN's CPU engine",
                            [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })),
        stream(check_onednn("oneDNN's CPU stream", [&] { return dnnl::stream(engine); })) {}
  dnnl::engine engine;
  dnnl::stream stream;
};

/// The operands of one convolution.
struct conv2d_operands {
  const float* x;
  const float* w;
  const float* bias;
  float* y;
  std::byte* workspace;
};

/// A way to compute Y without its activation.
class conv2d_plan : public operation_plan {
 public:
  virtual void run(const conv2d_call& call, const conv2d_operands& operands) const = 0;
};

/// Computes by the definition.
class direct_plan final : public conv2d_plan {
 public:
  void run(const conv2d_call& call, const conv2d_operands& operands) const override {
    fill_with_bias(call.output, operands.bias, operands.y);
    if (call.multiplies) add_products(call.key, operands.x, operands.w, operands.y);
  }
};

/// Divides the workspace into ranges.
class workspace_layout {
 public:
  /// The position of `bytes` bytes, aligned for every instruction set.
  std::size_t take(std::size_t bytes) noexcept {
    const std::size_t position = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return position;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

/// Whether oneDNN takes a convolution.
///
/// The time in which it plans grows with the width: 0.2 s for 2^16 elements, 20 s for 2^26, where
/// oneDNN 2.6 can end the process. Its indices have 32 bits in places.
bool suits_onednn(const conv2d_key& key) noexcept {
  constexpr std::int64_t widest = std::int64_t{1} << 17;
  constexpr std::int64_t highest = std::int64_t{1} << 28;
  constexpr std::int64_t greatest = std::numeric_limits<std::int32_t>::max();
  const auto fits = [](std::int64_t extent, std::int64_t padding, std::int64_t taps,
                       std::int64_t dilation, std::int64_t limit) {
    return extent <= limit && padding <= limit && extent + 2 * padding <= limit &&
           dilation <= limit && taps <= limit / dilation;
  };
  const auto few = [](std::initializer_list<std::int64_t> values) {
    return std::max(values) <= greatest;
  };
  return fits(key.h, key.padding_h, key.r, key.dilation_h, highest) &&
         fits(key.w, key.padding_w, key.s, key.dilation_w, widest) &&
         few({key.n, key.c, key.k, key.stride_h, key.stride_w, key.x_image(), key.y_image(),
              key.w_extent()});
}

/// Whether one thread computes a convolution. OpenMP's threads spin after each call and take the
/// processors from other lanes, which costs more than they gain where a call takes less than about
/// 5 ms. ThreadSanitizer does not see how they synchronize.
bool is_for_one_thread(const conv2d_key& key) noexcept {
  constexpr double most = 1 << 27;  // products
  const std::array factors{key.n, key.k, key.output_h, key.output_w, key.c / key.groups,
                           key.r, key.s};
  const double products = std::accumulate(factors.begin(), factors.end(), 1.0, std::multiplies<>());
  return thread_sanitizer_on || products <= most;
}

/// A convolution of one dimension as one along the height. The elements stay where they are.
conv2d_key turned(const conv2d_key& key) noexcept {
  auto t = key;
  std::swap(t.h, t.w);
  std::swap(t.r, t.s);
  std::swap(t.output_h, t.output_w);
  std::swap(t.padding_h, t.padding_w);
  std::swap(t.stride_h, t.stride_w);
  std::swap(t.dilation_h, t.dilation_w);
  return t;
}

/// The most scratch memory that a plan may need, in bytes. oneDNN stores channels in blocks of 8 or
/// 16, which for one channel takes up to 16 times the memory of an image.
std::size_t workspace_limit(const conv2d_key& key) noexcept {
  constexpr std::size_t always_allowed = std::size_t{64} << 20U;
  const auto elements = key.n * (key.x_image() + key.y_image()) + key.w_extent();
  return always_allowed + 2 * sizeof(float) * static_cast<std::size_t>(elements);
}

memory::desc described(const memory::dims& dims, const image_strides& s) {
  memory::dims strides{s.image, s.channel, s.row, s.column};
  if (dims.size() == 5) strides.insert(strides.begin(), dims[1] * s.image);  // filters in groups
  return {dims, memory::data_type::f32, strides};
}

/// The primitives of one convolution, and their places in the workspace. oneDNN chooses how the
/// operands lie in memory; those that lie otherwise are reordered before and after.
class onednn_plan final : public conv2d_plan {
 public:
  /// The plan with the first of oneDNN's implementations that needs little memory; nullptr if there
  /// is none.
  /// @throws dnnl::error
  static std::shared_ptr<onednn_plan> make(const conv2d_key& key, const onednn_lane& lane) {
    const memory::dims x{key.n, key.c, key.h, key.w};
    const memory::dims y{key.n, key.k, key.output_h, key.output_w};
    const auto group_channels = key.c / key.groups;
    const auto w = key.groups == 1
                       ? memory::dims{key.k, key.c, key.r, key.s}
                       : memory::dims{key.groups, key.k / key.groups, group_channels, key.r, key.s};
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    onednn_implementations implementations(
        lane.engine,
        {.source = any(x),
         .weights = any(w),
         .bias = memory::desc({key.k}, memory::data_type::f32, memory::format_tag::a),
         .destination = any(y),
         .strides = {key.stride_h, key.stride_w},
         .dilations = {key.dilation_h - 1, key.dilation_w - 1},
         .padding = {key.padding_h, key.padding_w}},
        attributes);
    do {
      const auto& implementation = implementations.current();
      // oneDNN's reference implementation is slower than the direct convolution.
      if (std::string_view(implementation.impl_info_str()).starts_with("ref")) continue;
      auto plan = std::make_shared<onednn_plan>(lane, key);
      plan->convert(plan->x_, described(x, key.x_strides()), implementation.src_desc());
      plan->convert(plan->w_, described(w, key.w_strides()), implementation.weights_desc());
      plan->convert(plan->y_, described(y, key.y_strides()), implementation.dst_desc());
      plan->scratchpad_ = implementation.scratchpad_desc();
      if (plan->layout_.bytes() + plan->scratchpad_.get_size() > workspace_limit(key)) continue;
      plan->finish(implementation, attributes);
      return plan;
    } while (implementations.next());
    return nullptr;
  }

  onednn_plan(const onednn_lane& lane, const conv2d_key& key)
      : engine_(lane.engine),
        stream_(lane.stream),
        is_for_one_thread_(is_for_one_thread(key)),
        no_bias_(static_cast<std::size_t>(key.k)) {}

  std::size_t bytes() const noexcept override {
    constexpr std::size_t primitives = std::size_t{256} << 10U;  // mostly generated code
    return primitives + no_bias_.size() * sizeof(float);
  }
  std::size_t workspace_bytes() const noexcept override { return layout_.bytes(); }

  void run(const conv2d_call& call, const conv2d_operands& operands) const override {
    const auto bytes = [](std::int64_t elements) {
      return static_cast<std::size_t>(elements) * sizeof(float);
    };
    const library_call_scope scope(
        {{operands.x, bytes(call.key.x_extent())},
         {operands.w, bytes(call.key.w_extent())},
         {operands.bias, operands.bias == nullptr ? 0 : bytes(call.key.k)}},
        {{operands.y, bytes(call.key.y_extent())}, {operands.workspace, workspace_bytes()}});
    const single_thread_scope single_thread(is_for_one_thread_);
    check_onednn("conv2d", [&] { execute(operands); });
  }

 private:
  /// An operand that the convolution may want in another order than the caller's.
  struct conversion {
    memory::desc outer;  // the caller's order
    memory::desc inner;  // the convolution's order
    dnnl::reorder reorder;
    memory::desc scratchpad;
    std::size_t position = 0;  // of the operand in the convolution's order
    bool needed = false;
  };

  void convert(conversion& c, const memory::desc& outer, const memory::desc& inner) {
    c.outer = outer;
    c.inner = inner;
    c.needed = outer != inner;
    if (c.needed) c.position = layout_.take(inner.get_size());
  }

  void finish(const dnnl::convolution_forward::primitive_desc& implementation,
              const dnnl::primitive_attr& attributes) {
    convolution_ = dnnl::convolution_forward(implementation);
    bias_ = implementation.bias_desc();
    std::size_t largest = scratchpad_.get_size();
    for (auto* c : {&x_, &w_, &y_}) {
      if (!c->needed) continue;
      const bool inwards = c != &y_;
      const dnnl::reorder::primitive_desc descriptor(engine_, inwards ? c->outer : c->inner,
                                                     engine_, inwards ? c->inner : c->outer,
                                                     attributes);
      c->reorder = dnnl::reorder(descriptor);
      c->scratchpad = descriptor.scratchpad_desc();
      largest = std::max(largest, c->scratchpad.get_size());
    }
    // The primitives run one after the other, so they share their scratch memory.
    scratchpad_position_ = layout_.take(largest);
  }

  [[nodiscard]] memory at(const memory::desc& desc, const void* address) const {
    return memory(desc, engine_, const_cast<void*>(address));
  }

  void execute(const conv2d_operands& operands) const {
    std::byte* const scratchpad = operands.workspace + scratchpad_position_;
    const auto inner = [&](const conversion& c, const void* outer) {
      return at(c.inner, c.needed ? operands.workspace + c.position : outer);
    };
    const auto reorder = [&](const conversion& c, const memory& source, const memory& target) {
      c.reorder.execute(stream_, {{DNNL_ARG_FROM, source},
                                  {DNNL_ARG_TO, target},
                                  {DNNL_ARG_SCRATCHPAD, at(c.scratchpad, scratchpad)}});
    };
    const memory x = inner(x_, operands.x);
    const memory w = inner(w_, operands.w);
    const memory y = inner(y_, operands.y);
    if (x_.needed) reorder(x_, at(x_.outer, operands.x), x);
    if (w_.needed) reorder(w_, at(w_.outer, operands.w), w);
    const float* const bias = operands.bias != nullptr ? operands.bias : no_bias_.data();
    convolution_.execute(stream_, {{DNNL_ARG_SRC, x},
                                   {DNNL_ARG_WEIGHTS, w},
                                   {DNNL_ARG_BIAS, at(bias_, bias)},
                                   {DNNL_ARG_DST, y},
                                   {DNNL_ARG_SCRATCHPAD, at(scratchpad_, scratchpad)}});
    if (y_.needed) reorder(y_, y, at(y_.outer, operands.y));
    dnnl::stream(stream_).wait();
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  bool is_for_one_thread_;
  std::vector<float> no_bias_;  // zeros: one plan serves requests with and without a bias
  dnnl::convolution_forward convolution_;
  memory::desc bias_;
  memory::desc scratchpad_;
  conversion x_;
  conversion w_;
  conversion y_;
  workspace_layout layout_;
  std::size_t scratchpad_position_ = 0;
};

/// The key as it is given to oneDNN; nothing if the convolution is computed directly.
std::optional<conv2d_key> key_for_onednn(const conv2d_key& key) noexcept {
  if (suits_onednn(key)) return key;
  const bool one_dimension = key.h == 1 && key.r == 1 && key.output_h == 1;
  if (one_dimension && suits_onednn(turned(key))) return turned(key);
  return std::nullopt;
}

}  // namespace

std::string dnn_version() {
  const dnnl_version_t* const v = dnnl_version();
  return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' + std::to_string(v->patch);
}

void prepare_dnn(lane_libraries& libraries) {
  (void)libraries.get<onednn_lane>();
}

std::shared_ptr<const operation_plan> make_conv2d_plan(lane_libraries& libraries,
                                                       const conv2d_call& call) {
  const auto key = call.multiplies ? key_for_onednn(call.key) : std::nullopt;
  if (key) {
    const single_thread_scope single_thread(is_for_one_thread(*key));
    try {
      if (auto plan = onednn_plan::make(*key, libraries.get<onednn_lane>())) return plan;
    } catch (const dnnl::error& failure) {
      // What oneDNN does not take is computed directly.
      if (failure.status != dnnl_unimplemented && failure.status != dnnl_invalid_arguments) {
        check_onednn("conv2d", []() -> void { throw; });
      }
    }
  }
  return std::make_shared<direct_plan>();
}

void compute_conv2d(const conv2d_call& call, const launch_of<conv2d>& launch) {
  if (call.output.empty()) return;
  const conv2d_operands operands{
      launch.get<const float>(&conv2d::x), launch.get<const float>(&conv2d::w),
      launch.get<const float>(&conv2d::bias), launch.get<float>(&conv2d::y),
      static_cast<std::byte*>(launch.workspace())};
  launch.plan<conv2d_plan>().run(call, operands);
  if (call.relu) rectify(call.output, operands.y);
}

}  // namespace sluice::host
