// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"
#include "tools/sluice/bench/service/http_replies.hpp"

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// An input of a served model, with the shape that is sent.
struct served_input {
  std::string name{};
  service::datatype type{};
  std::vector<std::int64_t> shape{};
  std::string element{};  ///< the bytes of each element; empty: they are random
  std::uint64_t bytes = 0;
};

/// What the user says of the inputs, by their names; the empty name is that of the only input.
struct requested_inputs {
  std::map<std::string, std::vector<std::int64_t>> shapes{};
  std::map<std::string, std::string> values{};  ///< numbers, for all elements of an input
  std::int64_t batch = 1;  ///< of inputs without a shape, whose first extent is free
};

/// What a request to a served model needs.
struct served_model {
  std::string name{};
  std::vector<served_input> inputs{};
  std::uint64_t bytes = 0;  ///< of all inputs

  /// "x 1x16 FP32, y 3 INT64"
  [[nodiscard]] std::string inputs_text() const;
};

/// How requests reach the service over HTTP.
struct http_service {
  server_address server;
  std::string token{};  ///< empty: none
};

/// Asks the service for the model, and chooses the shapes and values of its inputs.
/// @throws error `library_failure`, naming the address, if the service does not answer;
/// `invalid_argument`, naming the option, if there is no such model, or if the shapes or values do
/// not fit it
[[nodiscard]] served_model describe_model(const http_service& service, const std::string& name,
                                          const requested_inputs& requested);

/// The bytes of each input. Without a value they are random numbers from -1 to 1, or 0 and 1 of
/// integers.
[[nodiscard]] std::vector<std::string> random_inputs(const served_model& model,
                                                     std::mt19937_64& source);

/// A request of HTTP with these inputs as binary data, which asks for binary outputs.
[[nodiscard]] std::string http_request(const http_service& service, const served_model& model,
                                       const std::vector<std::string>& inputs);

}  // namespace sluice::cli
