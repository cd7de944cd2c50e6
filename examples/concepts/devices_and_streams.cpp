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
  sluice::device_runtime runtime{sluice::open_device("auto")};  // the first GPU, else the host
  const auto stream = runtime.create_stream();
  sluice::stream_pool pool{runtime, {.size = 4}};

  const auto x = runtime.allocate<float>(1000, stream, "x");
  {
    const auto borrowed = pool.acquire();
    fill(x, 1, borrowed);
  }                    // the stream returns to the pool; the fill may still be running
  fill(x, 2, stream);  // ordered after the fill on the borrowed stream
  stream.synchronize();
  std::cout << "streams in use: " << pool.acquired() << '\n';  // 0
}
