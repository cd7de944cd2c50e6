// SPDX-License-Identifier: Apache-2.0
#include "operations/dnn/check_onednn.hpp"
#include "operations/dnn/conv2d_functions.hpp"
#include "operations/dnn/direct_convolution.hpp"
#include "operations/dnn/onednn_convolution.hpp"
#include "operations/dnn/single_thread_scope.hpp"
#include "operations/elementwise/f32_loops.hpp"
#include "operations/elementwise/layouts.hpp"
#include "runtime/seam.hpp"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <limits>
#include <memory>
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

/// oneDNN's engine for one lane.
struct onednn_lane {
  onednn_lane(device_runtime&, stream_ref)
      : engine(check_onednn("oneDNN's CPU engine",
                            [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })) {}
  dnnl::engine engine;
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

/// The products of a convolution.
double products_of(const conv2d_key& key) noexcept {
  return static_cast<double>(key.n) * static_cast<double>(key.output_h) *
         static_cast<double>(key.output_w) * static_cast<double>(key.k) *
         static_cast<double>(key.filter());
}

/// The extents of a part of a convolution: some images, and a band of rows of their results.
struct part_shape {
  std::int64_t images;
  std::int64_t h;               ///< rows of X
  std::int64_t padding_top;     ///< rows above them
  std::int64_t padding_bottom;  ///< rows below them
  std::int64_t output_h;        ///< rows of Y
  [[nodiscard]] bool operator==(const part_shape&) const noexcept = default;
};
/// A part of a convolution.
struct convolution_part {
  part_shape shape;
  std::int64_t x_offset;  ///< in elements
  std::int64_t y_offset;
};

/// The part of `images` images and `rows` rows of the result, from these numbers on; nothing if the
/// windows of the part lie in the padding alone.
std::optional<convolution_part> part_of(const conv2d_key& key, std::int64_t image,
                                        std::int64_t images, std::int64_t row, std::int64_t rows) {
  const auto first = row * key.stride_h - key.padding_h;
  const auto last = (row + rows - 1) * key.stride_h - key.padding_h + (key.r - 1) * key.dilation_h;
  const auto begin = std::max<std::int64_t>(first, 0);
  const auto end = std::min(last + 1, key.h);
  if (begin >= end) return std::nullopt;
  return convolution_part{{images, end - begin, begin - first, last + 1 - end, rows},
                          image * key.x_distance + begin * key.x_strides().row,
                          image * key.y_distance + row * key.y_strides().row};
}

/// The parts that threads compute: images of the batch, and bands of their rows if the images are
/// few. They depend on the key alone. Without any, the convolution is not divided.
std::vector<convolution_part> parts_of(const conv2d_key& key) {
  constexpr double products_of_part = 1 << 24;  // about 0.5 ms
  constexpr std::int64_t most = 64;
  constexpr std::int64_t enough = 32;         // parts, with which images are not divided
  constexpr std::int64_t least_pixels = 256;  // in a band, below which oneDNN is slower
  const double wanted = std::min(products_of(key) / products_of_part, static_cast<double>(most));
  if (wanted < 2) return {};
  const auto count = static_cast<std::int64_t>(wanted);
  const auto images = (key.n + count - 1) / count;
  std::int64_t rows = key.output_h;
  if (key.n < enough) {
    const auto bands = std::max<std::int64_t>(std::min(count, enough) / key.n, 1);
    // A band reads rows of its neighbours, too.
    const auto least_rows =
        std::max({(least_pixels + key.output_w - 1) / key.output_w,
                  ((key.r - 1) * key.dilation_h + key.stride_h) * 2 / key.stride_h,
                  (key.output_h + bands - 1) / bands});
    rows = std::min(least_rows, key.output_h);
  }
  std::vector<convolution_part> parts;
  for (std::int64_t image = 0; image < key.n; image += images) {
    for (std::int64_t row = 0; row < key.output_h; row += rows) {
      const auto part = part_of(key, image, std::min(images, key.n - image), row,
                                std::min(rows, key.output_h - row));
      if (!part) return {};
      parts.push_back(*part);
    }
  }
  return parts.size() > 1 ? parts : std::vector<convolution_part>();
}

/// An operand that oneDNN may want in another order than the caller's.
class conversion {
 public:
  conversion() = default;
  /// @throws dnnl::error
  conversion(const dnnl::engine& engine, const memory::desc& outer, const memory::desc& inner,
             bool inwards)
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
  [[nodiscard]] const memory::desc& outer() const noexcept { return outer_; }
  [[nodiscard]] const memory::desc& inner() const noexcept { return inner_; }
  [[nodiscard]] std::size_t bytes() const { return needed_ ? inner_.get_size() : 0; }
  [[nodiscard]] std::size_t scratchpad_bytes() const {
    return needed_ ? scratchpad_.get_size() : 0;
  }

