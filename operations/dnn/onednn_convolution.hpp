// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace sluice::host {

/// A forward convolution as oneDNN describes it. An empty `bias` stands for none; dilations count
/// from 0.
struct onednn_convolution {
  dnnl::memory::desc source;
  dnnl::memory::desc weights;
  dnnl::memory::desc bias;
  dnnl::memory::desc destination;
  dnnl::memory::dims strides;
  dnnl::memory::dims dilations;
  dnnl::memory::dims padding;      ///< above and to the left
  dnnl::memory::dims padding_end;  ///< below and to the right
};

/// oneDNN's implementations of a convolution, best first. All that differs between oneDNN 2 and 3:
/// since 3.0 a primitive is described in one step.
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

  [[nodiscard]] const dnnl::convolution_forward::primitive_desc& current() const noexcept {
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
  static constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR < 3
  dnnl::convolution_forward::desc description_;  // `next_impl` reads it
#endif
  dnnl::convolution_forward::primitive_desc current_;
};

}  // namespace sluice::host
