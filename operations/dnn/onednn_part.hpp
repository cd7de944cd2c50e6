// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/dnn/convolution_parts.hpp"
#include "operations/dnn/convolution_plans.hpp"
#include "operations/dnn/kept_objects.hpp"
#include "operations/dnn/onednn_convolution.hpp"
#include "operations/dnn/workspace_layout.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
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

/// Memory by the numbers that oneDNN has for arguments.
using primitive_arguments = std::unordered_map<int, dnnl::memory>;

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
    const auto engine = stream.get_engine();
    execute(stream, arguments(source, target, dnnl::memory(scratchpad_, engine, scratchpad)));
  }
  /// @param arguments as `arguments` returns them
  void execute(dnnl::stream& stream, const primitive_arguments& arguments) const {
    reorder_.execute(stream, arguments);
  }
  [[nodiscard]] static primitive_arguments arguments(const dnnl::memory& source,
                                                     const dnnl::memory& target,
                                                     const dnnl::memory& scratchpad) {
    return {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}, {DNNL_ARG_SCRATCHPAD, scratchpad}};
  }
  [[nodiscard]] const dnnl::memory::desc& scratchpad() const noexcept { return scratchpad_; }

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
    auto objects = kept_->take([&] { return std::make_unique<part_objects>(*this, engine); });
    objects->set_addresses(*this, operands);
    auto& stream = objects->stream;
    if (x_.needed()) x_.execute(stream, objects->x);
    convolution_.execute(stream, objects->convolution);
    if (y_.needed()) y_.execute(stream, objects->y);
    stream.wait();
    kept_->keep(std::move(objects));
  }

 private:
  /// What an execution needs beside the primitives. Making it takes longer than a small
  /// convolution, because oneDNN allocates each memory object several times.
  struct part_objects {
    part_objects(const part_primitives& part, const dnnl::engine& engine)
        : stream(engine),
          w(part.weights_, engine, DNNL_MEMORY_NONE),
          bias(part.bias_, engine, DNNL_MEMORY_NONE),
          scratchpad(part.scratchpad_, engine, DNNL_MEMORY_NONE),
          outer_x(part.x_.outer(), engine, DNNL_MEMORY_NONE),
          inner_x(part.x_.inner(), engine, DNNL_MEMORY_NONE),
          outer_y(part.y_.outer(), engine, DNNL_MEMORY_NONE),
          inner_y(part.y_.inner(), engine, DNNL_MEMORY_NONE),
          convolution{{DNNL_ARG_SRC, inner_x},
                      {DNNL_ARG_WEIGHTS, w},
                      {DNNL_ARG_BIAS, bias},
                      {DNNL_ARG_DST, inner_y},
                      {DNNL_ARG_SCRATCHPAD, scratchpad}} {
      if (part.x_.needed()) {
        x_scratchpad = dnnl::memory(part.x_.scratchpad(), engine, DNNL_MEMORY_NONE);
        x = conversion::arguments(outer_x, inner_x, x_scratchpad);
      }
      if (part.y_.needed()) {
        y_scratchpad = dnnl::memory(part.y_.scratchpad(), engine, DNNL_MEMORY_NONE);
        y = conversion::arguments(inner_y, outer_y, y_scratchpad);
      }
    }

    void set_addresses(const part_primitives& part, const f32_operands& operands) {
      const auto set = [](const dnnl::memory& memory, const void* address) {
        memory.set_data_handle(const_cast<void*>(address));
      };
      const auto set_inner = [&](const dnnl::memory& outer, const dnnl::memory& inner,
                                 const dnnl::memory& reorder_scratchpad, const void* address,
                                 std::size_t position) {
        if (!reorder_scratchpad) return set(inner, address);
        set(outer, address);
        set(inner, operands.workspace + position);
        set(reorder_scratchpad, operands.workspace + part.scratchpad_position_);
      };
      set_inner(outer_x, inner_x, x_scratchpad, operands.x, 0);
      set_inner(outer_y, inner_y, y_scratchpad, operands.y, part.y_position_);
      set(w, operands.w);
      set(bias, operands.bias);
      set(scratchpad, operands.workspace + part.scratchpad_position_);
    }

    dnnl::stream stream;
    dnnl::memory w;
    dnnl::memory bias;
    dnnl::memory scratchpad;
    dnnl::memory outer_x;
    dnnl::memory inner_x;
    dnnl::memory outer_y;
    dnnl::memory inner_y;
    dnnl::memory x_scratchpad;  // if X is reordered
    dnnl::memory y_scratchpad;  // likewise
    primitive_arguments convolution;
    primitive_arguments x;
    primitive_arguments y;
  };

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
  std::unique_ptr<kept_objects<part_objects>> kept_ =
      std::make_unique<kept_objects<part_objects>>();
};

}  // namespace sluice::host
