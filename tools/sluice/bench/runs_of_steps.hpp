// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/check_results.hpp"
#include "tools/sluice/bench/plain_calls.hpp"

#include <sluice/actors/program.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::cli {

/// Adds the steps for an input to plain calls, which first copy it to the device if it is on the
/// host. Returns the result.
template <class Steps>
tensor add_plain_steps(plain_calls& calls, const Steps& steps, const run_input& input) {
  return steps.add_to(calls, input.on_host() ? calls.add_copy(input.on_host()) : input.on_device());
}

/// The steps as plain calls for each of `inputs`.
template <class Steps, class Input>
std::unique_ptr<plain_calls> plain_steps(device_runtime& runtime, const Steps& steps,
                                         const std::vector<Input>& inputs) {
  auto calls = std::make_unique<plain_calls>(runtime);
  calls->share_memory_except(Steps::result);
  for (const auto& input : inputs) {
    (void)add_plain_steps(*calls, steps, input);
    calls->end_set();
  }
  return calls;
}

/// The steps as a program with one input, which has these `marks`, such as `per_request`.
template <class Steps, class... Marks>
program program_of(const Steps& steps, std::size_t max_in_batch, Marks... marks) {
  program_builder builder;
  const auto result = steps.add_to(builder, builder.input("x", marks...));
  return std::move(builder).build({result}, {.max_in_batch = max_in_batch});
}

/// A run for each of `inputs`.
template <class Input>
std::vector<sluice::run> runs_of(const program& what, const std::vector<Input>& inputs) {
  std::vector<sluice::run> all;
  all.reserve(inputs.size());
  for (const auto& input : inputs) all.push_back({what, {input}});
  return all;
}

/// Compares results of runs with those of plain calls. @throws error as `check_sample`
template <class Steps>
void check_runs(bench_run& bench, const Steps& steps, const std::vector<sluice::run>& runs) {
  check_sample<tensors>(
      bench, bench.current.device().programs(), runs,
      [&](plain_calls& calls, const sluice::run& request) {
        return add_plain_steps(calls, steps, request.inputs.front());
      },
      "a result of a program");
}

}  // namespace sluice::cli
