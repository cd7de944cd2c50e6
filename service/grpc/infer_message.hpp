// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/tensor_regions.hpp"
#include "service/grpc/wire_reader.hpp"
#include "service/protocol/inference_request.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sluice::service {

/// A message `ModelInferRequest`. The elements of the inputs are not read yet.
struct infer_message {
  std::string model{};
  std::string version{};
  /// An input is binary if its elements stand in `raw_input_contents`, which has nothing for inputs
  /// in shared memory. The outputs are wanted as binary data if the inputs are, unless the
  /// parameter `binary_data_output` says otherwise.
  inference_request request{};
  /// For each input the bytes of `raw_input_contents`, or the message `InferTensorContents`; empty
  /// for inputs in shared memory.
  std::vector<wire_reader> elements{};
  tensor_regions regions{};  ///< of the tensors in shared memory, once they are looked up
  /// Whether the reply in a stream has to say that no other one follows, as Triton's clients ask.
  bool wants_final_mark = false;
};

/// Reads a request over `message`. If an error is thrown, the fields before its cause are read.
///
/// As in HTTP, unknown fields and parameters are ignored, there are at most 256 inputs and outputs
/// and 8 dimensions, names are not empty and none occurs twice.
/// @param bytes  outlives the message
/// @throws request_error `invalid_argument` if the bytes are malformed or contradict themselves;
/// the text names the input or the parameter. `unimplemented` for the datatype BYTES and
/// classification.
void parse_infer_message(wire_reader bytes, infer_message& message);

/// Reads the elements of the inputs that are in the message to their places.
/// @param tensors  for each input a span of `request_input::bytes` bytes; after an error their
/// contents are undefined
/// @throws request_error `invalid_argument` as `read_contents`; the text names the input
void read_tensors(const infer_message& message, std::span<const std::span<std::byte>> tensors);

}  // namespace sluice::service
