// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/grpc/infer_message.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// A message as the bytes that are sent, in order: pieces of it, and results that stay where they
/// are.
struct outgoing_message {
  struct part {
    std::string text{};
    std::span<const std::byte> bytes{};  ///< after the text
  };

  std::vector<part> parts{};
  std::shared_ptr<const void> memory{};  ///< keeps the bytes

  [[nodiscard]] std::uint64_t size() const noexcept;
};

/// The message `ModelInferResponse` with the results of a run. Those that belong in shared memory
/// are written there.
/// @throws request_error the error of the run; `too_large` if the message has more than
/// `most_bytes`; `internal` if an output has not the size of its shape; as
/// `tensor_regions::write_outputs`
[[nodiscard]] outgoing_message make_infer_reply(const infer_message& request, run_result result,
                                                std::uint64_t most_bytes);

/// The message `ModelStreamInferResponse` with such a reply.
[[nodiscard]] outgoing_message make_stream_reply(outgoing_message reply);
/// The message `ModelStreamInferResponse` with an error of the request `id`.
[[nodiscard]] outgoing_message make_stream_error(std::string_view id, std::string_view error);

}  // namespace sluice::service
