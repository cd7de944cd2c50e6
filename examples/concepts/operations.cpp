// SPDX-License-Identifier: Apache-2.0
#include <sluice/operations.hpp>

#include <chrono>
#include <exception>
#include <future>
#include <iostream>
#include <memory>
#include <semaphore>
#include <utility>
#include <vector>

using namespace sluice;

/// Runs operations one after the other on a lane. Actors do this for many clients at once.
struct runner {
  explicit runner(std::shared_ptr<device_service> service) : lane_executor(std::move(service)) {
    lane_executor.on_wake([woken = woken] { woken->release(); });
  }
  template <class Operation>
  tensor run(Operation operation) {
    std::promise<tensor> promise;
    auto answer = promise.get_future();
    const auto token = reply_token<tensor>::from(
        [&, woken = woken](tensor result) {
          promise.set_value(std::move(result));
          woken->release();
        },
        [&, woken = woken](const error& why) {
          promise.set_exception(std::make_exception_ptr(why));
          woken->release();
        });
    lane_executor.submit(std::move(operation), {}, token);
    while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      woken->acquire();
      lane_executor.work();
    }
    return answer.get();
  }

  std::shared_ptr<std::counting_semaphore<>> woken = std::make_shared<std::counting_semaphore<>>(0);
  executor lane_executor;
};

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  runner lane(std::make_shared<device_service>("auto"));
  const host_tensor image(std::vector<std::uint8_t>{0, 51, 102, 153, 204, 255}, {2, 3});
  const auto x = lane.run(upload{.values = image});
  const auto y = lane.run(affine{.x = x, .factor = 1.0 / 255, .offset = -0.5});  // f32
  const auto z = lane.run(gemm{.a = y, .b = y.transposed()});                    // 2x2
  const auto result = std::make_shared<host_tensor>();
  (void)lane.run(download{.x = z, .target = result});
  for (const float value : result->values<float>())
    std::cout << value << '\n';  // 0.35 -0.19 -0.19 0.35
}
