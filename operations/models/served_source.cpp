// SPDX-License-Identifier: Apache-2.0
#include "operations/models/served_source.hpp"

#include "operations/seam.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <set>
#include <utility>

namespace sluice::detail {
namespace {

// A larger value would be kept for each program, and no shape needs it.
constexpr std::size_t max_bound_bytes = std::size_t{1} << 20U;

/// @throws error `invalid_argument` if two values have one name
std::unordered_map<std::string_view, std::size_t> number_values(
    const std::vector<model_value>& values) {
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const auto& value : values) {
    if (!numbers.emplace(value.name, numbers.size()).second) {
      throw invalid_argument("source", "two values have the name " + displayed_name(value.name));
    }
  }
  return numbers;
}

std::shared_ptr<const model_source> checked(std::shared_ptr<const model_source> source) {
  if (!source) throw invalid_argument("source", "is not given");
  return source;
}

const model_options& checked(const model_options& options) {
  constexpr std::size_t most_in_batch = 128;
  if (options.max_in_batch <= most_in_batch) return options;
  throw invalid_argument("max_in_batch", "is " + std::to_string(options.max_in_batch) +
                                             ", but must be at most " +
                                             std::to_string(most_in_batch));
}

/// @throws error `library_failure` unless there is one name for each of the `count` inputs or
/// outputs of a program, and no two are equal
void require_names(const std::string& kind, const std::vector<std::string>& names,
                   std::size_t count) {
  if (names.size() != count) {
    throw error(errc::library_failure, "the source names " + std::to_string(names.size()) + ' ' +
                                           kind + "s of a program that has " +
                                           std::to_string(count));
  }
  std::set<std::string_view> known;
  for (const auto& each : names) {
    if (!known.insert(each).second) {
      throw error(errc::library_failure,
                  displayed_name(each) + ": the source names this " + kind + " twice");
    }
  }
}

/// @throws error `library_failure` unless the results that the source states are those of the
/// program
/// @throws error what a step refuses
void require_results(const model_program& made, const std::vector<tensor_spec>& inputs) {
  const auto& graph = *made.program.graph();
  if (made.program.scalars() != 0) {
    throw error(errc::library_failure, "the source returned a program that takes scalars");
  }
  const auto specs = specs_of_values(graph, inputs);
  if (made.results.size() != made.outputs.size()) {
    throw error(errc::library_failure, "the source states " + std::to_string(made.results.size()) +
                                           " results of a program that has " +
                                           std::to_string(made.outputs.size()));
  }
  for (std::uint32_t i = 0; i < made.outputs.size(); ++i) {
    const auto& found = *specs[graph.outputs()[i]];
    const auto& stated = made.results[i];
    if (found.type == stated.type && found.shape == stated.shape) continue;
    throw error(errc::library_failure,
                displayed_name(made.outputs[i]) + ": the source states a result of " +
                    std::string(to_string(stated.type)) + to_string(stated.shape) +
                    ", but the program has one of " + std::string(to_string(found.type)) +
                    to_string(found.shape));
  }
}

}  // namespace

std::string displayed_name(std::string_view name) {
  constexpr std::size_t longest = 100;
  std::string text(name.substr(0, longest));
  std::ranges::replace_if(
      text, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (name.size() > longest) text += "...";
  return '"' + text + '"';
}

served_source::served_source(std::shared_ptr<const model_source> source,
                             const model_options& options,
                             const std::vector<extent_buckets>& buckets)
    : source_(checked(std::move(source))),
      options_(checked(options)),
      inputs_(number_values(source_->inputs())),
      outputs_(number_values(source_->outputs())),
      rounding_(buckets, source_->inputs()) {
  if (outputs_.empty()) throw invalid_argument("source", "has no outputs");
}

std::size_t served_source::number_of(const numbers_by_name& numbers, const std::string& value_name,
                                     const char* kind) {
  const auto found = numbers.find(value_name);
  if (found != numbers.end()) return found->second;
  throw invalid_argument(displayed_name(value_name),
                         std::string("is not an ") + kind + " of the model");
}

std::vector<run_input> served_source::order_inputs(
    std::map<std::string, run_input>&& inputs) const {
  const auto& declared = source_->inputs();
  std::vector<run_input> ordered(declared.size());
  for (auto& [input_name, value] : inputs) {
    ordered[number_of(inputs_, input_name, "input")] = std::move(value);
  }
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (!ordered[i].on_host() && !ordered[i].on_device()) {
      throw invalid_argument(declared[i].name, "the input is not given");
    }
    require_fit(declared[i], ordered[i].type(), ordered[i].shape());
  }
  return ordered;
}

