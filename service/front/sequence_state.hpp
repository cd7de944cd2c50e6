// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::service {

/// The state of one sequence, zeros at first. Not thread-safe.
class sequence_state {
 public:
  explicit sequence_state(state_descriptor descriptor);

  [[nodiscard]] const state_descriptor& descriptor() const noexcept { return descriptor_; }
  /// The size of all tensors.
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// Checks that a client sends the other inputs only, and no more than the limit of tensors.
  /// @throws request_error `invalid_argument`, which names the input
  void check(const run_request& run) const;
  /// Adds the state to a run: the inputs, which follow those of the client, and the outputs. The
  /// run is for the content of the descriptor afterwards.
  /// @returns the memory of all inputs, with a copy of those of the client
  /// @throws request_error as the backend's `allocate`
  [[nodiscard]] std::unique_ptr<input_memory> add_to(run_request& run, input_memory& inputs,
                                                     model_backend& backend) const;
  /// Takes the next state from the results, and removes the outputs that the client has not named.
  /// An exception leaves the state as it was.
  /// @param outputs  names that the client has given
  /// @throws request_error `invalid_argument` if an output has not the type and shape of the state,
  /// `internal` if it is missing
  void take_from(run_result& result, const std::vector<std::string>& outputs);

 private:
  state_descriptor descriptor_;
  std::vector<std::uint64_t> sizes_{};             ///< of the tensors
  std::vector<std::vector<std::byte>> tensors_{};  ///< empty: all are zeros
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::service
