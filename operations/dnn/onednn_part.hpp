// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_parts.hpp"
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/onednn_convolution.hpp"
#include "operations/dnn/workspace_layout.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

// One part of a convolution by oneDNN.
namespace sluice::host {

/// Appends the numbers of the dimensions that oneDNN sees.
inline void append(dnnl::memory::dims& dims, const operations::convolution_shape& key,
                   const operations::spatial& values) {
  dims.insert(dims.end(), values.end() - static_cast<std::ptrdiff_t>(key.rank()), values.end());
}

/// Images of X or Y.
[[nodiscard]] inline dnnl::memory::desc described(const operations::convolution_shape& key,
                                                  const dnnl::memory::dims& dims,
                                                  const operations::image_strides& s) {
  dnnl::memory::dims strides{s.image, s.channel};
  append(strides, key, s.axes);
  return {dims, dnnl::memory::data_type::f32, strides};
}

/// The filters. oneDNN wants channels of the result before those of X.
struct filter_layout {
  dnnl::memory::dims dims;
  dnnl::memory::dims strides;
  [[nodiscard]] dnnl::memory::desc desc() const {
    return {dims, dnnl::memory::data_type::f32, strides};
  }
};
[[nodiscard]] inline filter_layout filters_of(const operations::convolution_shape& key) {
  const auto s = key.w_strides();
  const auto filters = key.k / key.groups;
  const auto channels = key.c / key.groups;
  filter_layout layout{{filters, channels}, {s.image, s.channel}};
  if (key.is_transposed()) {
    std::swap(layout.dims[0], layout.dims[1]);
    std::swap(layout.strides[0], layout.strides[1]);
  }
  if (key.groups > 1) {
    layout.dims.insert(layout.dims.begin(), key.groups);
    layout.strides.insert(layout.strides.begin(), filters * s.image);
  }
  append(layout.dims, key, key.taps);
  append(layout.strides, key, s.axes);
  return layout;
}

/// An operand that oneDNN may want in another order than the caller's.
class conversion {
 public:
  conversion() = default;
  /// @throws dnnl::error
  conversion(const dnnl::engine& engine, const dnnl::memory::desc& outer,
             const dnnl::memory::desc& inner, bool inwards)
      : outer_(outer), inner_(inner), needed_(outer != inner) {
    if (!needed_) return;
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc descriptor(engine, inwards ? outer : inner, engine,
                                                   inwards ? inner : outer, attributes);
    reorder_ = dnnl::reorder(descriptor);
    scratchpad_ = descriptor.scratchpad_desc();
  }
  [[nodiscard]] bool needed() const noexcept { return needed_; }
  [[nodiscard]] const dnnl::memory::desc& outer() const noexcept { return outer_; }
  [[nodiscard]] const dnnl::memory::desc& inner() const noexcept { return inner_; }
  [[nodiscard]] std::size_t bytes() const { return needed_ ? inner_.get_size() : 0; }
  [[nodiscard]] std::size_t scratchpad_bytes() const {
    return needed_ ? scratchpad_.get_size() : 0;
  }

  void execute(dnnl::stream& stream, const dnnl::memory& source, const dnnl::memory& target,
               void* scratchpad) const {
    reorder_.execute(stream, {{DNNL_ARG_FROM, source},
                              {DNNL_ARG_TO, target},
                              {DNNL_ARG_SCRATCHPAD,
                               dnnl::memory(scratchpad_, stream.get_engine(), scratchpad)}});
  }

