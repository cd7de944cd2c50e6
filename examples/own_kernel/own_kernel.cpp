// SPDX-License-Identifier: Apache-2.0
#include <sluice/runtime.hpp>

#include <iostream>
#include <optional>

// Of a .cu file: fill<<<(n + 255) / 256, 256, 0, reinterpret_cast<cudaStream_t>(stream)>>>(...)
void launch_fill(float* x, std::size_t n, float value, sluice::native_stream* stream);

void enqueue_fill(const sluice::gpu_ref<float>& x, float value, sluice::stream_ref stream) {
  auto recorder = sluice::launch_recorder::strict(stream);
  recorder.write(x);
  recorder.preflight();  // the stream waits for what still uses x, wherever that runs
  std::optional<sluice::error> failure;
  try {
    if (stream.device().id().kind == sluice::device_kind::cuda) {
      const sluice::current_device_scope scope(stream.device());
      launch_fill(x.data(), x.size(), value, stream.native());
    } else {
      sluice::submit_host_task(stream, [data = x.data(), n = x.size(), value] {
        for (std::size_t i = 0; i < n; ++i) data[i] = value;
      });
    }
  } catch (...) {
    failure = sluice::current_error();
  }
  recorder.commit(failure);  // later uses of x wait for this launch, and fail if it failed
  if (failure) throw *failure;
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main() {
  sluice::device_runtime runtime{sluice::open_device("auto")};
  const auto one = runtime.create_stream();
  const auto two = runtime.create_stream();
  const auto x = runtime.allocate<float>(1000, one, "x");
  enqueue_fill(x, 41, one);
  enqueue_fill(x, 42, two);  // after the first one, though on another stream

  sluice::device_runtime host{sluice::open_device("host")};
  const auto here = host.create_stream();
  const auto result = host.allocate<float>(1000, here, "result");
  sluice::enqueue_copy(result, here, x, two);
  here.synchronize();
  std::cout << result.data()[0] << '\n';  // 42
}
