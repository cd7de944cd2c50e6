// SPDX-License-Identifier: Apache-2.0
#include "actors/dnn/dnn_host.hpp"

#include "actors/dnn/check_onednn.hpp"
#include "actors/dnn/onednn_convolution.hpp"
#include "actors/dnn/single_thread_scope.hpp"
#include "actors/plan_cache.hpp"
#include "actors/workspace.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/host_task.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace sluice::host {

namespace {

using actors::conv2d_description;
using actors::conv2d_plan;
using dnnl::memory;

/// The operands of one convolution. The scratch memory is the lane's.
struct conv2d_operands {
  const float* x;
  const float* w;
  const float* bias;
  float* y;
  std::byte* scratch;
};

/// ReLU in place, keeping NaN, which oneDNN's own one turns into 0.
void rectify(float* y, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) y[i] = y[i] < 0.0F ? 0.0F : y[i];
}

/// Takes ranges of the lane's scratch memory, one after the other.
class scratch_layout {
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

/// The primitives of one convolution, and where in the scratch memory they keep what. oneDNN
/// chooses how the operands lie in memory; what differs from the caller's order is reordered before
/// and after.
class onednn_plan final : public conv2d_plan {
 public:
  onednn_plan(const conv2d_description& description, const dnnl::engine& engine,
              const dnnl::stream& stream)
      : conv2d_plan(description), engine_(engine), stream_(stream) {
    if (y_elements() != 0 && !sums_nothing()) build();
  }

  [[nodiscard]] std::size_t scratch_bytes() const noexcept { return layout_.bytes(); }

  /// Stream thread.
  void run(const conv2d_operands& operands) const {
    if (sums_nothing()) {
      write_bias(operands);
    } else {
      const library_call_scope scope(
          {{operands.x, x_elements() * sizeof(float)},
           {operands.w, w_elements() * sizeof(float)},
           {operands.bias, bias_elements() * sizeof(float)}},
          {{operands.y, y_elements() * sizeof(float)}, {operands.scratch, scratch_bytes()}});
      const single_thread_scope single_thread;
      check_onednn("conv2d", [&] { execute(operands); });
    }
    if (description().activation == activation::relu) rectify(operands.y, y_elements());
  }

 private:
  /// An operand that the convolution wants in another order than the caller's.
  struct conversion {
    memory::desc outer;  // the caller's order
    memory::desc inner;  // the convolution's order
    dnnl::reorder reorder;
    memory::desc scratchpad;
    std::size_t position = 0;  // of the operand in the convolution's order
    bool needed = false;
  };

  void build() {
    const conv2d_description& d = description();
    const conv2d_geometry& g = d.geometry;
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    const auto plain = [](const memory::dims& dims, memory::format_tag tag) {
      return memory::desc(dims, memory::data_type::f32, tag);
    };
    const memory::dims x{d.input.n, d.input.c, d.input.h, d.input.w};
    const memory::dims y{output().n, output().c, output().h, output().w};
    const memory::dims w =
        g.groups == 1
            ? memory::dims{d.filter.k, d.filter.c, d.filter.r, d.filter.s}
            : memory::dims{g.groups, d.filter.k / g.groups, d.filter.c, d.filter.r, d.filter.s};

    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (d.has_bias) bias_ = plain({d.filter.k}, memory::format_tag::a);
    const auto described = describe(engine_,
                                    {.source = any(x),
                                     .weights = any(w),
                                     .bias = bias_,
                                     .destination = any(y),
                                     .strides = {g.stride.h, g.stride.w},
                                     .dilations = {g.dilation.h - 1, g.dilation.w - 1},
                                     .padding = {g.padding.h, g.padding.w}},
                                    attributes);
    convolution_ = dnnl::convolution_forward(described);
    scratchpad_ = described.scratchpad_desc();

    convert(x_, plain(x, memory::format_tag::nchw), described.src_desc(), attributes, true);
    convert(w_, plain(w, g.groups == 1 ? memory::format_tag::oihw : memory::format_tag::goihw),
            described.weights_desc(), attributes, true);
    convert(y_, plain(y, memory::format_tag::nchw), described.dst_desc(), attributes, false);
    // One after the other they run, so they can share.
    scratchpad_position_ =
        layout_.take(std::max({scratchpad_.get_size(), x_.scratchpad.get_size(),
                               w_.scratchpad.get_size(), y_.scratchpad.get_size()}));
  }

