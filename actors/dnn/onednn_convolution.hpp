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
  dnnl::memory::dims padding;
};

/// All that differs between oneDNN 2 and 3: since 3.0 a primitive is described in one step.
/// @throws dnnl::error
[[nodiscard]] inline dnnl::convolution_forward::primitive_desc describe(
    const dnnl::engine& engine, const onednn_convolution& c,
    const dnnl::primitive_attr& attributes) {
  constexpr auto kind = dnnl::prop_kind::forward_inference;
  // Direct, never Winograd: f32 to the last bits, and a NaN stays in the windows that hold it.
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine,        kind,      algorithm,   c.source,  c.weights, c.bias,
          c.destination, c.strides, c.dilations, c.padding, c.padding, attributes};
#else
  const dnnl::convolution_forward::desc description(kind, algorithm, c.source, c.weights, c.bias,
                                                    c.destination, c.strides, c.dilations,
                                                    c.padding, c.padding);
  return {description, attributes, engine};
#endif
}

}  // namespace sluice::host
