// SPDX-License-Identifier: Apache-2.0
// The current context of a thread that calls CUDA.
#pragma once

#include "runtime/cuda/driver.hpp"

namespace sluice::cuda {

/// The primary context of a GPU, which the CUDA runtime, its libraries and the process share.
/// Creates it if there is none. It exists until the process exits or calls `cudaDeviceReset`. Calls
/// that need it fail afterwards.
/// @throws error `library_failure`
/// @throws error `out_of_memory`
[[nodiscard]] CUcontext primary_context(int ordinal);

/// Makes `context` current in the calling thread. Returns the previous one, possibly null.
/// `cudaSetDevice` is not used, because restoring would create a context on the previous GPU.
inline CUcontext make_current(CUcontext context) noexcept {
  CUcontext previous = nullptr;
  (void)driver().context_get_current(&previous);
  if (previous != context) (void)driver().context_set_current(context);
  return previous;
}
/// Restores the result of `make_current`, whatever context is current now.
inline void make_current_again(CUcontext previous) noexcept {
  CUcontext current = nullptr;
  (void)driver().context_get_current(&current);
  if (current != previous) (void)driver().context_set_current(previous);
}

/// Keeps `context` current in the calling thread, and keeps a capture pass open. Only for a thread
/// that sluice makes for this device. If it captures a stream, it leaves the pass meanwhile. Scopes
/// of that context then make no driver calls. After code of the program (`detail::user_code_scope`)
/// the context is restored.
void keep_current(CUcontext context) noexcept;
/// Whether the calling thread keeps `context` current, and no other scope is open.
[[nodiscard]] bool keeps_current(CUcontext context) noexcept;

/// Lets the scopes of `context` on the calling thread make `replacement` current instead, which is
/// current at once. Not nested.
void begin_replacement(CUcontext context, CUcontext replacement) noexcept;
/// Restores the context that was current before `begin_replacement`.
void end_replacement() noexcept;
/// The context that stands for `context` on the calling thread.
[[nodiscard]] CUcontext replacement_of(CUcontext context) noexcept;

/// Makes a context current, and nothing else. For calls that every launch makes and that no capture
/// forbids.
class launch_scope {
 public:
  explicit launch_scope(CUcontext context) noexcept
      : context_(replacement_of(context)),
        previous_(keeps_current(context) ? context_ : make_current(context_)) {}
  launch_scope(const launch_scope&) = delete;
  launch_scope& operator=(const launch_scope&) = delete;
  ~launch_scope() {
    if (previous_ != context_) (void)driver().context_set_current(previous_);
  }

 private:
  CUcontext context_;
  CUcontext previous_;
};

/// Makes `context` current inside a capture pass. Returns the argument for `leave`. Scopes may
/// nest.
[[nodiscard]] void* enter(CUcontext context) noexcept;
/// Restores the previous context, whatever context is current now.
void leave(void* previous) noexcept;

/// Between these calls the calling thread may make calls that a stream capture of other code would
/// forbid. A capture in mode "global" forbids them in all threads, and a forbidden call ends the
/// capture with an error. Calls may nest.
void begin_capture_pass() noexcept;
void end_capture_pass() noexcept;

}  // namespace sluice::cuda
