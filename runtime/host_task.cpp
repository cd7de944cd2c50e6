#include "runtime/host/host_stream.hpp"
#include "runtime/timeline.hpp"

#include <sluice/runtime/host_task.hpp>

namespace sluice::detail {

void submit_host_callable(stream_ref stream, std::unique_ptr<host_callable> callable) {
  auto& device = stream.device();
  if (device.id().kind != device_kind::host) {
    throw error(errc::unsupported,
                "host tasks run on host devices only, not on " + to_string(device.id()));
  }
  device.require_usable();
  if (stream.timeline()->retired()) throw error(errc::stream_misuse, "the stream has been retired");
  auto task = [callable = std::move(callable)] {
    callable->call();
  };
  reinterpret_cast<host::host_stream*>(stream.native())
      ->submit_counted(new host::function_task<decltype(task)>(std::move(task)),
                       fault_target::launch);
}

}  // namespace sluice::detail
