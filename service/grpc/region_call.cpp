// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/region_call.hpp"

#include "service/front/region_registry.hpp"
#include "service/grpc/message_buffer.hpp"
#include "service/grpc/region_messages.hpp"

namespace sluice::service {

void region_call::answer(wire_reader request) {
  auto& regions = *context().options.regions;
  std::string reply;
  switch (action_) {
    case region_action::status:
      reply = region_status_message(regions.list(tenant_, read_region_name(request)));
      break;
    case region_action::add:
      regions.add(tenant_, read_region_request(request));
      break;
    case region_action::remove:
      regions.remove(tenant_, read_region_name(request));
      break;
  }
  finish(to_byte_buffer(reply));
}

}  // namespace sluice::service
