// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/cuda/check_cufft.hpp"
#include "actors/fft/fft_libraries.hpp"
#include "actors/fft/scale_kernel.hpp"
#include "actors/plan_cache.hpp"
#include "actors/workspace.hpp"
#include "runtime/cuda/check.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/device.hpp>

#include <cufft.h>

#include <cstddef>
#include <cstdio>
#include <memory>

namespace sluice::actors {

namespace {

[[nodiscard]] cufftType type_of(const fft_description& d) {
  const bool single = d.precision == element_type::f32;
  if (d.kind == fft_kind::r2c) return single ? CUFFT_R2C : CUFFT_D2Z;
  if (d.kind == fft_kind::c2r) return single ? CUFFT_C2R : CUFFT_Z2D;
  return single ? CUFFT_C2C : CUFFT_Z2Z;
}

class cuda_fft_plan final : public fft_plan {
 public:
  cuda_fft_plan(const fft_description& d, device_runtime& runtime, stream_ref stream)
      : fft_plan(d), device_(runtime.device()) {
    check_cufft(cufftCreate(&handle_));
    try {
      check_cufft(cufftSetAutoAllocation(handle_, 0));
      check_cufft(cufftSetStream(handle_, reinterpret_cast<cudaStream_t>(stream.native())));
      auto length = static_cast<long long>(d.length);
      check_cufft(cufftMakePlanMany64(handle_, 1, &length, &length, 1,
                                      static_cast<long long>(d.input_distance), &length, 1,
                                      static_cast<long long>(d.output_distance), type_of(d),
                                      static_cast<long long>(d.batch), &work_bytes_));
    } catch (...) {
      if (!device_.lost()) cufftDestroy(handle_);
      throw;
    }
  }

  ~cuda_fft_plan() override {
    const detail::library_call call(device_.id());
    // A lost device takes its handles along; destroying one there can abort the process.
    if (device_.lost()) return;
    const current_device_scope current(device_);
    const cufftResult result = cufftDestroy(handle_);
    if (result != CUFFT_SUCCESS && !device_.lost()) {
      std::fprintf(stderr, "sluice: cufftDestroy answered %d\n", static_cast<int>(result));
    }
  }

  [[nodiscard]] cufftHandle handle() const noexcept { return handle_; }
  [[nodiscard]] std::size_t work_bytes() const noexcept { return work_bytes_; }

  /// Host work only: the launches that come next use this memory.
  void use_work_area(void* address) const {
    if (address == work_area_ || work_bytes_ == 0) return;
    check_cufft(cufftSetWorkArea(handle_, address));
    work_area_ = address;
  }

 private:
  sluice::device& device_;
  cufftHandle handle_ = 0;
  std::size_t work_bytes_ = 0;
  mutable void* work_area_ = nullptr;
};

/// A plan for nothing: cuFFT takes no batch of 0.
class empty_plan final : public fft_plan {
 public:
  using fft_plan::fft_plan;
};

class cuda_fft_library final : public fft_library {
 public:
  cuda_fft_library(device_runtime& runtime, stream_ref stream)
      : runtime_(runtime), stream_(stream), work_area_(runtime, stream, "cufft workspace") {
    const current_device_scope current(stream_.device());
    cuda::check(static_cast<cudaError_t>(load_scale_kernels()));
  }

  std::shared_ptr<const fft_plan> prepare(const fft_description& description) override {
    const fft_description d = completed(description);
    if (d.batch == 0) return std::make_shared<empty_plan>(d);
    return plans_.find_or_make(d, [&]() -> std::shared_ptr<const fft_plan> {
      const detail::library_call call(stream_.device().id());
      stream_.device().require_usable();
      const current_device_scope current(stream_.device());
      // cuFFT synchronises the device where a plan is destroyed.
      auto plan = detail::share_with_deferred_destruction(
          detail::runtime_core::of(runtime_),
          std::make_unique<cuda_fft_plan>(d, runtime_, stream_));
      work_area_.require(plan->work_bytes());
      warm_up(*plan);
      return plan;
    });
  }

