// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/region_messages.hpp"

#include "service/grpc/wire_writer.hpp"

namespace sluice::service {

region_description read_region_request(wire_reader message) {
  region_description region;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      region.name = message.text();
    } else if (message.is(2, wire_type::bytes)) {
      region.key = message.text();
    } else if (message.is(3, wire_type::varint)) {
      region.offset = message.varint();
    } else if (message.is(4, wire_type::varint)) {
      region.bytes = message.varint();
    } else {
      message.skip();
    }
  }
  return region;
}

std::string read_region_name(wire_reader message) {
  std::string name;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      name = message.text();
    } else {
      message.skip();
    }
  }
  return name;
}

std::string region_status_message(std::span<const region_description> regions) {
  std::string message;
  for (const auto& region : regions) {
    std::string status;
    append_text(status, 1, region.name);
    append_text(status, 2, region.key);
    append_number(status, 3, region.offset);
    append_number(status, 4, region.bytes);
    std::string entry;
    append_text(entry, 1, region.name);
    append_bytes(entry, 2, status);
    append_bytes(message, 1, entry);
  }
  return message;
}

}  // namespace sluice::service
