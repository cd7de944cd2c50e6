// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/grpc/grpc_context.hpp"
#include "service/grpc/infer_message.hpp"
#include "service/protocol/trace_context.hpp"

#include <boost/asio/thread_pool.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sluice::service {

/// A run with its inputs, ready to be submitted.
struct infer_submission {
  run_request run{};
  std::unique_ptr<input_memory> inputs{};
};

/// Who sends a request, and what its call says about it.
struct request_sender {
  std::string tenant{};
  std::uint64_t connection = 0;
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::optional<trace_context> trace{};
};

/// Reads a request over `message`, whose elements are read to the memory of the backend and are
/// gone afterwards. Inputs in shared memory are still to be read, by `message.regions`.
/// @throws request_error as `parse_infer_message`, `tensor_regions`, `read_tensors`,
/// `tenant_registry::charge` and the backend's `allocate`; `deadline_exceeded` if the deadline has
/// passed
[[nodiscard]] infer_submission read_submission(wire_reader bytes, infer_message& message,
                                               const request_sender& sender,
                                               const grpc_context& context);

/// The deadline of a call, which gRPC states by the system's clock.
[[nodiscard]] std::optional<std::chrono::steady_clock::time_point> call_deadline(
    std::chrono::system_clock::time_point deadline);

/// The threads that make a reply of more than 64 KiB, or copy results to shared memory; null: the
/// thread that has the result makes the reply.
[[nodiscard]] boost::asio::thread_pool* reply_threads(grpc_context& context,
                                                      const infer_message& message,
                                                      const run_result& result);

}  // namespace sluice::service
