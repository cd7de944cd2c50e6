// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"
#include "service/protocol/datatype.hpp"

#include <cstddef>
#include <span>
#include <string>

/// The message `InferTensorContents`, which has the elements of a tensor as numbers of protobuf.
namespace sluice::service {

/// Whether the message has a field for elements of this type. It has none for FP16 and BF16.
[[nodiscard]] bool has_contents_field(datatype type) noexcept;

/// Reads the elements of a tensor. They may be packed or not.
/// @param tensor  of the size of the tensor; after an error its contents are undefined
/// @throws request_error `invalid_argument` if the message has not as many elements as the tensor,
/// has elements of another type, or a number does not fit the type
void read_contents(wire_reader contents, datatype type, std::span<std::byte> tensor);

/// The message with these elements, which are whole elements of a type that has a field.
[[nodiscard]] std::string contents_message(datatype type, std::span<const std::byte> elements);

}  // namespace sluice::service