program_key served_source::key_of(const std::vector<run_input>& inputs, result_bits bits) const {
  const bool rounds = states_results_.load(std::memory_order_relaxed);
  if (bits == result_bits::as_if_alone || !rounds) return program_key(inputs);
  return program_key(inputs, rounding_.round(inputs));
}

std::vector<std::uint32_t> served_source::number_outputs(
    const std::vector<std::string>& outputs) const {
  std::vector<std::uint32_t> numbers;
  std::set<std::size_t> named;
  for (const auto& output : outputs) {
    const auto output_number = number_of(outputs_, output, "output");
    if (!named.insert(output_number).second) throw invalid_argument(output, "is named twice");
    numbers.push_back(static_cast<std::uint32_t>(output_number));
  }
  return numbers;
}

void served_source::bind_inputs(program_key& key, const std::vector<std::size_t>& numbers,
                                const std::vector<run_input>& inputs) const {
  for (const auto i : numbers) {
    const auto& input = source_->inputs()[i];
    if (!inputs[i].on_host()) {
      throw invalid_argument(input.name,
                             "must lie in host memory, because a shape or a parameter of the model "
                             "depends on its elements");
    }
    if (key.inputs()[i].value) {
      throw invalid_argument(input.name, "is bound by value, but the source asks for it again");
    }
    key.bind(i, inputs[i].on_host());
    if (key.bound_bytes() <= max_bound_bytes) continue;
    throw error(errc::unsupported,
                input.name +
                    ": its elements must be known to make the program, but the inputs of "
                    "this kind have more than " +
                    std::to_string(max_bound_bytes) + " bytes");
  }
}

program_outcome served_source::make_program(const program_key& key) const noexcept {
  program_outcome outcome;
  outcome.failure = failure_of([&] {
    std::map<std::string, tensor_spec> specs;
    std::map<std::string, host_tensor> values;
    for (std::size_t i = 0; i < key.inputs().size(); ++i) {
      const auto& input = key.inputs()[i];
      const auto& input_name = source_->inputs()[i].name;
      if (input.value) {
        values.emplace(input_name, input.value);
      } else {
        specs.emplace(input_name, tensor_spec::row_major(input.type, input.shape));
      }
    }
    try {
      outcome = outcome_of(source_->program_for(specs, values, options_), key);
      if (key.is_rounded()) outcome.what = program();
    } catch (const unbound_inputs& e) {
      outcome.unbound_inputs = numbers_of_unbound(e.names());
      throw;
    }
  });
  return outcome;
}

std::vector<std::size_t> served_source::numbers_of_unbound(
    const std::vector<std::string>& names) const {
  std::vector<std::size_t> numbers;
  for (const auto& unbound : names) {
    const auto found = inputs_.find(unbound);
    if (found == inputs_.end()) {
      throw error(errc::library_failure,
                  displayed_name(unbound) +
                      ": the source asks for the elements of an input that it does not have");
    }
    if (std::ranges::find(numbers, found->second) == numbers.end()) {
      numbers.push_back(found->second);
    }
  }
  return numbers;
}

program_outcome served_source::outcome_of(const model_program& made, const program_key& key) const {
  if (!made.program) throw error(errc::library_failure, "the source returned no program");
  require_names("input", made.inputs, made.program.inputs());
  require_names("output", made.outputs, made.program.outputs());
  program_outcome outcome{.what = made.program};
  for (const auto& input : made.inputs) {
    const auto found = inputs_.find(input);
    if (found == inputs_.end()) {
      throw error(
          errc::library_failure,
          displayed_name(input) + ": the program has an input that the model does not have");
    }
    outcome.inputs.push_back(found->second);
  }
  for (const auto& output : source_->outputs()) {
    const auto found = std::ranges::find(made.outputs, output.name);
    if (found == made.outputs.end()) {
      throw error(errc::library_failure,
                  displayed_name(output.name) + ": the program has no such output");
    }
    outcome.outputs.push_back(static_cast<std::uint32_t>(found - made.outputs.begin()));
  }
  if (made.results.empty()) {
    states_results_.store(false, std::memory_order_relaxed);
    return outcome;
  }
  std::vector<tensor_spec> inputs;
  for (const auto number : outcome.inputs) {
    const auto& input = key.inputs()[number];
    inputs.push_back(tensor_spec::row_major(input.type, input.shape));
  }
  require_results(made, inputs);
  for (const auto number : outcome.outputs) outcome.results.push_back(made.results[number]);
  return outcome;
}

}  // namespace sluice::detail
