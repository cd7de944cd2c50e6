// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/support/workbench.hpp"

#include "tests/support/failing_allocations.hpp"

#include <cstdint>
#include <utility>

namespace sluice::bench {
namespace {

template <class Function>
std::uint64_t allocations_of(Function function) {
  const auto before = test::allocations_made();
  function();
  return test::allocations_made() - before;
}

device_allocations allocations_on(device& on, stream_ref stream, stream_ref other) {
  device_allocations counted;
  auto* event = on.create_event();
  for (std::uint64_t value = 1; value <= 2; ++value) {  // the second time is the steady state
    counted.record = allocations_of([&] { on.record(event, value, stream.native()); });
    counted.wait = allocations_of([&] { on.wait(other.native(), event, value); });
  }
  other.synchronize();
  on.destroy_event(event);
  return counted;
}

}  // namespace

device_runtime& workbench::runtime() {
  make_once();
  return *runtime_;
}

stream_ref workbench::stream(int index) {
  make_once();
  return streams_.at(static_cast<std::size_t>(index));
}

const device_allocations& workbench::allocations() {
  make_once();
  return allocations_;
}

void workbench::make_once() {
  std::call_once(made_, [this] {
    auto runtime =
        std::make_unique<device_runtime>(open_device(name_), runtime_options{.resource = make_()});
    std::vector<sluice::stream> streams;
    streams.reserve(max_streams);
    for (int i = 0; i < max_streams; ++i) streams.push_back(runtime->create_stream());
    allocations_ = allocations_on(runtime->device(), streams[0], streams[1]);
    streams_ = std::move(streams);
    runtime_ = std::move(runtime);
  });
}

}  // namespace sluice::bench
