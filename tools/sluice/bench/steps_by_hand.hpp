// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/check_results.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/plain_calls.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/actors/program.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

namespace sluice::cli {

/// Steps that are called by hand for each of `inputs`. `values` are the results.
template <class Steps>
struct steps_by_hand {
  template <class Input>
  steps_by_hand(session& current, const Steps& steps, const std::vector<Input>& inputs)
      : calls(current.device().service().runtime()) {
    calls.share_memory_except(Steps::result);
    for (const auto& input : inputs) {
      if constexpr (std::is_same_v<Input, host_tensor>) {
        values.push_back(steps.add_to(calls, calls.add_copy(input)));
      } else {
        values.push_back(steps.add_to(calls, input));
      }
      calls.end_set();
    }
  }
  void run(std::int64_t n) {
    calls.call(n);
    calls.synchronize();
  }
  /// The results, after a run for all inputs.
  [[nodiscard]] const std::vector<tensor>& results() {
    run(static_cast<std::int64_t>(values.size()));
    return values;
  }

  plain_calls calls;
  std::vector<tensor> values{};
};

/// Clients that have `target` run `what` for each of `inputs`, which they share equally.
template <class Input>
auto clients_of_runs(session& current, const program_actor& target, std::size_t clients,
                     std::size_t in_flight, const program& what, const std::vector<Input>& inputs) {
  return std::make_shared<load_clients<tensors>>(
      current.system(), clients, in_flight, target,
      [&inputs, what, share = inputs.size() / clients](std::size_t client, std::size_t i) {
        return std::tuple(run{what, {inputs[client * share + i % share]}});
      });
}

/// Compares results of runs with those by hand.
template <class Steps, class Input>
void check_runs(session& current, const program& what, const std::vector<Input>& inputs,
                steps_by_hand<Steps>& plain) {
  check_sample<tensors>(
      current, current.device().programs(), plain.results(),
      [&](std::size_t i) {
        return run{what, {inputs[i]}};
      },
      std::string("a result of ") + Steps::name);
}

}  // namespace sluice::cli
