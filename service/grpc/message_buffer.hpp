// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/grpc/infer_reply.hpp"
#include "service/grpc/wire_reader.hpp"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace sluice::service {

/// The bytes of a received message, at the place to which gRPC has read them.
class received_message {
 public:
  /// Takes over the bytes; the buffer is empty afterwards.
  explicit received_message(grpc::ByteBuffer& buffer);
  [[nodiscard]] wire_reader reader() const noexcept {
    return wire_reader(std::span<const std::span<const std::byte>>(pieces_));
  }

 private:
  std::vector<grpc::Slice> slices_{};
  std::vector<std::span<const std::byte>> pieces_{};
};

/// A message to be sent.
///@{
[[nodiscard]] grpc::ByteBuffer to_byte_buffer(std::string_view message);
/// Copies short results; long ones are sent from their place.
[[nodiscard]] grpc::ByteBuffer to_byte_buffer(const outgoing_message& message);
///@}

/// The bytes of a reply, to be kept until the client has taken it.
/// @throws request_error `resource_exhausted` if the budget does not allow them
[[nodiscard]] std::unique_ptr<byte_charge> charge_for(const grpc::ByteBuffer& reply,
                                                      byte_budget& budget);

}  // namespace sluice::service
