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

/// For calls that every launch makes and that no capture elsewhere forbids: makes a context
/// current, and no more.
class launch_scope {
 public:
  explicit launch_scope(CUcontext context) noexcept
      : context_(context), previous_(make_current(context)) {}
  launch_scope(const launch_scope&) = delete;
  launch_scope& operator=(const launch_scope&) = delete;
  ~launch_scope() {
    if (previous_ != context_) (void)driver().context_set_current(previous_);
  }

 private:
  CUcontext context_;
  CUcontext previous_;
};

/// Between the two, the calling thread may make calls that a stream capture of somebody else's
/// would forbid it, and that would end that capture with an error: a capture in the mode "global"
/// does so in all threads. They nest.
void begin_capture_pass() noexcept;
void end_capture_pass() noexcept;
/// The same for the rest of the thread's life.
void keep_capture_pass() noexcept;

}  // namespace sluice::cuda
