// SPDX-License-Identifier: Apache-2.0
#include "service/front/tensor_regions.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <algorithm>

namespace sluice::service {
namespace {

/// The region of a tensor, which is in it.
[[nodiscard]] std::shared_ptr<const client_region> find_region(const std::string& subject,
                                                               const tensor_region& place,
                                                               const region_registry& regions,
                                                               std::string_view tenant) {
  try {
    auto region = regions.find(tenant, place.name);
    region->check_range(place.offset, place.bytes);
    return region;
  } catch (const request_error& failure) {
    // What is missing is not the model.
    throw request_error(failure.status() == request_status::not_found
                            ? request_status::invalid_argument
                            : failure.status(),
                        subject + ": " + failure.what());
  }
}

}  // namespace

tensor_regions::tensor_regions(const inference_request& request, const region_registry& regions,
                               std::string_view tenant) {
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const auto& input = request.inputs[i];
    if (!input.region) continue;
    auto region = find_region("input " + quoted_name(input.name), *input.region, regions, tenant);
    inputs_.push_back({.index = i, .offset = input.region->offset, .region = std::move(region)});
    input_bytes_ += input.bytes;
  }
  for (const auto& output : request.outputs) {
    if (!output.region) continue;
    const auto subject = "output " + quoted_name(output.name);
    auto region = find_region(subject, *output.region, regions, tenant);
    if (!region->is_writable()) {
      throw request_error(request_status::invalid_argument,
                          subject + ": the service may not write to the shared memory region " +
                              quoted_name(output.region->name));
    }
    outputs_.push_back({.name = output.name,
                        .offset = output.region->offset,
                        .room = output.region->bytes,
                        .region = std::move(region)});
  }
}

void tensor_regions::read_inputs(input_memory& inputs) const {
  for (const auto& input : inputs_) input.region->read(input.offset, inputs.tensor(input.index));
}

const result_tensor* tensor_regions::result_of(const run_result& result,
                                               const output_place& output) noexcept {
  const auto found =
      std::find_if(result.outputs.begin(), result.outputs.end(),
                   [&](const result_tensor& each) { return each.name == output.name; });
  return found == result.outputs.end() ? nullptr : &*found;
}

std::uint64_t tensor_regions::output_bytes(const run_result& result) const noexcept {
  std::uint64_t bytes = 0;
  for (const auto& output : outputs_) {
    if (const auto* tensor = result_of(result, output)) bytes += tensor->bytes.size();
  }
  return bytes;
}

void tensor_regions::write_outputs(const run_result& result) const {
  for (const auto& output : outputs_) {
    const auto* const tensor = result_of(result, output);
    if (tensor == nullptr) continue;
    const std::size_t bytes = tensor->bytes.size();
    if (bytes > output.room) {
      throw request_error(request_status::too_large, "output " + quoted_name(output.name) +
                                                         ": has " + std::to_string(bytes) +
                                                         " bytes, but shared_memory_byte_size is " +
                                                         std::to_string(output.room));
    }
    output.region->check_file(output.offset, bytes);
  }
  for (const auto& output : outputs_) {
    if (const auto* tensor = result_of(result, output)) {
      output.region->write(output.offset, tensor->bytes);
    }
  }
}

}  // namespace sluice::service
