// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"
#include "service/protocol/inference_request.hpp"
#include "service/protocol/model_metadata.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The JSON texts that the service answers with. Strings are escaped, and bytes that are not UTF-8
/// become U+FFFD.
namespace sluice::service {

/// An output of an infer reply.
struct reply_output {
  std::string_view name{};
  datatype type = datatype::fp32;
  std::span<const std::int64_t> shape{};
  std::span<const std::byte> bytes{};  ///< row-major without gaps
  bool is_binary = false;  ///< whether the bytes follow the text, in the order of the outputs
  const tensor_region* region = nullptr;  ///< where the bytes are instead, in shared memory
};

/// What identifies an infer reply.
struct reply_header {
  std::string_view model{};
  std::string_view version{};
  std::string_view id{};  ///< of the request; empty: none
};

/// The text of an infer reply. Elements of outputs that are not binary are a flat array, FP16 and
/// BF16 included.
/// @throws request_error `invalid_argument` if an output that is not binary has a NaN or an
/// infinity: the client has to ask for binary data. `internal` if an output has not the size of its
/// shape.
[[nodiscard]] std::string inference_reply_json(const reply_header& header,
                                               std::span<const reply_output> outputs);

/// The text that describes a model.
[[nodiscard]] std::string model_metadata_json(const model_metadata& model);

/// The text that describes the server.
[[nodiscard]] std::string server_metadata_json(std::string_view name, std::string_view version,
                                               std::span<const std::string_view> extensions);

/// The text of an error.
[[nodiscard]] std::string error_json(std::string_view message);

}  // namespace sluice::service
