// SPDX-License-Identifier: Apache-2.0
#include <sluice/envelope.hpp>

#include <exception>
#include <future>
#include <iostream>
#include <memory>

int main() {
  const auto service = std::make_shared<sluice::device_service>("auto");
  sluice::lane lane{service};
  auto& runtime = service->runtime();
  const auto x = runtime.allocate<float>(1000, lane.stream(), "x");

  using reference = sluice::gpu_ref<float>;
  std::promise<reference> answer;
  const auto token = sluice::reply_token<reference>::from(
      [&](const reference& reply) { answer.set_value(reply); },
      [&](const sluice::error& why) { answer.set_exception(std::make_exception_ptr(why)); });

  const sluice::kernel_envelope fill({.library = "example", .operation = "fill"});
  fill.run(lane, sluice::access_all(runtime, sluice::write(x, "x")), token, x, {},
           [&](const sluice::launch_context& context) {
             const float value = 42;
             service->device().fill(x.data(), &value, sizeof value, x.size(), context.native());
           });

  std::cout << answer.get_future().get().size() << '\n';  // 1000, once the device has finished
}
