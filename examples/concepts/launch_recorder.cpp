// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <iostream>
#include <optional>

/// Enqueues `y = x`.
sluice::timeline_point enqueue(const sluice::gpu_ref<float>& y, const sluice::gpu_ref<float>& x,
                               sluice::stream_ref stream) {
  auto recorder = sluice::launch_recorder::strict(stream);
  recorder.read(x).write(y);
  recorder.preflight();  // takes the leases, queues the waits
  std::optional<sluice::error> failure;
  try {
    stream.device().copy(y.data(), x.data(), x.bytes(), sluice::copy_direction::device_to_device,
                         stream.native());
  } catch (...) {
    failure = sluice::current_error();
  }
  return recorder.commit(failure);  // publishes the launch, returns the leases
}

int main() {
  sluice::device_runtime runtime{sluice::open_device("auto")};
  const auto stream = runtime.create_stream();
  const auto x = runtime.allocate<float>(1000, stream, "x");
  const auto y = runtime.allocate<float>(1000, stream, "y");

  const auto point = enqueue(y, x, stream);
  stream.synchronize();
  std::cout << std::boolalpha << stream.ref().completed(point.ticket) << '\n';  // true
}
