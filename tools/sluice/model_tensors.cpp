// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/model_tensors.hpp"

#include "tools/sluice/memory.hpp"

#include <utility>

namespace sluice::cli {

namespace {

host_tensor random_tensor(std::mt19937_64& generator, const tensor_spec& spec) {
  const bool is_integer = spec.type < element_type::e4m3;
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> elements(spec.size());
  for (auto& element : elements) {
    element = uniform(generator);
    if (is_integer) element = element < 0 ? 0.0F : 1.0F;
  }
  return host_tensor(std::move(elements), spec.shape).to(spec.type);
}

}  // namespace

void require_memory_for(std::string_view subject, const session& current,
                        const model_program& compiled, const named_specs& specs, std::size_t sets) {
  std::size_t inputs = 0;
  for (const auto& [name, spec] : specs) inputs = saturating_add(inputs, spec.bytes());
  inputs = saturating_add(compiled.cost.constant_bytes, saturating_multiply(inputs, sets));
  std::size_t results = 0;
  for (const auto& spec : compiled.results) results = saturating_add(results, spec.bytes());
  results = saturating_add(compiled.cost.live_bytes, saturating_multiply(results, sets));
  require_memory(subject, current.info(), inputs, saturating_add(inputs, results));
}

std::vector<host_tensor> input_tensors(const model_program& compiled, const named_tensors& inputs,
                                       const named_specs& specs, std::mt19937_64& generator) {
  std::vector<host_tensor> tensors;
  for (const auto& name : compiled.inputs) {
    const auto known = inputs.find(name);
    tensors.push_back(known != inputs.end() ? known->second
                                            : random_tensor(generator, specs.at(name)));
  }
  return tensors;
}

std::vector<tensor> upload_tensors(session& current, const std::vector<host_tensor>& elements) {
  std::vector<tensor> tensors;
  tensors.reserve(elements.size());
  for (const auto& x : elements)
    tensors.push_back(current.ask<tensor>(current.device().actor(), upload{.values = x}));
  return tensors;
}

}  // namespace sluice::cli
