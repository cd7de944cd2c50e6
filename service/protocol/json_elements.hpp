// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"
#include "service/protocol/inference_request.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sluice::service {

/// Reads the elements that stand in the JSON text of a request into memory of the caller.
///
/// `data` is one flat array in row-major order, or arrays nested exactly as the shape says. Triton
/// also takes other nestings, which hide transposed tensors. BOOL elements are true or false, as in
/// Triton. Integers are exact and may have no fraction or exponent. FP32 and FP64 elements are the
/// nearest values. FP16 and BF16 elements, which Triton takes only as binary data, are FP64 values
/// rounded to the nearest, ties to even.
///
/// @param text     the text that `request` was parsed from
/// @param tensors  for each input a span of `request_input::bytes` bytes. Those of binary inputs
/// are
///                 not touched and may be empty. After an error the contents are undefined.
/// @throws request_error `invalid_argument` if an element does not fit the datatype or an array
/// does not fit the shape; the message names the input
void read_json_elements(std::string_view text, const inference_request& request,
                        std::span<const std::span<std::byte>> tensors);

/// Appends elements to a JSON text as a flat array.
///
/// Floating-point numbers are the shortest that read back exactly, and have a fraction or an
/// exponent. Any byte but 0 is true.
/// @param bytes  whole elements without alignment
/// @returns whether all elements are finite. Otherwise the text ends before the first that is not,
/// as JSON cannot express it.
[[nodiscard]] bool append_json_elements(std::string& text, datatype type,
                                        std::span<const std::byte> bytes);

}  // namespace sluice::service