  void execute(dnnl::stream& stream, const memory& source, const memory& target,
               void* scratchpad) const {
    reorder_.execute(stream,
                     {{DNNL_ARG_FROM, source},
                      {DNNL_ARG_TO, target},
                      {DNNL_ARG_SCRATCHPAD, memory(scratchpad_, stream.get_engine(), scratchpad)}});
  }

 private:
  memory::desc outer_;  // the caller's order
  memory::desc inner_;  // the order of oneDNN
  dnnl::reorder reorder_;
  memory::desc scratchpad_;
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
  static std::optional<part_primitives> make(const conv2d_key& key, const part_shape& part,
                                             const dnnl::engine& engine,
                                             const memory::desc* weights, const Accepts& accepts) {
    const memory::dims x{part.images, key.c, part.h, key.w};
    const memory::dims y{part.images, key.k, part.output_h, key.output_w};
    const auto any = [](const memory::dims& dims) {
      return memory::desc(dims, memory::data_type::f32, memory::format_tag::any);
    };
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    onednn_implementations implementations(
        engine,
        {.source = any(x),
         .weights = weights != nullptr ? *weights : any(filter_dims(key)),
         .bias = memory::desc({key.k}, memory::data_type::f32, memory::format_tag::a),
         .destination = any(y),
         .strides = {key.stride_h, key.stride_w},
         .dilations = {key.dilation_h - 1, key.dilation_w - 1},
         .padding = {part.padding_top, key.padding_w},
         .padding_end = {part.padding_bottom, key.padding_w}},
        attributes);
    do {
      const auto& implementation = implementations.current();
      // oneDNN's reference implementation is slower than the direct convolution.
      if (std::string_view(implementation.impl_info_str()).starts_with("ref")) continue;
      part_primitives primitives;
      primitives.convolution_ = dnnl::convolution_forward(implementation);
      primitives.weights_ = implementation.weights_desc();
      primitives.bias_ = implementation.bias_desc();
      primitives.scratchpad_ = implementation.scratchpad_desc();
      primitives.x_ =
          conversion(engine, described(x, key.x_strides()), implementation.src_desc(), true);
      primitives.y_ =
          conversion(engine, described(y, key.y_strides()), implementation.dst_desc(), false);
      primitives.place();
      if (accepts(static_cast<const part_primitives&>(primitives))) return primitives;
    } while (implementations.next());
    return std::nullopt;
  }

  static memory::dims filter_dims(const conv2d_key& key) {
    const auto channels = key.c / key.groups;
    return key.groups == 1 ? memory::dims{key.k, key.c, key.r, key.s}
                           : memory::dims{key.groups, key.k / key.groups, channels, key.r, key.s};
  }
  /// The order of the filters.
  [[nodiscard]] const memory::desc& weights() const noexcept { return weights_; }
  /// The scratch memory of a part.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// @param operands the first elements of the part; `w` in the order `weights()`, and a bias
  void execute(const dnnl::engine& engine, const conv2d_operands& operands) const {
    dnnl::stream stream(engine);
    std::byte* const scratchpad = operands.workspace + scratchpad_position_;
    const auto memory_at = [&](const memory::desc& desc, const void* address) {
      return memory(desc, engine, const_cast<void*>(address));
    };
    const auto inner = [&](const conversion& c, const void* outer, std::size_t position) {
      return memory_at(c.inner(), c.needed() ? operands.workspace + position : outer);
    };
    const memory x = inner(x_, operands.x, 0);
    const memory y = inner(y_, operands.y, y_position_);
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
  void place() {
    workspace_layout layout;
    (void)layout.take(x_.bytes());  // first
    y_position_ = layout.take(y_.bytes());
    // The primitives run one after the other, so they share their scratch memory.
    scratchpad_position_ = layout.take(
        std::max({scratchpad_.get_size(), x_.scratchpad_bytes(), y_.scratchpad_bytes()}));
    bytes_ = layout.bytes();
  }

  dnnl::convolution_forward convolution_;
  memory::desc weights_;
  memory::desc bias_;
  memory::desc scratchpad_;
  conversion x_;
  conversion y_;
  std::size_t y_position_ = 0;
  std::size_t scratchpad_position_ = 0;
  std::size_t bytes_ = 0;
};

/// A convolution by oneDNN. Threads of the device compute its parts, each with scratch memory of
/// its own.
class onednn_plan final : public conv2d_plan {
 public:
  /// The plan for these parts; nullptr if oneDNN has no implementation that needs little memory.
  /// @throws dnnl::error
  static std::shared_ptr<onednn_plan> make(const conv2d_key& key,
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
      plan->parts_.push_back({*shape, part.x_offset, part.y_offset});
    }
    plan->w_ = conversion(
        lane.engine, described(part_primitives::filter_dims(key), key.w_strides()), weights, true);
    plan->place();
    return plan;
  }

