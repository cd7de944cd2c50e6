// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/stream.hpp>

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

namespace detail {
/// A queued callable of the host device.
class SLUICE_EXPORT host_callable {
 public:
  host_callable() = default;
  host_callable(const host_callable&) = delete;
  host_callable& operator=(const host_callable&) = delete;
  virtual ~host_callable() = default;
  virtual void call() = 0;
};
SLUICE_EXPORT void submit_host_callable(stream_ref stream, std::unique_ptr<host_callable> callable);
}  // namespace detail

/// Queues `function` on a stream of a host device. The counterpart of a kernel launch.
///
///     recorder.preflight();
///     submit_host_task(stream, [p = x.data()] { p[0] = 1; });
///     recorder.commit();
///
/// The function runs on the stream's thread, ordered on `stream`. The call returns at once. If an
/// exception leaves `function`, the launch fails: its ticket and everything that depends on it. Any
/// thread may call this function.
/// @throws error `unsupported` if `stream` is not on a host device
/// @throws error `stream_misuse` if `stream` is empty or destroyed
/// @throws error `device_lost` if the device is lost
template <class Function>
void submit_host_task(stream_ref stream, Function&& function) {
  class callable final : public detail::host_callable {
   public:
    explicit callable(Function&& f) : function_(std::forward<Function>(f)) {}
    void call() override { function_(); }

   private:
    std::decay_t<Function> function_;
  };
  detail::submit_host_callable(stream,
                               std::make_unique<callable>(std::forward<Function>(function)));
}

}  // namespace sluice
