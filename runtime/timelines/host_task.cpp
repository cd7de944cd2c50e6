// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/host_stream.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/host_task.hpp>

namespace sluice::detail {

void submit_host_callable(stream_ref stream, std::unique_ptr<host_callable> callable) {
  auto& device = stream.device();
  if (device.id().kind != device_kind::host) {
    throw error(errc::unsupported,
                "host tasks run on host devices only, not on " + to_string(device.id()));
  }
  device.require_usable();
  auto call = [callable = std::move(callable)] {
    callable->call();
  };
  auto task = std::make_unique<host::function_task<decltype(call)>>(std::move(call));
  if (!timeline::of(stream)->unless_retired([&](native_stream* native) noexcept {
        reinterpret_cast<host::host_stream*>(native)->submit_counted(task.release(),
                                                                     fault_target::launch);
      })) {
    throw error(errc::stream_misuse, "the stream has been destroyed");
  }
}

}  // namespace sluice::detail
