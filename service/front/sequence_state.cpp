// SPDX-License-Identifier: Apache-2.0
#include "service/front/sequence_state.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/tensor_size.hpp"

#include <algorithm>
#include <utility>

namespace sluice::service {
namespace {

[[nodiscard]] bool has_name(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[nodiscard]] std::string displayed_shape(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const auto extent : shape) text += (text.size() > 1 ? "," : "") + std::to_string(extent);
  return text + "]";
}

/// The output with the next value of a tensor.
[[nodiscard]] const result_tensor& next_of(const state_tensor& tensor, std::uint64_t bytes,
                                           const run_result& result) {
  const auto output =
      std::find_if(result.outputs.begin(), result.outputs.end(),
                   [&](const result_tensor& each) { return each.name == tensor.output; });
  if (output == result.outputs.end()) {
    throw request_error(request_status::internal, "the model has not returned its state");
  }
  if (output->type != tensor.type || output->shape != tensor.shape ||
      output->bytes.size() != bytes) {
    throw request_error(request_status::invalid_argument,
                        "the inputs turn the state " + quoted_name(tensor.output) + " into a " +
                            std::string(to_string(output->type)) + " of shape " +
                            displayed_shape(output->shape) + ", but a sequence keeps a " +
                            std::string(to_string(tensor.type)) + " of shape " +
                            displayed_shape(tensor.shape));
  }
  return *output;
}

}  // namespace

sequence_state::sequence_state(state_descriptor descriptor) : descriptor_(std::move(descriptor)) {
  for (const auto& tensor : descriptor_.tensors) {
    const auto size = tensor_bytes(tensor.shape, tensor.type);
    if (!size || *size > max_bytes - bytes_) {
      throw request_error(request_status::too_large, "the state of the model is too large");
    }
    sizes_.push_back(*size);
    bytes_ += *size;
  }
}

void sequence_state::check(const run_request& run) const {
  for (const auto& tensor : descriptor_.tensors) {
    for (const auto& input : run.inputs) {
      if (input.name == tensor.input) {
        throw request_error(
            request_status::invalid_argument,
            quoted_name(input.name) + " is a state of the model, which a sequence must not send");
      }
    }
  }
  if (run.inputs.size() > max_tensors - std::min(max_tensors, descriptor_.tensors.size())) {
    throw request_error(
        request_status::invalid_argument,
        "inputs: with the state there are more than " + std::to_string(max_tensors) + " inputs");
  }
}

std::unique_ptr<input_memory> sequence_state::add_to(run_request& run, input_memory& inputs,
                                                     model_backend& backend) const {
  const auto first = run.inputs.size();
  std::vector<std::uint64_t> sizes;
  for (std::size_t i = 0; i < first; ++i) sizes.push_back(inputs.tensor(i).size());
  sizes.insert(sizes.end(), sizes_.begin(), sizes_.end());
  auto memory = backend.allocate(sizes);
  for (std::size_t i = 0; i < first; ++i) {
    std::copy_n(inputs.tensor(i).data(), sizes[i], memory->tensor(i).data());
  }
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const auto place = memory->tensor(first + i);
    if (tensors_.empty()) {
      std::fill_n(place.data(), sizes_[i], std::byte{0});
    } else {
      std::copy_n(tensors_[i].data(), sizes_[i], place.data());
    }
  }
  const bool names_outputs = !run.outputs.empty();
  for (const auto& tensor : descriptor_.tensors) {
    run.inputs.push_back({.name = tensor.input, .type = tensor.type, .shape = tensor.shape});
    if (names_outputs && !has_name(run.outputs, tensor.output)) {
      run.outputs.push_back(tensor.output);
    }
  }
  run.version = descriptor_.version;
  run.content = descriptor_.content;
  run.sequence.reset();
  return memory;
}

void sequence_state::take_from(run_result& result, const std::vector<std::string>& outputs) {
  std::vector<const result_tensor*> next;
  next.reserve(sizes_.size());
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    next.push_back(&next_of(descriptor_.tensors[i], sizes_[i], result));
  }
  if (tensors_.empty()) {
    std::vector<std::vector<std::byte>> tensors;
    tensors.reserve(next.size());
    for (const auto* const tensor : next) {
      tensors.emplace_back(tensor->bytes.begin(), tensor->bytes.end());
    }
    tensors_ = std::move(tensors);
  } else {
    for (std::size_t i = 0; i < next.size(); ++i) {
      std::copy_n(next[i]->bytes.data(), sizes_[i], tensors_[i].data());
    }
  }
  std::erase_if(result.outputs, [&](const result_tensor& output) {
    const bool is_state =
        std::any_of(descriptor_.tensors.begin(), descriptor_.tensors.end(),
                    [&](const state_tensor& tensor) { return tensor.output == output.name; });
    return is_state && !has_name(outputs, output.name);
  });
}

}  // namespace sluice::service
