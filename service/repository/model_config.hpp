// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"
#include "service/protocol/model_metadata.hpp"
#include "service/repository/chain_config.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// The arithmetic of a model.
enum class precision : std::uint8_t { original, tf32, f16, bf16 };

/// The name of a precision in a config.
[[nodiscard]] const char* to_string(precision precision) noexcept;

/// Which of the versions of a model are served.
struct version_policy {
  enum class choice : std::uint8_t { latest, all, specific };

  choice kind = choice::latest;
  std::uint64_t latest_count = 1;         ///< for `latest`: as many of the highest numbers
  std::vector<std::uint64_t> versions{};  ///< for `specific`: ascending

  friend bool operator==(const version_policy&, const version_policy&) = default;
};

/// A tensor that a config names.
struct config_tensor {
  std::string name{};
  datatype type = datatype::fp32;
  /// Without the batch axis if `max_batch_size` is not 0; -1: any extent.
  std::vector<std::int64_t> dims{};

  friend bool operator==(const config_tensor&, const config_tensor&) = default;
};

/// An input of a warm-up. Its extents are positive.
struct warm_up_input {
  config_tensor tensor{};
  bool is_random = false;  ///< otherwise zeros

  friend bool operator==(const warm_up_input&, const warm_up_input&) = default;
};

/// Runs that precede the first request of a model.
struct warm_up {
  std::string name{};
  std::int64_t batch_size = 0;  ///< 0: the tensors have no batch axis
  std::int64_t count = 1;       ///< runs
  std::vector<warm_up_input> inputs{};

  friend bool operator==(const warm_up&, const warm_up&) = default;
};

/// A tensor that a sequence of requests keeps: an output of one is the input of the next.
struct config_state {
  std::string input{};
  std::string output{};
  datatype type = datatype::fp32;
  std::vector<std::int64_t> dims{};  ///< as in `config_tensor`, and positive

  friend bool operator==(const config_state&, const config_state&) = default;
};

/// How sequences of requests keep the state of a model.
struct sequence_config {
  std::chrono::microseconds idle_timeout{60'000'000};
  std::vector<config_state> state{};  ///< not empty

  friend bool operator==(const sequence_config&, const sequence_config&) = default;
};

/// The config of a model. Without a file it has the defaults.
struct model_config {
  std::string name{};               ///< empty, or the name of the folder
  std::int64_t max_batch_size = 0;  ///< 0: the tensors have no batch axis
  std::int64_t lanes = 1;           ///< launches of the model at the same time, on each worker
  sluice::service::precision precision = precision::original;
  bool is_required = false;  ///< the server is ready only while this model is served
  version_policy versions{};
  std::vector<config_tensor> inputs{};   ///< empty, or what the inputs of the model must be
  std::vector<config_tensor> outputs{};  ///< likewise
  std::vector<warm_up> warm_ups{};
  std::optional<sequence_config> sequences{};
  std::vector<config_step> steps{};  ///< of a chain; empty: the model has a file of its own

  friend bool operator==(const model_config&, const model_config&) = default;
};

/// The platform of a model in its metadata and its config: a file of ONNX, or a chain.
inline constexpr const char* onnx_platform = "onnx_sluice";
inline constexpr const char* chain_platform = "ensemble";

[[nodiscard]] inline const char* platform_of(const model_config& config) noexcept {
  return config.steps.empty() ? onnx_platform : chain_platform;
}

/// Why a config is refused: one printable line that names the key or the line.
class config_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The forms of a config: config.toml, and config.pbtxt in the text format of protobuf.
enum class config_form : std::uint8_t { toml, pbtxt };

/// The largest size of a config in bytes.
inline constexpr std::size_t max_config_bytes = std::size_t{64} << 10;

/// Reads a config. docs/concepts/model_repository.md lists the keys.
/// @throws config_error if the text is malformed or exceeds `max_config_bytes`, if a key is
/// unknown, or if a value has another type or range
[[nodiscard]] model_config parse_config(std::string_view text, config_form form);

/// Those of the `available` versions that the policy chooses. Both are ascending.
[[nodiscard]] std::vector<std::uint64_t> chosen_versions(
    const version_policy& policy, const std::vector<std::uint64_t>& available);

}  // namespace sluice::service
