// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_options.hpp"
#include "service/front/tls_credentials.hpp"
#include "service/front/worker_backend.hpp"
#include "service/grpc/grpc_options.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service {

/// The threads that read and write HTTP, unless the user says otherwise: a quarter of the
/// processors, from 1 to 4. Workers and the thread that receives their results need the others.
[[nodiscard]] inline unsigned default_http_threads() {
  return std::clamp(std::thread::hardware_concurrency() / 4, 1U, 4U);
}

/// What the command line and the file of `--config` say.
struct service_options {
  std::string models{};
  std::vector<std::string> files{};
  std::vector<std::string> http{"127.0.0.1:8000"};
  std::string grpc = "127.0.0.1:8001";
  std::string metrics = "127.0.0.1:8002";
  tls_files tls{};
  std::string token_file{};
  std::string tenant_file{};
  bool is_insecure = false;
  std::string log = "text";
  std::vector<std::string> devices{"auto"};
  unsigned threads = default_http_threads();
  unsigned drain_delay = 0;               // in seconds
  unsigned drain_timeout = 30;            // in seconds
  unsigned hang_timeout = 60;             // in seconds
  std::optional<std::uint64_t> memory{};  // in bytes
};

/// Reads the options. Returns whether there is something to do, else `code` is that of the process.
[[nodiscard]] bool read_options(int argc, char** argv, service_options& settings, int& code);

/// The options of the server: at most one address and one Unix socket.
/// @throws std::invalid_argument if there are more, or if one needs protection
[[nodiscard]] http_options http_options_of(const service_options& settings);
/// The options of gRPC, which shares certificates and tokens with HTTP; nothing if it is off.
/// @throws std::invalid_argument if its address needs protection
[[nodiscard]] std::optional<grpc_options> grpc_options_of(const service_options& settings,
                                                          const http_options& http);
/// The options of the metrics; nothing if they are off.
/// @throws std::invalid_argument if their address needs protection
[[nodiscard]] std::optional<http_options> metrics_options_of(const service_options& settings);
/// The options of the workers: one for each device.
/// @throws repository_error if a model's file is not NAME=PATH
[[nodiscard]] worker_options worker_options_of(const service_options& settings);

}  // namespace sluice::service
