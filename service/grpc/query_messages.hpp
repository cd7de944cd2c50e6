// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/wire_reader.hpp"
#include "service/protocol/model_metadata.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The messages of the methods that ask about the server and its models.
namespace sluice::service {

/// The model that a request is about.
struct model_name {
  std::string name{};
  std::string version{};  ///< empty: the highest that is served
};

/// Reads `ModelStatisticsRequest`; an empty name: all models.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] model_name read_optional_model_name(wire_reader message);
/// Reads `ModelReadyRequest`, `ModelMetadataRequest` or `ModelConfigRequest`.
/// @throws request_error as `read_optional_model_name`; `invalid_argument` if the name is missing
[[nodiscard]] model_name read_model_name(wire_reader message);

/// `ServerLiveResponse`, `ServerReadyResponse` or `ModelReadyResponse`.
[[nodiscard]] std::string ready_message(bool is_ready);
/// `ServerMetadataResponse`.
[[nodiscard]] std::string server_metadata_message(std::string_view name, std::string_view version,
                                                  std::span<const std::string_view> extensions);
/// `ModelMetadataResponse`.
[[nodiscard]] std::string model_metadata_message(const model_metadata& model);

/// The states of a service in `grpc.health.v1`.
enum class serving_status : std::uint8_t { serving = 1, not_serving = 2, service_unknown = 3 };

/// Reads the name of a service in `HealthCheckRequest`; empty: the server.
/// @throws request_error `invalid_argument` if the bytes are malformed
[[nodiscard]] std::string read_service_name(wire_reader message);
/// `HealthCheckResponse`.
[[nodiscard]] std::string health_message(serving_status status);

}  // namespace sluice::service
