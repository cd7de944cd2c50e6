// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/grpc_front.hpp"
#include "tests/service/front/scripted_backend.hpp"
#include "tests/service/grpc/generic_client.hpp"
#include "tests/service/grpc/wire_message.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace sluice::service::test {

inline const std::string infer_method = inference_method("ModelInfer");
inline const std::string stream_method = inference_method("ModelStreamInfer");

inline std::string tensor_fields(std::uint32_t field, const std::string& tensor) {
  return bytes(field, bytes(1, "a") + bytes(2, "UINT8") +
                          bytes(3, packed({static_cast<std::int64_t>(tensor.size())})));
}

/// An infer request for the model m.
inline std::string infer(const std::string& tensor, const std::string& id = "7",
                         const std::string& more = "") {
  return bytes(1, "m") + bytes(3, id) + more + tensor_fields(5, tensor) + bytes(7, tensor);
}

/// The reply of a backend that echoes such a request.
inline std::string echoed(const std::string& tensor, const std::string& id = "7") {
  return bytes(1, "m") + bytes(3, id) + tensor_fields(5, tensor) + bytes(6, tensor);
}

inline grpc_options any_port() {
  return {.port = 0};
}

/// A server with a client.
struct served {
  explicit served(scripted_backend::script act, const grpc_options& options = any_port(),
                  const std::shared_ptr<grpc::ChannelCredentials>& credentials = insecure())
      : backend(std::move(act)), server(options, backend), client(server.port(), credentials) {}

  scripted_backend backend;
  grpc_front server;
  generic_client client;
};

}  // namespace sluice::service::test
