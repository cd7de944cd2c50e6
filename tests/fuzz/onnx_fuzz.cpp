// SPDX-License-Identifier: Apache-2.0
// Models in the format of ONNX. A program is made for inputs of the declared types, with small
// extents where the model leaves them open.
#include "tests/fuzz/fuzz.hpp"

#include <sluice/models/model.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>

namespace sluice::fuzz {
namespace {

/// Properties that fit the declaration of an input; nothing if there are none of a small size.
std::optional<tensor_spec> spec_of(const model_value& input) {
  if (!input.type) return std::nullopt;
  extents shape;
  std::size_t size = 1;
  for (const auto& dimension : input.shape.value_or(std::vector<model_dimension>(2))) {
    const auto extent = dimension.extent.value_or(3);
    if (shape.size() == extents::max_rank || extent > 64) return std::nullopt;
    shape.push_back(extent);
    size *= static_cast<std::size_t>(extent);
  }
  if (size > 4096) return std::nullopt;
  return tensor_spec::row_major(*input.type, shape);
}

void check(std::span<const std::byte> file) {
  const auto read = accepted([&] { return model::parse(file, std::string(input_name)); });
  if (!read) return;
  std::map<std::string, tensor_spec> specs;
  for (const auto& input : read->inputs()) {
    const auto spec = spec_of(input);
    if (!spec) return;
    specs.insert_or_assign(input.name, *spec);
  }
  constexpr std::string_view fields[] = {input_name};
  const auto made = described([&] { return read->program_for(specs); }, fields);
  const auto refusals = described([&] { return read->refusals(specs); }, fields);
  if (refusals) require(refusals->empty() == made.has_value(), "only a refusal is no program");
  if (!made) return;
  require(refusals.has_value(), "the inputs of a program fit");
  const auto parts = described([&] { return read->steps_for(specs); }, fields);
  if (parts) require(parts->steps.size() == made->program.steps(), "each step is a program");
  require(made->outputs.size() == read->outputs().size(), "a program has the model's outputs");
  require(made->program.outputs() == made->results.size(), "each of them has properties");
}

}  // namespace
}  // namespace sluice::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
