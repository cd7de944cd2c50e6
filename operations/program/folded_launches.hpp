// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/folding.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::operations {

/// The launches of the steps of a `folding`. They own all that they use beside the memory of the
/// constants and the library objects, so they may outlive the program.
class folded_launches {
 public:
  folded_launches(const folding& folded, const detail::program_graph& graph,
                  const program_inference& inferred);

  /// Makes the library objects that they need on a GPU.
  /// @throws error as an operation, with the name of the step
  void prepare(lane_libraries& libraries) const;
  /// Computes them in the thread of a host stream. `blocks` are the addresses of the memory of the
  /// constants, by `constant_place::block`.
  /// @throws error what a step fails with, with its name
  void compute(std::span<std::byte* const> blocks) const;
  /// Enqueues them on the stream of the libraries, of a GPU, behind the work that brings the
  /// constants to `blocks`.
  /// @throws error what a step fails with, with its name
  void enqueue(lane_libraries& libraries, std::span<std::byte* const> blocks) const;

 private:
  struct launch {
    std::string name{};  ///< of the step
    const operation_descriptor* descriptor = nullptr;
    call_storage call{};
    /// Of the operands; nothing for those that are not read.
    std::vector<std::optional<constant_place>> places{};
    std::vector<element_type> types{};
  };
  template <class Work>
  void for_each(std::span<std::byte* const> blocks, const Work& work) const;

  std::vector<launch> launches_;
};

}  // namespace sluice::operations
