// SPDX-License-Identifier: Apache-2.0
#include "operations/program/stacked_runs.hpp"

#include "operations/program/program_graph.hpp"

#include <sluice/runtime/error.hpp>

#include <cstdint>
#include <string>
#include <utility>

namespace sluice::operations {
namespace {

using detail::program_graph;

// All inputs per request of the largest number of runs, in bytes.
constexpr std::size_t max_input_bytes = std::size_t{256} << 20U;

tensor_spec stack(const tensor_spec& one, std::int64_t count) {
  auto shape = one.shape;
  shape[0] *= count;
  return tensor_spec::row_major(one.type, shape);
}

bool can_be_stacked(const tensor_spec& one) {
  return one.rank() != 0 && one.size() != 0 && one.is_contiguous();
}

/// Whether the elements of an output are all that there is in its memory.
bool is_whole(const program_graph& of, const program_inference& alone, std::uint32_t output) {
  const auto& written = alone.written[alone.memory_of_output(of, output)];
  if (written.updates_input) return false;
  if (written.output) return can_be_stacked(written.spec);
  const auto& value = alone.values[of.outputs()[output]];
  return value.layout.offset() == 0 && can_be_stacked(value.spec()) &&
         value.spec().bytes() == written.spec.bytes();
}

bool run_alone(const program_graph& of, const program_inference& alone) {
  if (of.max_in_batch() < 2 || !alone.varying.empty()) return true;
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (of.is_per_request(i) && !can_be_stacked(alone.inputs[i])) return true;
  }
  for (std::uint32_t i = 0; i < alone.outputs.size(); ++i) {
    const auto& given = alone.outputs[i];
    if (given.is_downloaded || given.overlaps_input || !given.same_as.empty()) return true;
  }
  return false;
}

/// The inputs of `count` runs together.
std::vector<tensor_spec> stacked_inputs(const program_graph& of, const program_inference& alone,
                                        std::int64_t count) {
  auto inputs = alone.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (of.is_per_request(i)) inputs[i] = stack(inputs[i], count);
  }
  return inputs;
}

/// Checks that each output of two runs together has a part for each of them.
void require_parts(const program_graph& of, const program_inference& alone) {
  constexpr std::int64_t count = 2;
  const auto all = infer_program(of, stacked_inputs(of, alone, count), {},
                                 std::vector<given_output>(of.outputs().size()));
  for (std::uint32_t i = 0; i < of.outputs().size(); ++i) {
    const auto one = alone.values[of.outputs()[i]].spec();
    const auto found = all.values[of.outputs()[i]].spec();
    if (one.rank() != 0 && found.shape == stack(one, count).shape) continue;
    throw invalid_argument(of.output_name(i), "is not per request: its shape is " +
                                                  to_string(one.shape) + " for one run and " +
                                                  to_string(found.shape) + " for two");
  }
}

std::shared_ptr<const program_inference> stacked_runs(const program_graph& of,
                                                      const program_inference& alone,
                                                      std::int64_t count) {
  std::vector<given_output> outputs;
  for (const auto value : of.outputs()) {
    outputs.push_back({.spec = stack(alone.values[value].spec(), count)});
  }
  return std::make_shared<const program_inference>(
      infer_program(of, stacked_inputs(of, alone, count), {}, outputs));
}

}  // namespace

void add_stacked_runs(const program_graph& of, program_inference& alone) {
  if (run_alone(of, alone)) return;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < alone.inputs.size(); ++i) {
    if (!of.is_per_request(i)) continue;
    bytes += alone.inputs[i].bytes();
    if (bytes > max_input_bytes / 2) return;
  }
  require_parts(of, alone);
  for (std::uint32_t i = 0; i < of.outputs().size(); ++i) {
    if (!is_whole(of, alone, i)) return;
  }
  for (std::size_t count = 2; count <= of.max_in_batch(); count *= 2) {
    if (bytes > max_input_bytes / count) return;
    try {
      alone.stacked.push_back(stacked_runs(of, alone, static_cast<std::int64_t>(count)));
    } catch (const error&) {
      return;  // more than an operation takes
    }
    alone.bytes += alone.stacked.back()->bytes;
  }
}

}  // namespace sluice::operations
