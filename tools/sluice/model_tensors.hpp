// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/model_inputs.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/models/model.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <random>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Refuses a program whose values do not fit into memory, with as many sets of inputs and results,
/// before anything is allocated. @throws error as `require_memory`
void require_memory_for(std::string_view subject, const session& current,
                        const model_program& compiled, const named_specs& specs,
                        std::size_t sets = 1);

/// The inputs of the program, in order. They have the elements of `inputs`, or random ones: from -1
/// to 1, or 0 and 1 of integers.
[[nodiscard]] std::vector<host_tensor> input_tensors(const model_program& compiled,
                                                     const named_tensors& inputs,
                                                     const named_specs& specs,
                                                     std::mt19937_64& generator);

/// The same tensors on the device.
[[nodiscard]] std::vector<tensor> upload_tensors(session& current,
                                                 const std::vector<host_tensor>& elements);

}  // namespace sluice::cli
