// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::service {

/// The place of a tensor in a region of shared memory that the client has registered.
struct tensor_region {
  std::string name{};        ///< of the region
  std::uint64_t offset = 0;  ///< in the region
  std::uint64_t bytes = 0;   ///< those of an input; the room for an output
};

/// An input of a request, as its client describes it. The elements are elsewhere.
struct request_input {
  std::string name{};
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};  ///< no extent is negative
  std::uint64_t bytes = 0;            ///< of the elements, row-major without gaps
  /// Whether the elements follow the JSON text as binary data, in the order of the inputs.
  bool is_binary = false;
  std::optional<tensor_region> region{};  ///< where the elements are, in shared memory

  /// Whether the elements stand in the text.
  [[nodiscard]] bool is_in_text() const noexcept { return !is_binary && !region; }
};

/// An output that a request asks for.
struct request_output {
  std::string name{};
  bool is_binary = false;                 ///< whether its elements are wanted as binary data
  std::optional<tensor_region> region{};  ///< where its elements are wanted, in shared memory
};

/// A sequence of requests with common state.
struct request_sequence {
  std::string id{};  ///< an integer of the protocol as its digits
  bool starts = false;
  bool ends = false;
};

/// A request to run a model, without the elements of its inputs.
struct inference_request {
  std::string id{};  ///< of the client; empty if it gives none
  std::vector<request_input> inputs{};
  std::vector<request_output> outputs{};  ///< empty: all outputs of the model
  bool wants_binary_outputs = false;      ///< the default of the outputs that are not named
  std::uint64_t priority = 0;             ///< 0: the default of the model; 1: the highest
  std::uint64_t timeout_us = 0;           ///< 0: no timeout
  std::optional<request_sequence> sequence{};
};

}  // namespace sluice::service
