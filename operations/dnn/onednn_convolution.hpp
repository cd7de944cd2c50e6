// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <cstdint>
#include <string>
#include <type_traits>

namespace sluice::host {

/// A convolution, or a transposed one, as oneDNN describes it. An empty `bias` stands for none;
/// dilations count from 0.
struct onednn_convolution {
  dnnl::memory::desc source;
  dnnl::memory::desc weights;
  dnnl::memory::desc bias;
  dnnl::memory::desc destination;
  dnnl::memory::dims strides;
  dnnl::memory::dims dilations;
  dnnl::memory::dims padding;      ///< before the source, or cut off from the destination
  dnnl::memory::dims padding_end;  ///< behind it
};

/// The bytes of the description of a layout: equal for equal ones.
[[nodiscard]] inline std::string identity_of(const dnnl::memory::desc& layout) {
#if DNNL_VERSION_MAJOR >= 3
  std::string identity;
  const auto append = [&](std::int64_t number) {
    identity.append(reinterpret_cast<const char*>(&number), sizeof(number));
  };
  append(static_cast<std::int64_t>(layout.get_data_type()));
  append(static_cast<std::int64_t>(layout.get_format_kind()));
  for (const auto& numbers : {layout.get_dims(), layout.get_strides(), layout.get_padded_dims(),
                              layout.get_inner_blks(), layout.get_inner_idxs()}) {
    append(static_cast<std::int64_t>(numbers.size()));
    for (const auto number : numbers) append(number);
  }
  return identity;
#else
  return {reinterpret_cast<const char*>(&layout.data), sizeof(layout.data)};
#endif
}

/// oneDNN's implementations of a `Primitive`, a forward convolution or deconvolution, best first.
/// All that differs between oneDNN 2 and 3: since 3.0 a primitive is described in one step.
template <class Primitive>
class onednn_implementations {
 public:
  /// @throws dnnl::error
  onednn_implementations(const dnnl::engine& engine, const onednn_convolution& c,
                         const dnnl::primitive_attr& attributes)
#if DNNL_VERSION_MAJOR >= 3
      : current_(engine, kind, algorithm, c.source, c.weights, c.bias, c.destination, c.strides,
                 c.dilations, c.padding, c.padding_end, attributes){}
#else
      : description_(kind, algorithm, c.source, c.weights, c.bias, c.destination, c.strides,
                     c.dilations, c.padding, c.padding_end),
        current_(description_, attributes, engine) {
  }
#endif
        onednn_implementations(const onednn_implementations&) = delete;
  onednn_implementations& operator=(const onednn_implementations&) = delete;
  ~onednn_implementations() = default;

  [[nodiscard]] const typename Primitive::primitive_desc& current() const noexcept {
    return current_;
  }
  /// Goes on to the next one. False if there is none.
  /// @throws dnnl::error
  [[nodiscard]] bool next() {
    return current_.next_impl();
  }

 private:
  static constexpr auto kind = dnnl::prop_kind::forward_inference;
  // Direct, never Winograd: f32 to the last bits, and a NaN stays in the windows that hold it.
  static constexpr auto algorithm = std::is_same_v<Primitive, dnnl::convolution_forward>
                                        ? dnnl::algorithm::convolution_direct
                                        : dnnl::algorithm::deconvolution_direct;
#if DNNL_VERSION_MAJOR < 3
  typename Primitive::desc description_;  // `next_impl` reads it
#endif
  typename Primitive::primitive_desc current_;
};

}  // namespace sluice::host
