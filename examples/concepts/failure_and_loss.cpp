// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <iostream>
#include <memory>

void fill(const sluice::gpu_ref<float>& x, float value, sluice::stream_ref stream) {
  auto recorder = sluice::launch_recorder::strict(stream);
  recorder.write(x);
  recorder.preflight();
  stream.device().fill(x.data(), &value, sizeof value, x.size(), stream.native());
  recorder.commit();
}

int main() {
  const auto faults = std::make_shared<sluice::fault_script>();
  sluice::device_runtime runtime{sluice::open_host_device({.faults = faults})};
  const auto stream = runtime.create_stream();
  const auto x = runtime.allocate<float>(1000, stream, "x");
  const auto y = runtime.allocate<float>(1000, stream, "y");

  faults->fail_nth(sluice::fault_target::copy, 1);
  fill(x, 1, stream);  // the stream's thread will not run it; nothing throws here
  stream.synchronize();
  try {
    sluice::enqueue_copy(y, stream, x);
  } catch (const sluice::error& e) {
    std::cout << to_string(e.code()) << '\n';  // upstream_failed
  }
  fill(x, 2, stream);  // replaces every byte of x, which clears the failure
  sluice::enqueue_copy(y, stream, x);
  stream.synchronize();
  std::cout << y.data()[0] << '\n';  // 2
}
