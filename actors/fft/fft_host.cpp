// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/fft_libraries.hpp"
#include "actors/fft/host_transform.hpp"
#include "actors/plan_cache.hpp"

#include <sluice/runtime/host_task.hpp>

#include <algorithm>
#include <complex>
#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::actors {

namespace {

/// Runs on the stream's thread only, which is why it may own scratch memory.
class host_fft_plan : public fft_plan {
 public:
  using fft_plan::fft_plan;
  virtual void run(const void* in, void* out, double scale) const = 0;
};

template <class Real>
class complex_plan final : public host_fft_plan {
 public:
  explicit complex_plan(const fft_description& d)
      : host_fft_plan(d),
        transform_(make_host_transform<Real>(d.length, d.kind == fft_kind::c2c_forward ? -1 : 1)),
        row_(d.length) {}

  void run(const void* in, void* out, double scale) const override {
    const fft_description& d = description();
    const auto factor = static_cast<Real>(scale);
    for (std::size_t b = 0; b < d.batch; ++b) {
      const auto* source = static_cast<const std::complex<Real>*>(in) + b * d.input_distance;
      auto* target = static_cast<std::complex<Real>*>(out) + b * d.output_distance;
      if (in == out) {
        std::copy_n(source, d.length, row_.begin());
        source = row_.data();
      }
      (*transform_)(source, target);
      if (scale != 1) {
        for (std::size_t k = 0; k < d.length; ++k) target[k] *= factor;
      }
    }
  }

 private:
  std::unique_ptr<host_transform<Real>> transform_;
  mutable std::vector<std::complex<Real>> row_;
};

template <class Real>
class real_plan final : public host_fft_plan {
 public:
  explicit real_plan(const fft_description& d)
      : host_fft_plan(d), transform_(d.length, d.kind == fft_kind::r2c ? -1 : 1) {}

  void run(const void* in, void* out, double scale) const override {
    const fft_description& d = description();
    const auto factor = static_cast<Real>(scale);
    for (std::size_t b = 0; b < d.batch; ++b) {
      if (d.kind == fft_kind::r2c) {
        auto* target = static_cast<std::complex<Real>*>(out) + b * d.output_distance;
        transform_.forward(static_cast<const Real*>(in) + b * d.input_distance, target);
        if (scale != 1) {
          for (std::size_t k = 0; k <= d.length / 2; ++k) target[k] *= factor;
        }
      } else {
        auto* target = static_cast<Real*>(out) + b * d.output_distance;
        transform_.inverse(static_cast<const std::complex<Real>*>(in) + b * d.input_distance,
                           target);
        if (scale != 1) {
          for (std::size_t j = 0; j < d.length; ++j) target[j] *= factor;
        }
      }
    }
  }

 private:
  mutable host_real_transform<Real> transform_;
};

template <class Real>
[[nodiscard]] std::shared_ptr<const fft_plan> make_plan(const fft_description& d) {
  if (d.kind == fft_kind::r2c || d.kind == fft_kind::c2r) {
    return std::make_shared<real_plan<Real>>(d);
  }
  return std::make_shared<complex_plan<Real>>(d);
}

class host_fft_library final : public fft_library {
 public:
  explicit host_fft_library(stream_ref stream) : stream_(stream) {}

  std::shared_ptr<const fft_plan> prepare(const fft_description& description) override {
    const fft_description d = completed(description);
    return plans_.find_or_make(d, [&] {
      return d.precision == element_type::f32 ? make_plan<float>(d) : make_plan<double>(d);
    });
  }

  void execute(const fft_plan& plan, const void* in, void* out, double scale) override {
    require_executable(plan.description(), in, out, scale);
    if (plan.description().batch == 0) return;
    const auto* const host_plan = static_cast<const host_fft_plan*>(&plan);
    submit_host_task(stream_, [=] { host_plan->run(in, out, scale); });
  }

 private:
  stream_ref stream_;
  plan_cache<fft_description, fft_plan> plans_{plan_cache_capacity};
};

}  // namespace

std::unique_ptr<fft_library> make_host_fft_library(stream_ref stream) {
  return std::make_unique<host_fft_library>(stream);
}

}  // namespace sluice::actors
