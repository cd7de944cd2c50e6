// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_libraries.hpp"
#include "actors/elementwise/functors.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_task.hpp>

#include <cstddef>

namespace sluice::actors {

namespace {

template <class T>
actors::power_to_decibel<T> functor_of(const decibel_options& options) {
  return {static_cast<T>(options.amin), static_cast<T>(-options.top_db)};
}

class host_elementwise_library final : public elementwise_library {
 public:
  explicit host_elementwise_library(stream_ref stream) : stream_(stream) {}

  void frame(element_type type, const frame_layout& layout, const void* signal, const void* window,
             void* out) override {
    require_real(type);
    if (frame_count(layout) == 0) return;
    type == element_type::f32 ? submit_frame<float>(layout, signal, window, out)
                              : submit_frame<double>(layout, signal, window, out);
  }

  void power(element_type type, std::size_t count, const void* in, void* out) override {
    require_real(type);
    if (count == 0) return;
    type == element_type::f32 ? submit_power<float>(count, in, out)
                              : submit_power<double>(count, in, out);
  }

  void maximum(element_type type, std::size_t count, const void* in, void* out) override {
    require_real(type);
    if (count == 0) throw error(errc::invalid_argument, "maximum: there are no elements");
    type == element_type::f32 ? submit_maximum<float>(count, in, out)
                              : submit_maximum<double>(count, in, out);
  }

  void power_to_decibel(element_type type, std::size_t count, const void* in, const void* reference,
                        const decibel_options& options, void* out) override {
    require_real(type);
    require_valid(type, options);
    if (count == 0) return;
    type == element_type::f32 ? submit_decibel<float>(count, in, reference, options, out)
                              : submit_decibel<double>(count, in, reference, options, out);
  }

 private:
  template <class T>
  void submit_frame(const frame_layout& layout, const void* signal, const void* window, void* out) {
    const windowed_frame<T> element{static_cast<const T*>(signal), static_cast<const T*>(window),
                                    layout.samples, layout.hop, layout.n_fft / 2};
    submit_host_task(stream_, [element, frames = frame_count(layout), n_fft = layout.n_fft,
                               target = static_cast<T*>(out)] {
      for (std::size_t f = 0; f < frames; ++f) {
        for (std::size_t j = 0; j < n_fft; ++j) target[f * n_fft + j] = element(f, j);
      }
    });
  }

  template <class T>
  void submit_power(std::size_t count, const void* in, void* out) {
    submit_host_task(stream_,
                     [count, z = static_cast<const T*>(in), target = static_cast<T*>(out)] {
                       const squared_magnitude<T> magnitude;
                       for (std::size_t i = 0; i < count; ++i) {
                         target[i] = magnitude(z[2 * i], z[2 * i + 1]);
                       }
                     });
  }

  template <class T>
  void submit_maximum(std::size_t count, const void* in, void* out) {
    submit_host_task(stream_,
                     [count, x = static_cast<const T*>(in), target = static_cast<T*>(out)] {
                       const larger<T> of;
                       T largest = of(x[0], x[0]);
                       for (std::size_t i = 1; i < count; ++i) largest = of(largest, x[i]);
                       *target = largest;
                     });
  }

  template <class T>
  void submit_decibel(std::size_t count, const void* in, const void* reference,
                      const decibel_options& options, void* out) {
    submit_host_task(stream_,
                     [count, decibel = functor_of<T>(options), x = static_cast<const T*>(in),
                      ref = static_cast<const T*>(reference), target = static_cast<T*>(out)] {
                       const T level = decibel.reference_level(*ref);
                       for (std::size_t i = 0; i < count; ++i) target[i] = decibel(x[i], level);
                     });
  }

  stream_ref stream_;
};

}  // namespace

std::unique_ptr<elementwise_library> make_host_elementwise_library(stream_ref stream) {
  return std::make_unique<host_elementwise_library>(stream);
}

}  // namespace sluice::actors