  void execute(const fft_plan& plan, const void* in, void* out, double scale) override {
    const fft_description& d = plan.description();
    require_executable(d, in, out, scale);
    if (d.batch == 0) return;
    const current_device_scope current(stream_.device());
    const auto& cuda_plan = static_cast<const cuda_fft_plan&>(plan);
    cuda_plan.use_work_area(work_area_.address());
    // cuFFT takes its input as not const; out of place, one-dimensional transforms only read it.
    transform(cuda_plan.handle(), d, const_cast<void*>(in), out);
    if (scale == 1) return;
    if (d.precision == element_type::f32) {
      multiply<float>(d, out, scale);
    } else {
      multiply<double>(d, out, scale);
    }
  }

 private:
  /// Transforms zeros once, so that the plan's kernels are loaded here and not while leases are
  /// held.
  void warm_up(const cuda_fft_plan& plan) {
    constexpr std::size_t most = std::size_t{64}
                                 << 20U;  // larger plans are loaded by their first launch
    const fft_description& d = plan.description();
    const std::size_t in_bytes = (input_extent(d) * size_of(input_type(d)) + 255) / 256 * 256;
    const std::size_t out_bytes = output_extent(d) * size_of(output_type(d));
    if (in_bytes > most || out_bytes > most) return;
    workspace scratch(runtime_, stream_, "cufft warm-up");
    scratch.require(in_bytes + out_bytes);
    auto* in = static_cast<std::byte*>(scratch.address());
    const unsigned char zero = 0;
    stream_.device().fill(in, &zero, 1, in_bytes, stream_.native());
    plan.use_work_area(work_area_.address());
    transform(plan.handle(), d, in, in + in_bytes);
  }

  static void transform(cufftHandle handle, const fft_description& d, void* in, void* out) {
    const int direction = d.kind == fft_kind::c2c_forward ? CUFFT_FORWARD : CUFFT_INVERSE;
    switch (type_of(d)) {
      case CUFFT_R2C:
        return check_cufft(
            cufftExecR2C(handle, static_cast<cufftReal*>(in), static_cast<cufftComplex*>(out)));
      case CUFFT_D2Z:
        return check_cufft(cufftExecD2Z(handle, static_cast<cufftDoubleReal*>(in),
                                        static_cast<cufftDoubleComplex*>(out)));
      case CUFFT_C2R:
        return check_cufft(
            cufftExecC2R(handle, static_cast<cufftComplex*>(in), static_cast<cufftReal*>(out)));
      case CUFFT_Z2D:
        return check_cufft(cufftExecZ2D(handle, static_cast<cufftDoubleComplex*>(in),
                                        static_cast<cufftDoubleReal*>(out)));
      case CUFFT_C2C:
        return check_cufft(cufftExecC2C(handle, static_cast<cufftComplex*>(in),
                                        static_cast<cufftComplex*>(out), direction));
      case CUFFT_Z2Z:
        return check_cufft(cufftExecZ2Z(handle, static_cast<cufftDoubleComplex*>(in),
                                        static_cast<cufftDoubleComplex*>(out), direction));
    }
  }

  template <class Real>
  void multiply(const fft_description& d, void* out, double scale) {
    const std::size_t numbers = output_type(d) == d.precision ? 1 : 2;
    cuda::check(static_cast<cudaError_t>(
        launch_scale(static_cast<Real*>(out), numbers * output_row(d.kind, d.length), d.batch,
                     numbers * d.output_distance, static_cast<Real>(scale), stream_.native())));
  }

  device_runtime& runtime_;
  stream_ref stream_;
  workspace work_area_;
  plan_cache<fft_description, fft_plan> plans_{plan_cache_capacity};
};

}  // namespace

std::unique_ptr<fft_library> make_cuda_fft_library(device_runtime& runtime, stream_ref stream) {
  return std::make_unique<cuda_fft_library>(runtime, stream);
}

}  // namespace sluice::actors
