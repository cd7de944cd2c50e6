// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/folding.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>

#include <cstddef>
#include <cstdint>
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
  /// Computes them in the thread of a host stream. The constants are in `memory`.
  /// @throws error what a step fails with, with its name
  void compute(std::byte* memory) const;
  /// Enqueues them on the stream of the libraries, of a GPU, behind the work that brings the
  /// constants to `memory`.
  /// @throws error what a step fails with, with its name
  void enqueue(lane_libraries& libraries, std::byte* memory) const;

 private:
  static constexpr std::size_t nowhere = ~std::size_t{0};

  struct launch {
    std::string name{};  ///< of the step
    const operation_descriptor* descriptor = nullptr;
    call_storage call{};
    std::vector<std::size_t> offsets{};  ///< of the operands; `nowhere` for those that are not read
    std::vector<element_type> types{};
  };
  template <class Work>
  void for_each(std::byte* memory, const Work& work) const;

  std::vector<launch> launches_;
};

}  // namespace sluice::operations
