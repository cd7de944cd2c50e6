// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/context.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/devices/own_thread.hpp"

#include <cuda_runtime_api.h>

#include <utility>

namespace sluice::cuda {
namespace {

struct capture_state {
  unsigned passes = 0;
  bool exchanged = false;
  bool kept = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;  // to be restored
  // Between `begin_replacement` and `end_replacement`.
  CUcontext replaced = nullptr;
  CUcontext replacement = nullptr;
  CUcontext previous = nullptr;  // to be restored
};
capture_state& of_this_thread() noexcept {
  static thread_local capture_state state;
  return state;
}

// The CUDA runtime's function would create a context on the thread's current GPU.
bool exchange(CUstreamCaptureMode& mode) noexcept {
  return driver().exchange_capture_mode(&mode) == CUDA_SUCCESS;
}

}  // namespace

CUcontext primary_context(int ordinal) {
  check(cudaInitDevice(ordinal, 0, 0));
  const auto& d = driver();
  if (!d.complete()) {
    throw error(errc::library_failure, "the CUDA driver is too old; CUDA 12.0 or newer is needed");
  }
  CUdevice gpu = 0;
  CUcontext context = nullptr;
  auto status = d.device_get(&gpu, ordinal);
  // Only the address is needed: the CUDA runtime keeps the context. A reference that outlived a
  // `cudaDeviceReset` would be released from a context of other code.
  if (status == CUDA_SUCCESS) status = d.primary_context_retain(&context, gpu);
  if (status == CUDA_SUCCESS) status = d.primary_context_release(gpu);
  if (status != CUDA_SUCCESS) {
    throw error(errc::library_failure,
                "the primary context of GPU " + std::to_string(ordinal) +
                    " could not be retained: status " + std::to_string(status),
                {"CUDA driver", static_cast<long>(status)});
  }
  return context;
}

void begin_capture_pass() noexcept {
  auto& state = of_this_thread();
  if (state.passes++ != 0) return;
  state.mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  state.exchanged = exchange(state.mode);
}

void end_capture_pass() noexcept {
  auto& state = of_this_thread();
  if (--state.passes == 0 && state.exchanged) (void)exchange(state.mode);
}

void begin_replacement(CUcontext context, CUcontext replacement) noexcept {
  auto& state = of_this_thread();
  state.replaced = context;
  state.replacement = replacement;
  state.previous = make_current(replacement);
}

void end_replacement() noexcept {
  auto& state = of_this_thread();
  state.replaced = nullptr;
  make_current_again(state.previous);
}

CUcontext replacement_of(CUcontext context) noexcept {
  const auto& state = of_this_thread();
  return state.replaced == context ? state.replacement : context;
}

void keep_current(CUcontext context) noexcept {
  if (!std::exchange(of_this_thread().kept, true)) begin_capture_pass();
  auto& thread = detail::own_thread::here();
  thread.context = context;
  thread.restore = [](const void* previous) noexcept {
    (void)make_current(replacement_of(static_cast<CUcontext>(const_cast<void*>(previous))));
  };
  (void)make_current(context);
}

bool keeps_current(CUcontext context) noexcept {
  const auto& thread = detail::own_thread::here();
  return thread.context == context && thread.suspended == 0;
}

void* enter(CUcontext context) noexcept {
  auto& thread = detail::own_thread::here();
  if (keeps_current(context)) return &thread;  // no context has this address
  ++thread.suspended;
  begin_capture_pass();
  return make_current(replacement_of(context));
}

void leave(void* previous) noexcept {
  auto& thread = detail::own_thread::here();
  if (previous == &thread) return;
  make_current_again(static_cast<CUcontext>(previous));
  end_capture_pass();
  --thread.suspended;
}

}  // namespace sluice::cuda