  onednn_plan(const conv2d_key& key, const dnnl::engine& engine)
      : key_(key), engine_(engine), no_bias_(static_cast<std::size_t>(key.k)) {}

  std::size_t bytes() const noexcept override {
    constexpr std::size_t primitives = std::size_t{256} << 10U;  // mostly generated code
    return primitives * shapes_.size() + parts_.size() * sizeof(placed_part) +
           no_bias_.size() * sizeof(float);
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
    check_onednn("conv2d", [&] { execute(operands); });
  }

 private:
  struct placed_part {
    std::size_t shape;
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

  void execute(const conv2d_operands& operands) const {
    const void* w = operands.w;
    if (w_.needed()) {
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
    });
  }

  conv2d_key key_;
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

/// A convolution of 16-bit numbers: one of f32 over copies without gaps in the workspace, whose
/// result is rounded.
class converted_plan final : public operation_plan {
 public:
  /// The plan of a convolution that multiplies.
  /// @param plan that of `without_gaps(key)`
  converted_plan(std::shared_ptr<const conv2d_plan> plan, const conv2d_key& key)
      : plan_(std::move(plan)) {
    (void)layout_.take(plan_->workspace_bytes());  // first
    const auto take = [&](std::int64_t elements) {
      return layout_.take(static_cast<std::size_t>(elements) * sizeof(float));
    };
    x_ = take(key.n * key.x_image());
    w_ = take(key.w_extent());
    bias_ = take(key.k);
    y_ = take(key.n * key.y_image());
  }

  /// The same convolution of f32.
  [[nodiscard]] static conv2d_key without_gaps(conv2d_key key) noexcept {
    key.element = static_cast<std::int64_t>(element_type::f32);
    key.x_distance = key.x_image();
    key.y_distance = key.y_image();
    return key;
  }

  std::size_t bytes() const noexcept override { return plan_->bytes(); }
  std::size_t workspace_bytes() const noexcept override { return layout_.bytes(); }

  void run(const conv2d_call& call, const launch_of<conv2d>& launch) const {
    const auto& key = call.key;
    const auto type = operations::storage_of(call.type);
    auto* const workspace = static_cast<std::byte*>(launch.workspace());
    const auto floats_at = [&](std::size_t position) {
      return reinterpret_cast<float*>(workspace + position);
    };
    const auto* const bias = launch.get<const void>(&conv2d::bias);
    const auto* const x = launch.get<const std::byte>(&conv2d::x);
    auto* const y = launch.get<std::byte>(&conv2d::y);
    const auto bytes = static_cast<std::int64_t>(size_of(call.type));
    load_f32(type, launch.get<const void>(&conv2d::w), key.w_extent(), floats_at(w_));
    if (bias != nullptr) load_f32(type, bias, key.k, floats_at(bias_));
    for_each_image(key.n, key.x_image(), [&](std::int64_t i) {
      load_f32(type, x + i * key.x_distance * bytes, key.x_image(),
               floats_at(x_) + i * key.x_image());
    });
    auto inner = call;
    inner.key = without_gaps(key);
    inner.output.distance = call.output.image();
    plan_->run(inner, {.x = floats_at(x_),
                       .w = floats_at(w_),
                       .bias = bias != nullptr ? floats_at(bias_) : nullptr,
                       .y = floats_at(y_),
                       .workspace = workspace});
    activate(inner.output, call.function, floats_at(y_));
    for_each_image(key.n, key.y_image(), [&](std::int64_t i) {
      store_f32(type, floats_at(y_) + i * key.y_image(), key.y_image(),
                y + i * key.y_distance * bytes);
    });
  }

