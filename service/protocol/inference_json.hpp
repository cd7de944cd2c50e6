// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/inference_request.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::service {

/// Parses the JSON text of an infer request.
///
///     auto request = parse_inference_request(body.substr(0, header_bytes),
///                                            body.size() - header_bytes);
///     read_json_elements(text, request, tensors);  // with memory for each input
///
/// Elements in the text are counted, and `read_json_elements` reads them.
///
/// Unknown fields and parameters are ignored: the schema of the protocol allows additional ones.
/// Known ones must have their type and may not occur twice. There are at most 64 inputs, 64 outputs
/// and 8 dimensions. Names are not empty and none occurs twice. All sizes, also their sum, fit into
/// 63 bits, even if an extent is zero.
///
/// @param text          the body, or its first `Inference-Header-Content-Length` bytes
/// @param binary_bytes  the size of the rest of the body. Without it the caller compares with
///                      `binary_bytes(request)`.
/// @throws request_error `invalid_argument` if the text is malformed or contradicts itself or
/// `binary_bytes`; the message names the input or the field. `unimplemented` for the datatype
/// BYTES, classification and bodies without a JSON text.
[[nodiscard]] inference_request parse_inference_request(std::string_view text,
                                                        std::optional<std::uint64_t> binary_bytes);

/// The number of bytes that follow the JSON text of a parsed request.
[[nodiscard]] std::uint64_t binary_bytes(const inference_request& request) noexcept;

}  // namespace sluice::service