 private:
  dnnl::memory::desc outer_;  // the caller's order
  dnnl::memory::desc inner_;  // the order of oneDNN
  dnnl::reorder reorder_;
  dnnl::memory::desc scratchpad_;
  bool needed_ = false;
};

/// The primitives of parts of one shape, and their places in the scratch memory of a part. Any
/// number of threads may execute it, each with memory of its own.
class part_primitives {
 public:
  /// Makes the first of oneDNN's implementations that `accepts(primitives)`; nothing if there is
  /// none.
  /// @param weights the order of the filters; that of the implementation if it is null
  /// @throws dnnl::error
  template <class Accepts>
  static std::optional<part_primitives> make(const operations::convolution_shape& key,
                                             const part_shape& part, const dnnl::engine& engine,
                                             const dnnl::memory::desc* weights,
                                             const Accepts& accepts) {
    return key.is_transposed()
               ? make_with<dnnl::deconvolution_forward>(key, part, engine, weights, accepts)
               : make_with<dnnl::convolution_forward>(key, part, engine, weights, accepts);
  }
  /// The order of the filters.
  [[nodiscard]] const dnnl::memory::desc& weights() const noexcept { return weights_; }
  /// The scratch memory of a part.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// @param operands the first elements of the part; `w` in the order `weights()`, and a bias
  void execute(const dnnl::engine& engine, const f32_operands& operands) const {
    dnnl::stream stream(engine);
    std::byte* const scratchpad = operands.workspace + scratchpad_position_;
    const auto memory_at = [&](const dnnl::memory::desc& desc, const void* address) {
      return dnnl::memory(desc, engine, const_cast<void*>(address));
    };
    const auto inner = [&](const conversion& c, const void* outer, std::size_t position) {
      return memory_at(c.inner(), c.needed() ? operands.workspace + position : outer);
    };
    const dnnl::memory x = inner(x_, operands.x, 0);
    const dnnl::memory y = inner(y_, operands.y, y_position_);
    if (x_.needed()) x_.execute(stream, memory_at(x_.outer(), operands.x), x, scratchpad);
    convolution_.execute(stream, {{DNNL_ARG_SRC, x},
                                  {DNNL_ARG_WEIGHTS, memory_at(weights_, operands.w)},
                                  {DNNL_ARG_BIAS, memory_at(bias_, operands.bias)},
                                  {DNNL_ARG_DST, y},
                                  {DNNL_ARG_SCRATCHPAD, memory_at(scratchpad_, scratchpad)}});
    if (y_.needed()) y_.execute(stream, y, memory_at(y_.outer(), operands.y), scratchpad);
    stream.wait();
  }

 private:
  template <class Primitive, class Accepts>
  static std::optional<part_primitives> make_with(const operations::convolution_shape& key,
                                                  const part_shape& part,
                                                  const dnnl::engine& engine,
                                                  const dnnl::memory::desc* weights,
                                                  const Accepts& accepts) {
    const auto axis = row_axis(key);
    const auto image_dims = [&](std::int64_t channels, operations::spatial shape,
                                std::int64_t part_rows) {
      shape[axis] = part_rows;
      dnnl::memory::dims dims{part.images, channels};
      append(dims, key, shape);
      return dims;
    };
    const auto input = image_dims(key.c, key.input, part.input);
    const auto output = image_dims(key.k, key.output, part.output);
    const auto& x = key.is_transposed() ? output : input;
    const auto& y = key.is_transposed() ? input : output;
    auto before = key.before;
    before[axis] = part.before;
    auto after = key.after;
    after[axis] = part.after;
    auto dilation = key.dilation;
    for (auto& value : dilation) --value;
    const auto any = [](const dnnl::memory::dims& dims) {
      return dnnl::memory::desc(dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any);
    };
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const auto axes = [&](const operations::spatial& values) {
      dnnl::memory::dims dims;
      append(dims, key, values);
      return dims;
    };
    onednn_implementations<Primitive> implementations(
        engine,
        {.source = any(x),
         .weights = weights != nullptr ? *weights : any(filters_of(key).dims),
         .bias = dnnl::memory::desc({key.y_channels()}, dnnl::memory::data_type::f32,
                                    dnnl::memory::format_tag::a),
         .destination = any(y),
         .strides = axes(key.stride),
         .dilations = axes(dilation),
         .padding = axes(before),
         .padding_end = axes(after)},
        attributes);
    do {
      const auto& implementation = implementations.current();
      // oneDNN's reference implementation is slower than the direct convolution.
      const std::string_view name = implementation.impl_info_str();
      if (name.starts_with("ref") || name.find("+ref") != name.npos) continue;
      part_primitives primitives;
      primitives.convolution_ = Primitive(implementation);
      primitives.weights_ = implementation.weights_desc();
      primitives.bias_ = implementation.bias_desc();
      primitives.scratchpad_ = implementation.scratchpad_desc();
      primitives.x_ =
          conversion(engine, described(key, x, key.x_strides()), implementation.src_desc(), true);
      primitives.y_ =
          conversion(engine, described(key, y, key.y_strides()), implementation.dst_desc(), false);
      primitives.place();
      if (accepts(static_cast<const part_primitives&>(primitives))) return primitives;
    } while (implementations.next());
    return std::nullopt;
  }

  void place() {
    workspace_layout layout;
    (void)layout.take(x_.bytes());  // first
    y_position_ = layout.take(y_.bytes());
    // The primitives run one after the other, so they share their scratch memory.
    scratchpad_position_ = layout.take(
        std::max({scratchpad_.get_size(), x_.scratchpad_bytes(), y_.scratchpad_bytes()}));
    bytes_ = layout.bytes();
  }

  dnnl::primitive convolution_;
  dnnl::memory::desc weights_;
  dnnl::memory::desc bias_;
  dnnl::memory::desc scratchpad_;
  conversion x_;
  conversion y_;
  std::size_t y_position_ = 0;
  std::size_t scratchpad_position_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace sluice::host
