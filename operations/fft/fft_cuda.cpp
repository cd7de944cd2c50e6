// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/cuda/check_cufft.hpp"
#include "operations/fft/fft_functions.hpp"
#include "operations/fft/scale_kernel.hpp"
#include "operations/workspace.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/device.hpp>

#include <cufft.h>

#include <cstddef>
#include <cstdio>
#include <memory>

namespace sluice::cuda {
namespace {

using operations::check_cufft;
using operations::fft_call;
using operations::fft_key;
using operations::fft_kind;

[[nodiscard]] cufftType type_of(const fft_key& key) {
  const bool single = key.is_double == 0;
  if (key.kind == fft_kind::r2c) return single ? CUFFT_R2C : CUFFT_D2Z;
  if (key.kind == fft_kind::c2r) return single ? CUFFT_C2R : CUFFT_Z2D;
  return single ? CUFFT_C2C : CUFFT_Z2Z;
}

/// A plan of cuFFT, bound to a stream.
class cufft_plan final : public operation_plan {
 public:
  cufft_plan(const fft_key& key, sluice::device& device, stream_ref stream) : device_(device) {
    check_cufft(cufftCreate(&handle_));
    try {
      check_cufft(cufftSetAutoAllocation(handle_, 0));
      bind(stream);
      long long length = key.length;
      check_cufft(cufftMakePlanMany64(handle_, 1, &length, &length, 1, key.input_distance, &length,
                                      1, key.output_distance, type_of(key), key.batch,
                                      &work_bytes_));
    } catch (...) {
      if (!device_.lost()) cufftDestroy(handle_);
      throw;
    }
  }

  ~cufft_plan() override {
    const detail::library_call call(device_.id());
    // A lost device takes its handles along; destroying one there can abort the process.
    if (device_.lost()) return;
    const current_device_scope current(device_);
    const cufftResult result = cufftDestroy(handle_);
    if (result != CUFFT_SUCCESS && !device_.lost()) {
      std::fprintf(stderr, "sluice: cufftDestroy answered %d\n", static_cast<int>(result));
    }
  }

  std::size_t bytes() const noexcept override { return std::size_t{1} << 20U; }
  std::size_t device_bytes() const noexcept override { return std::size_t{1} << 20U; }
  std::size_t workspace_bytes() const noexcept override { return work_bytes_; }
  std::size_t commands() const noexcept override { return 8; }

  /// Sets the stream of the transforms that follow.
  void bind(stream_ref stream) const {
    check_cufft(cufftSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())));
  }
  /// Enqueues the transform with `workspace` as its scratch memory.
  void transform(const fft_key& key, void* workspace, void* x, void* y) const {
    if (workspace != workspace_ && work_bytes_ != 0) {
      check_cufft(cufftSetWorkArea(handle_, workspace));
      workspace_ = workspace;
    }
    const int direction = key.kind == fft_kind::c2c_forward ? CUFFT_FORWARD : CUFFT_INVERSE;
    switch (type_of(key)) {
      case CUFFT_R2C:
        return check_cufft(
            cufftExecR2C(handle_, static_cast<cufftReal*>(x), static_cast<cufftComplex*>(y)));
      case CUFFT_D2Z:
        return check_cufft(cufftExecD2Z(handle_, static_cast<cufftDoubleReal*>(x),
                                        static_cast<cufftDoubleComplex*>(y)));
      case CUFFT_C2R:
        return check_cufft(
            cufftExecC2R(handle_, static_cast<cufftComplex*>(x), static_cast<cufftReal*>(y)));
      case CUFFT_Z2D:
        return check_cufft(cufftExecZ2D(handle_, static_cast<cufftDoubleComplex*>(x),
                                        static_cast<cufftDoubleReal*>(y)));
      case CUFFT_C2C:
        return check_cufft(cufftExecC2C(handle_, static_cast<cufftComplex*>(x),
                                        static_cast<cufftComplex*>(y), direction));
      case CUFFT_Z2Z:
        return check_cufft(cufftExecZ2Z(handle_, static_cast<cufftDoubleComplex*>(x),
                                        static_cast<cufftDoubleComplex*>(y), direction));
    }
  }

 private:
  sluice::device& device_;
  cufftHandle handle_ = 0;
  std::size_t work_bytes_ = 0;
  mutable void* workspace_ = nullptr;
};

