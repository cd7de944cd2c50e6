// SPDX-License-Identifier: Apache-2.0
// What is current in a thread that calls CUDA.
#pragma once

#include "runtime/cuda/driver.hpp"

namespace sluice::cuda {

/// The one context on a GPU that the CUDA runtime, its libraries and the process share, made if
/// there is none. It lasts as long as the CUDA runtime has it: until the process ends, or calls
/// `cudaDeviceReset`, after which calls that need it fail. @throws error `library_failure`,
/// `out_of_memory`
[[nodiscard]] CUcontext primary_context(int ordinal);

/// Makes `context` the calling thread's current one and returns the one before, which may be none.
/// Not by `cudaSetDevice`: that makes a context, too, on the GPU that a thread goes back to.
inline CUcontext make_current(CUcontext context) noexcept {
  CUcontext previous = nullptr;
  (void)driver().context_get_current(&previous);
  if (previous != context) (void)driver().context_set_current(context);
  return previous;
}
/// Back to what `make_current` returned, whatever is current now.
inline void make_current_again(CUcontext previous) noexcept {
  CUcontext now = nullptr;
  (void)driver().context_get_current(&now);
  if (now != previous) (void)driver().context_set_current(previous);
}

/// The calling thread, one of sluice's own that captures no streams, serves the device of `context`
/// and no other: keeps that context current, and keeps a capture pass. Scopes of that context then
/// make no calls of the driver. It is restored after code of users (`detail::user_code_scope`).
void keep_current(CUcontext context) noexcept;
/// Whether the calling thread keeps `context`, which is current then.
[[nodiscard]] bool keeps_current(CUcontext context) noexcept;

/// For calls that every launch makes and that no capture elsewhere forbids: makes a context
/// current, and no more.
class launch_scope {
 public:
  explicit launch_scope(CUcontext context) noexcept
      : context_(context), previous_(keeps_current(context) ? context : make_current(context)) {}
  launch_scope(const launch_scope&) = delete;
  launch_scope& operator=(const launch_scope&) = delete;
  ~launch_scope() {
    if (previous_ != context_) (void)driver().context_set_current(previous_);
  }

 private:
  CUcontext context_;
  CUcontext previous_;
};

/// Makes `context` current inside a capture pass. Returns what `leave` needs. They nest.
[[nodiscard]] void* enter(CUcontext context) noexcept;
/// Restores what was current before, whatever is current now.
void leave(void* entered) noexcept;

/// Between the two, the calling thread may make calls that a stream capture of somebody else's
/// would forbid it, and that would end that capture with an error: a capture in the mode "global"
/// does so in all threads. They nest.
void begin_capture_pass() noexcept;
void end_capture_pass() noexcept;

}  // namespace sluice::cuda
