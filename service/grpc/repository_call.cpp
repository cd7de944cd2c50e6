// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/repository_call.hpp"

#include "service/grpc/message_buffer.hpp"
#include "service/grpc/repository_messages.hpp"

#include <string_view>
#include <utility>

namespace sluice::service {

void repository_call::answer(wire_reader request) {
  const bool is_load = action_ == repository_action::load;
  auto model = is_load ? read_load_request(request) : read_unload_request(request);
  const auto run = await([this](const run_result& result) {
    result.error ? finish(*result.error) : finish(to_byte_buffer(std::string_view()));
  });
  is_load ? run->load(std::move(model)) : run->unload(std::move(model));
}

}  // namespace sluice::service
