// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_kernels.hpp"
#include "actors/elementwise/elementwise_libraries.hpp"
#include "actors/elementwise/functors.hpp"
#include "actors/workspace.hpp"
#include "runtime/cuda/check.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error.hpp>

namespace sluice::actors {

namespace {

void check(int status, source_location where = source_location::current()) {
  cuda::check(static_cast<cudaError_t>(status), where);
}

class cuda_elementwise_library final : public elementwise_library {
 public:
  cuda_elementwise_library(device_runtime& runtime, stream_ref stream)
      : stream_(stream), scratch_(runtime, stream, "elementwise reduction") {
    const current_device_scope current(stream_.device());
    check(load_elementwise_kernels());
    scratch_.require(maximum_scratch_bytes);
  }

  void frame(element_type type, const frame_layout& layout, const void* signal, const void* window,
             void* out) override {
    require_real(type);
    if (frame_count(layout) == 0) return;
    type == element_type::f32 ? run_frame<float>(layout, signal, window, out)
                              : run_frame<double>(layout, signal, window, out);
  }

  void power(element_type type, std::size_t count, const void* in, void* out) override {
    require_real(type);
    if (count == 0) return;
    const current_device_scope current(stream_.device());
    check(type == element_type::f32 ? launch_power(count, static_cast<const float*>(in),
                                                   static_cast<float*>(out), stream_.native())
                                    : launch_power(count, static_cast<const double*>(in),
                                                   static_cast<double*>(out), stream_.native()));
  }

  void maximum(element_type type, std::size_t count, const void* in, void* out) override {
    require_real(type);
    if (count == 0) throw error(errc::invalid_argument, "maximum: there are no elements");
    const current_device_scope current(stream_.device());
    check(type == element_type::f32
              ? launch_maximum(count, static_cast<const float*>(in), static_cast<float*>(out),
                               scratch_.address(), stream_.native())
              : launch_maximum(count, static_cast<const double*>(in), static_cast<double*>(out),
                               scratch_.address(), stream_.native()));
  }

  void power_to_decibel(element_type type, std::size_t count, const void* in, const void* reference,
                        const decibel_options& options, void* out) override {
    require_real(type);
    require_valid(type, options);
    if (count == 0) return;
    type == element_type::f32 ? run_decibel<float>(count, in, reference, options, out)
                              : run_decibel<double>(count, in, reference, options, out);
  }

 private:
  template <class T>
  void run_frame(const frame_layout& layout, const void* signal, const void* window, void* out) {
    const current_device_scope current(stream_.device());
    const windowed_frame<T> element{static_cast<const T*>(signal), static_cast<const T*>(window),
                                    layout.samples, layout.hop, layout.n_fft / 2};
    check(launch_frame(element, frame_count(layout), layout.n_fft, static_cast<T*>(out),
                       stream_.native()));
  }

  template <class T>
  void run_decibel(std::size_t count, const void* in, const void* reference,
                   const decibel_options& options, void* out) {
    const current_device_scope current(stream_.device());
    const actors::power_to_decibel<T> decibel{static_cast<T>(options.amin),
                                              static_cast<T>(-options.top_db)};
    check(launch_power_to_decibel(decibel, count, static_cast<const T*>(in),
                                  static_cast<const T*>(reference), static_cast<T*>(out),
                                  stream_.native()));
  }

  stream_ref stream_;
  workspace scratch_;
};

}  // namespace

std::unique_ptr<elementwise_library> make_cuda_elementwise_library(device_runtime& runtime,
                                                                   stream_ref stream) {
  return std::make_unique<cuda_elementwise_library>(runtime, stream);
}

}  // namespace sluice::actors
