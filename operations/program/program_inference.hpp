// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sluice::detail {
class program_graph;
}  // namespace sluice::detail

namespace sluice::operations {

/// What a run of a program computes, once the properties of its inputs are known: the shapes of all
/// values and the calls of all steps, without memory and without a device. Immutable.
///
/// A *root* is memory of its own: that of an input, a constant or the result of a step, numbered in
/// this order. Views lie in the root of what they view.
struct program_inference {
  struct located {
    std::uint32_t root = 0;
    tensor_layout layout{};     ///< from the first element of an input or a constant, or the first
                                ///< byte of a result
    std::size_t alignment = 0;  ///< of the first element
    [[nodiscard]] tensor_spec spec() const;
  };
  struct step {
    const operation_row* row = nullptr;
    operation_row::call_storage call;
    std::vector<inference::use> uses{};  ///< their operands belong to the program
  };

  std::string key{};  ///< the program and the properties of its inputs
  std::vector<tensor_spec> inputs{};
  std::vector<located> values{};
  std::vector<step> steps{};
  std::vector<std::uint32_t> written{};  ///< the steps whose results are outputs or parts of them
  std::size_t bytes = 0;                 ///< its size in host memory
};

/// Calls `work` and puts `where` in front of the text of its error.
template <class Work>
void naming(const std::string& where, const Work& work) {
  try {
    work();
  } catch (const error& e) {
    throw error(e.code(), where + ": " + e.what(), e.status(), e.where());
  }
}
template <class Work>
void naming_step(const detail::program_step& step, const Work& work) {
  naming("step '" + step.name() + "'", work);
}

/// Works out a run of `of` for inputs with the properties `given`.
/// @throws error what a step refuses, with its name
[[nodiscard]] program_inference infer_program(const detail::program_graph& of,
                                              std::span<const tensor_spec> given);

}  // namespace sluice::operations