 private:
  template <class Function>
  static void for_each_image(std::int64_t images, std::int64_t elements, const Function& function) {
    constexpr double nanoseconds_of_element = 0.3;
    const work_chunks chunks(images, nanoseconds_of_element * static_cast<double>(elements));
    parallel_for(chunks.count(), [&](std::int64_t chunk) {
      const auto [begin, end] = chunks[chunk];
      for (auto i = begin; i < end; ++i) function(i);
    });
  }

  std::shared_ptr<const conv2d_plan> plan_;
  workspace_layout layout_;
  std::size_t x_ = 0;
  std::size_t w_ = 0;
  std::size_t bias_ = 0;
  std::size_t y_ = 0;
};

/// Writes the activation of the bias, or 0, to each element of a result of 16 bits.
void fill_16_bits(const conv2d_call& call, const launch_of<conv2d>& launch) {
  const auto type = operations::storage_of(call.type);
  std::vector<float> bias(static_cast<std::size_t>(call.output.channels));
  const auto* const given = launch.get<const void>(&conv2d::bias);
  if (given != nullptr) load_f32(type, given, call.output.channels, bias.data());
  auto image = call.output;
  image.images = 1;
  std::vector<float> elements(static_cast<std::size_t>(image.image()));
  fill_with_bias(image, bias.data(), elements.data());
  activate(image, call.function, elements.data());
  for (std::int64_t i = 0; i < call.output.images; ++i) {
    store_f32(type, elements.data(), image.image(),
              launch.get<std::byte>(&conv2d::y) +
                  i * image.distance * static_cast<std::int64_t>(size_of(call.type)));
  }
}

/// The plan of oneDNN for a convolution, divided into parts if that is possible; nullptr if there
/// is none.
/// @throws dnnl::error
std::shared_ptr<onednn_plan> make_onednn_plan(const conv2d_key& key, const onednn_lane& lane) {
  if (const auto parts = parts_of(key); !parts.empty()) {
    try {
      if (auto plan = onednn_plan::make(key, parts, lane)) return plan;
    } catch (const dnnl::error& failure) {
      if (failure.status != dnnl_unimplemented && failure.status != dnnl_invalid_arguments) throw;
    }
  }
  const part_shape whole{key.n, key.h, key.padding_h, key.padding_h, key.output_h};
  return onednn_plan::make(key, {{whole, 0, 0}}, lane);
}

/// The key as it is given to oneDNN; nothing if the convolution is computed directly.
std::optional<conv2d_key> key_for_onednn(const conv2d_key& key) noexcept {
  if (suits_onednn(key)) return key;
  const bool one_dimension = key.h == 1 && key.r == 1 && key.output_h == 1;
  if (one_dimension && suits_onednn(turned(key))) return turned(key);
  return std::nullopt;
}

/// The plan of a convolution of f32 that multiplies.
std::shared_ptr<const conv2d_plan> make_f32_plan(lane_libraries& libraries,
                                                 const conv2d_key& given_key) {
  if (const auto key = key_for_onednn(given_key)) {
    const single_thread_scope single_thread;
    try {
      if (auto plan = make_onednn_plan(*key, libraries.get<onednn_lane>())) return plan;
    } catch (const dnnl::error& failure) {
      // What oneDNN does not take is computed directly.
      if (failure.status != dnnl_unimplemented && failure.status != dnnl_invalid_arguments) {
        check_onednn("conv2d", []() -> void { throw; });
      }
    }
  }
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

std::shared_ptr<const operation_plan> make_conv2d_plan(lane_libraries& libraries,
                                                       const conv2d_call& call) {
  if (!call.multiplies) return std::make_shared<direct_plan>();
  if (call.type == element_type::f32) return make_f32_plan(libraries, call.key);
  return std::make_shared<converted_plan>(
      make_f32_plan(libraries, converted_plan::without_gaps(call.key)), call.key);
}

void compute_conv2d(const conv2d_call& call, const launch_of<conv2d>& launch) {
  if (call.output.empty()) return;
  if (call.type != element_type::f32) {
    return call.multiplies ? launch.plan<converted_plan>().run(call, launch)
                           : fill_16_bits(call, launch);
  }
  const conv2d_operands operands{
      launch.get<const float>(&conv2d::x), launch.get<const float>(&conv2d::w),
      launch.get<const float>(&conv2d::bias), launch.get<float>(&conv2d::y),
      static_cast<std::byte*>(launch.workspace())};
  launch.plan<conv2d_plan>().run(call, operands);
  activate(call.output, call.function, operands.y);
}

}  // namespace sluice::host
