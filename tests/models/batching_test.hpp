// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/model_device_test.hpp"
#include "tests/operations/program/stacked_program.hpp"

#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// Compares requests that are computed together with the same ones alone.
class batching_test : public model_device_test {
 protected:
  /// The results of requests that are computed together are those that they have alone. Returns
  /// the difference, or nothing.
  std::string difference_of(const model_program& made, const batch_axes& where,
                            const std::vector<tensor_map>& requests) {
    std::vector<tensor_spec> specs;
    model_program together{.outputs = made.outputs};
    tensor_map inputs;
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const auto& name = made.inputs[i];
      std::vector<host_tensor> parts;
      for (const auto& request : requests) parts.push_back(request.at(name));
      specs.push_back(tensor_spec::row_major(parts[0].type(), parts[0].shape()));
      together.inputs.push_back(name);
      inputs.emplace(name, where.inputs[i] ? joined_along(*where.inputs[i], parts) : parts[0]);
    }
    together.program = stacked_program(made.program, specs, where.inputs,
                                       static_cast<std::int64_t>(requests.size()));
    const auto all = run(together, inputs);
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const auto alone = run(made, requests[r]);
      for (std::size_t i = 0; i < alone.size(); ++i) {
        const auto part = part_along(where.outputs[i], all[i], r, requests.size());
        auto found = difference(part, alone[i], {.relative = 1e-4, .absolute = 1e-5});
        if (!found.empty()) return "request " + std::to_string(r) + ": " + found;
      }
    }
    return {};
  }
};

}  // namespace sluice::test
