// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <iostream>

void fill(const sluice::gpu_ref<float>& x, float value, sluice::stream_ref stream) {
  auto recorder = sluice::launch_recorder::strict(stream);
  recorder.write(x);
  recorder.preflight();
  stream.device().fill(x.data(), &value, sizeof value, x.size(), stream.native());
  recorder.commit();
}

int main() {
  sluice::device_runtime runtime{sluice::open_device("host")};
  const auto one = runtime.create_stream();
  const auto two = runtime.create_stream();
  const auto three = runtime.create_stream();
  const auto x = runtime.allocate<float>(1000, one, "x");
  const auto y = runtime.allocate<float>(1000, two, "y");
  const auto z = runtime.allocate<float>(1000, three, "z");

  fill(x, 1, one);                    // A writes x
  sluice::enqueue_copy(y, two, x);    // B reads x, writes y
  sluice::enqueue_copy(z, three, x);  // C reads x, writes z
  fill(x, 2, one);                    // D writes x
  sluice::enqueue_copy(z, two, y);    // E reads y, writes z

  two.synchronize();
  std::cout << z.data()[0] << '\n';  // 1
}
