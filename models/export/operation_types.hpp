// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations.hpp>

namespace sluice::models {

/// A list of types.
template <class... Operation>
struct operation_types {};

/// All operations that can be steps of programs, by family. `unary` and `binary` stand for all of
/// their functions.
///@{
using element_operations =
    operation_types<affine, binary, cast, cumulative, dequantize, dynamic_quantize, fill, quantize,
                    reduce, strided_copy, unary, where>;
using layer_operations =
    operation_types<adaptive_pool, attention, batch_norm, conv2d, convolution, gemm, group_norm,
                    gru, integer_convolution, layer_norm, local_response_norm, log_softmax, lp_norm,
                    lstm, max_pool_with_indices, pool, rms_norm, rnn, rotary_embedding, scaled_gemm,
                    softmax, transposed_convolution>;
using movement_operations =
    operation_types<col2im, concatenate, depth_to_space, gather, gather_elements, gather_nd, im2col,
                    one_hot, pad, reverse, reverse_sequence, roll, scatter_elements, scatter_nd,
                    space_to_depth, stack, tile, triangle>;
using array_operations =
    operation_types<eye, fft, frame_signal, grid_sample, histogram, irfft, non_maximum_suppression,
                    power_spectrum, power_to_decibel, random_bits, random_normal, random_uniform,
                    range, resize, rfft, roi_align, sort, top_k>;
///@}

}  // namespace sluice::models