/// A stream on which the planner loads kernels.
struct warm_up_stream {
  warm_up_stream(device_runtime& runtime, stream_ref) : stream(runtime.create_stream()) {}
  sluice::stream stream;
};

/// Transforms zeros once, so that the plan's kernels are loaded here and not while a launch holds
/// leases. Large plans, and plans for which there is no memory now, are loaded by their first
/// launch.
void warm_up(const cufft_plan& plan, const fft_key& key, lane_libraries& libraries) {
  constexpr std::size_t most = std::size_t{64} << 20U;
  const auto bytes = [&](std::int64_t row, std::int64_t distance) {
    const auto elements = static_cast<std::size_t>((key.batch - 1) * distance + row);
    const auto size = (key.is_double != 0 ? 2 : 1) * sizeof(cufftComplex);
    return (elements * size + 255) / 256 * 256;
  };
  const auto x_bytes = bytes(key.input_row(), key.input_distance);
  const auto y_bytes = bytes(key.output_row(), key.output_distance);
  const auto all = x_bytes + y_bytes + plan.workspace_bytes();
  if (all > most) return;
  // The lane's stream may hold launches of other plans, so the kernels are loaded apart.
  const auto apart = libraries.get<warm_up_stream>().stream.ref();
  operations::workspace scratch(libraries.runtime(), apart, "cufft warm-up");
  try {
    scratch.require(all);
  } catch (const error& e) {
    if (e.code() == errc::out_of_memory || e.code() == errc::over_budget) return;
    throw;
  }
  auto* const x = static_cast<std::byte*>(scratch.address());
  const unsigned char zero = 0;
  libraries.runtime().device().fill(x, &zero, 1, x_bytes, apart.native());
  plan.bind(apart);
  plan.transform(key, x + x_bytes + y_bytes, x, x + x_bytes);
  apart.synchronize();
  plan.bind(libraries.stream());
}

/// A plan for no rows: cuFFT takes no batch of 0.
class empty_plan final : public operation_plan {};

/// Our kernels, loaded.
struct loaded_kernels {
  loaded_kernels(device_runtime& runtime, stream_ref) {
    const current_device_scope current(runtime.device());
    check(static_cast<cudaError_t>(operations::load_scale_kernels()));
  }
};

template <class Real>
void scale(const fft_call& call, void* y, native_stream* stream) {
  const auto numbers = call.key.kind == fft_kind::c2r ? 1 : 2;
  const auto size = [](std::int64_t n) {
    return static_cast<std::size_t>(n);
  };
  check(static_cast<cudaError_t>(operations::launch_scale(
      static_cast<Real*>(y), size(numbers * call.key.output_row()), size(call.key.batch),
      size(numbers * call.key.output_distance), static_cast<Real>(call.scale), stream)));
}

}  // namespace

std::string fft_version() {
  const auto property = [](libraryPropertyType type) {
    int value = 0;
    check_cufft(cufftGetProperty(type, &value));
    return std::to_string(value);
  };
  return property(MAJOR_VERSION) + '.' + property(MINOR_VERSION) + '.' + property(PATCH_LEVEL);
}

void prepare_fft(lane_libraries& libraries) {
  (void)libraries.get<loaded_kernels>();
}

std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries& libraries,
                                                    const fft_call& call) {
  if (call.key.batch == 0) return std::make_shared<empty_plan>();
  auto& runtime = libraries.runtime();
  const detail::library_call in_library(runtime.device().id());
  const current_device_scope current(runtime.device());
  auto plan = std::make_shared<cufft_plan>(call.key, runtime.device(), libraries.stream());
  warm_up(*plan, call.key, libraries);
  return plan;
}

void enqueue_fft(lane_libraries& libraries, const fft_call& call, const operation_plan* plan,
                 void* workspace, const void* x, void* y) {
  const current_device_scope current(libraries.runtime().device());
  // cuFFT's input is not const; out of place, one-dimensional transforms only read it.
  static_cast<const cufft_plan*>(plan)->transform(call.key, workspace, const_cast<void*>(x), y);
  if (call.scale == 1) return;
  if (call.key.is_double == 0) {
    scale<float>(call, y, libraries.stream().native());
  } else {
    scale<double>(call, y, libraries.stream().native());
  }
}

}  // namespace sluice::cuda
