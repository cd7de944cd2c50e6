// SPDX-License-Identifier: Apache-2.0

#include <sluice/actors/dnn.hpp>
#include <sluice/actors/spawn_operations.hpp>

namespace sluice {

dnn_actor spawn_dnn(caf::actor_system& system, std::shared_ptr<device_service> service,
                    std::shared_ptr<kernel_trace> trace) {
  if (service == nullptr) throw invalid_argument("service", "is null");
  std::vector<const operation_descriptor*> prepared{
      &descriptor_of(operation_type<integer_convolution>{}),
      &descriptor_of(operation_type<softmax>{}),
      &descriptor_of(operation_type<pool>{}),
      &descriptor_of(operation_type<max_pool_with_indices>{}),
      &descriptor_of(operation_type<roi_align>{}),
      &descriptor_of(operation_type<non_maximum_suppression>{}),
      &descriptor_of(operation_type<rotary_embedding>{}),
      &descriptor_of(operation_type<attention>{}),
      &descriptor_of(operation_type<lstm>{})};
  const auto& library_convolution = descriptor_of(operation_type<conv2d>{});
  if (library_convolution.makes_plans(service->runtime().device().id().kind)) {
    prepared.push_back(&library_convolution);
  }
  return spawn_operations<conv2d, convolution, transposed_convolution, integer_convolution, softmax,
                          log_softmax, lp_norm, layer_norm, rms_norm, group_norm, batch_norm,
                          local_response_norm, pool, adaptive_pool, max_pool_with_indices,
                          roi_align, non_maximum_suppression, rotary_embedding, attention, lstm,
                          gru, rnn>(system, "sluice.dnn", std::move(service), std::move(trace),
                                    std::move(prepared));
}

}  // namespace sluice
