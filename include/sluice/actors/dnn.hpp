// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/attention.hpp>
#include <sluice/operations/convolution.hpp>
#include <sluice/operations/dnn.hpp>
#include <sluice/operations/local_response_norm.hpp>
#include <sluice/operations/max_pool_with_indices.hpp>
#include <sluice/operations/non_maximum_suppression.hpp>
#include <sluice/operations/normalization.hpp>
#include <sluice/operations/pool.hpp>
#include <sluice/operations/recurrent.hpp>
#include <sluice/operations/roi_align.hpp>
#include <sluice/operations/rotary_embedding.hpp>

#include <memory>

namespace sluice {

/// The library actor for neural-network operations: cuDNN on a GPU, oneDNN on the host, and our own
/// kernels for attention, normalizations, pools, regions, boxes and rotary embeddings. Recurrent
/// layers are products of cuBLAS or OpenBLAS and our own kernels. A build without the library
/// answers convolutions with `unsupported`.
using dnn_actor =
    operation_actor<conv2d, convolution, transposed_convolution, integer_convolution, softmax,
                    log_softmax, lp_norm, layer_norm, rms_norm, group_norm, batch_norm,
                    local_response_norm, pool, adaptive_pool, max_pool_with_indices, roi_align,
                    non_maximum_suppression, rotary_embedding, attention, lstm, gru, rnn>;

/// Starts a dnn actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT dnn_actor spawn_dnn(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_dnn, 1300, sluice::dnn_actor, sluice::conv2d, sluice::convolution,
                sluice::transposed_convolution, sluice::integer_convolution, sluice::softmax,
                sluice::log_softmax, sluice::lp_norm, sluice::layer_norm, sluice::rms_norm,
                sluice::group_norm, sluice::batch_norm, sluice::local_response_norm, sluice::pool,
                sluice::adaptive_pool, sluice::max_pool_with_indices, sluice::roi_align,
                sluice::non_maximum_suppression, sluice::rotary_embedding, sluice::attention,
                sluice::lstm, sluice::gru, sluice::rnn)