  void convert(conversion& c, const memory::desc& outer, const memory::desc& inner,
               const dnnl::primitive_attr& attributes, bool inwards) {
    c.outer = outer;
    c.inner = inner;
    c.needed = outer != inner;
    if (!c.needed) return;
    const dnnl::reorder::primitive_desc described(engine_, inwards ? outer : inner, engine_,
                                                  inwards ? inner : outer, attributes);
    c.reorder = dnnl::reorder(described);
    c.scratchpad = described.scratchpad_desc();
    c.position = layout_.take(inner.get_size());
  }

  [[nodiscard]] memory at(const memory::desc& desc, const void* address) const {
    return memory(desc, engine_, const_cast<void*>(address));
  }

  void execute(const conv2d_operands& operands) const {
    std::byte* const scratchpad = operands.scratch + scratchpad_position_;
    const auto inner = [&](const conversion& c, const void* outer) {
      return at(c.inner, c.needed ? operands.scratch + c.position : outer);
    };
    const auto reorder = [&](const conversion& c, const memory& from, const memory& to) {
      c.reorder.execute(stream_, {{DNNL_ARG_FROM, from},
                                  {DNNL_ARG_TO, to},
                                  {DNNL_ARG_SCRATCHPAD, at(c.scratchpad, scratchpad)}});
    };
    const memory x = inner(x_, operands.x);
    const memory w = inner(w_, operands.w);
    const memory y = inner(y_, operands.y);
    if (x_.needed) reorder(x_, at(x_.outer, operands.x), x);
    if (w_.needed) reorder(w_, at(w_.outer, operands.w), w);
    std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, x},
                                              {DNNL_ARG_WEIGHTS, w},
                                              {DNNL_ARG_DST, y},
                                              {DNNL_ARG_SCRATCHPAD, at(scratchpad_, scratchpad)}};
    if (operands.bias != nullptr) arguments.emplace(DNNL_ARG_BIAS, at(bias_, operands.bias));
    convolution_.execute(stream_, arguments);
    if (y_.needed) reorder(y_, y, at(y_.outer, operands.y));
    dnnl::stream(stream_).wait();
  }

  void write_bias(const conv2d_operands& operands) const noexcept {
    const auto channels = static_cast<std::size_t>(output().c);
    const std::size_t plane = y_elements() / (channels * static_cast<std::size_t>(output().n));
    for (std::size_t i = 0; i < y_elements(); ++i) {
      operands.y[i] = operands.bias == nullptr ? 0.0F : operands.bias[i / plane % channels];
    }
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::convolution_forward convolution_;
  memory::desc bias_;
  memory::desc scratchpad_;
  conversion x_;
  conversion w_;
  conversion y_;
  scratch_layout layout_;
  std::size_t scratchpad_position_ = 0;
};

class onednn final : public actors::dnn_library {
 public:
  onednn(device_runtime& runtime, stream_ref stream)
      : stream_(stream),
        engine_(check_onednn("oneDNN's CPU engine",
                             [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })),
        onednn_stream_(check_onednn("oneDNN's CPU stream", [&] { return dnnl::stream(engine_); })),
        scratch_(runtime, stream, "onednn workspace") {}

  [[nodiscard]] std::string_view name() const noexcept override { return "oneDNN"; }

  [[nodiscard]] std::string version() const override {
    const dnnl_version_t* const v = dnnl_version();
    return std::to_string(v->major) + '.' + std::to_string(v->minor) + '.' +
           std::to_string(v->patch);
  }

  [[nodiscard]] std::shared_ptr<const conv2d_plan> prepare(
      const conv2d_description& description) override {
    return plans_.find_or_make(description, [&] {
      const single_thread_scope single_thread;
      auto plan = check_onednn("conv2d", [&] {
        return std::make_shared<const onednn_plan>(description, engine_, onednn_stream_);
      });
      scratch_.require(plan->scratch_bytes());
      return plan;
    });
  }

  void conv2d(const conv2d_plan& plan, const float* x, const float* w, const float* bias,
              float* y) override {
    if (plan.y_elements() == 0) return;
    const auto& mine = static_cast<const onednn_plan&>(plan);
    const conv2d_operands operands{x, w, bias, y, static_cast<std::byte*>(scratch_.address())};
    submit_host_task(stream_, [&mine, operands] { mine.run(operands); });
  }

 private:
  stream_ref stream_;
  dnnl::engine engine_;
  dnnl::stream onednn_stream_;
  actors::workspace scratch_;
  actors::plan_cache<conv2d_description, conv2d_plan> plans_{64};
};

}  // namespace

std::unique_ptr<actors::dnn_library> make_dnn_library(device_runtime& runtime, stream_ref stream) {
  return std::make_unique<onednn>(runtime, stream);
}

}  // namespace sluice::host
