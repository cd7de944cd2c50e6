// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/message_buffer.hpp"

#include "service/protocol/request_error.hpp"

#include <memory>
#include <string>

namespace sluice::service {
namespace {

// A slice of its own costs as much as a copy of about this size.
constexpr std::size_t most_copied_bytes = std::size_t{4} << 10U;

[[nodiscard]] grpc::Slice slice_of(std::span<const std::byte> bytes,
                                   const std::shared_ptr<const void>& memory) {
  auto owner = std::make_unique<std::shared_ptr<const void>>(memory);
  // gRPC does not write to the bytes.
  auto* const begin = const_cast<std::byte*>(bytes.data());
  grpc::Slice slice(
      begin, bytes.size(),
      [](void* pointer) { delete static_cast<std::shared_ptr<const void>*>(pointer); },
      owner.get());
  (void)owner.release();
  return slice;
}

}  // namespace

received_message::received_message(grpc::ByteBuffer& buffer) {
  if (!buffer.Valid()) return;
  (void)buffer.Dump(&slices_);
  buffer.Clear();
  pieces_.reserve(slices_.size());
  for (const auto& slice : slices_) {
    pieces_.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  }
}

grpc::ByteBuffer to_byte_buffer(std::string_view message) {
  const grpc::Slice slice(message.data(), message.size());
  return {&slice, 1};
}

grpc::ByteBuffer to_byte_buffer(const outgoing_message& message) {
  std::vector<grpc::Slice> slices;
  std::string text;
  for (const auto& part : message.parts) {
    text += part.text;
    if (part.bytes.size() <= most_copied_bytes) {
      text.append(reinterpret_cast<const char*>(part.bytes.data()), part.bytes.size());
    } else {
      slices.emplace_back(text);
      text.clear();
      slices.push_back(slice_of(part.bytes, message.memory));
    }
  }
  if (!text.empty() || slices.empty()) slices.emplace_back(text);
  return {slices.data(), slices.size()};
}

std::unique_ptr<byte_charge> charge_for(const grpc::ByteBuffer& reply, byte_budget& budget) {
  auto charge = std::make_unique<byte_charge>(budget);
  if (!charge->try_grow_to(reply.Length())) {
    throw request_error(request_status::resource_exhausted,
                        "clients have not taken their replies, which have too many bytes");
  }
  return charge;
}

}  // namespace sluice::service
