// SPDX-License-Identifier: Apache-2.0
#include "operations/fft/fft_functions.hpp"
#include "operations/fft/host_transform.hpp"

#include <algorithm>
#include <complex>
#include <cstddef>
#include <memory>
#include <vector>

namespace sluice::host {
namespace {

using operations::fft_call;
using operations::fft_kind;
using operations::fft_row;
using operations::host_real_transform;
using operations::host_transform;
using operations::make_host_transform;

/// The size of the plan of a row.
template <class Real>
std::size_t plan_bytes(const fft_row& row) {
  const auto length = static_cast<std::size_t>(row.length);
  // The factors of a larger length are not looked for: that could take minutes.
  constexpr auto largest = std::size_t{1} << 40U;
  if (length > largest) {
    return std::min(length, std::numeric_limits<std::size_t>::max() / 32) *
           sizeof(std::complex<double>);
  }
  if (row.kind == fft_kind::r2c || row.kind == fft_kind::c2r) {
    return host_real_transform<Real>::bytes(length);
  }
  return operations::host_transform_bytes<Real>(length) + length * sizeof(std::complex<Real>);
}

std::size_t plan_bytes(const fft_row& row) {
  return row.is_double != 0 ? plan_bytes<double>(row) : plan_bytes<float>(row);
}

/// A plan for any number of rows. Only one thread may run it at a time.
class rows_plan : public operation_plan {
 public:
  explicit rows_plan(const fft_row& row) : bytes_(plan_bytes(row)) {}
  virtual void run(const fft_call& call, const void* x, void* y) const = 0;
  std::size_t bytes() const noexcept final { return bytes_; }

 protected:
  /// Calls `row(source, target)` for each row, then scales it.
  template <class Source, class Target, class Row>
  static void for_each_row(const fft_call& call, const void* x, void* y, Row&& row) {
    using real = decltype(std::real(Target{}));
    const auto& key = call.key;
    for (std::int64_t b = 0; b < key.batch; ++b) {
      const auto* const source = static_cast<const Source*>(x) + b * key.input_distance;
      auto* const target = static_cast<Target*>(y) + b * key.output_distance;
      row(source, target);
      if (call.scale == 1) continue;
      for (std::int64_t i = 0; i < key.output_row(); ++i) {
        target[i] *= static_cast<real>(call.scale);
      }
    }
  }

 private:
  std::size_t bytes_;
};

template <class Real>
class complex_plan final : public rows_plan {
 public:
  using value = std::complex<Real>;
  explicit complex_plan(const fft_row& row)
      : rows_plan(row),
        transform_(make_host_transform<Real>(static_cast<std::size_t>(row.length),
                                             row.kind == fft_kind::c2c_forward ? -1 : 1)),
        row_(static_cast<std::size_t>(row.length)) {}

  void run(const fft_call& call, const void* x, void* y) const override {
    for_each_row<value, value>(call, x, y, [&](const value* source, value* target) {
      if (x == y) {
        std::copy_n(source, row_.size(), row_.begin());
        source = row_.data();
      }
      (*transform_)(source, target);
    });
  }

 private:
  std::unique_ptr<host_transform<Real>> transform_;
  mutable std::vector<value> row_;
};

template <class Real>
class real_plan final : public rows_plan {
 public:
  using value = std::complex<Real>;
  explicit real_plan(const fft_row& row)
      : rows_plan(row),
        transform_(static_cast<std::size_t>(row.length), row.kind == fft_kind::r2c ? -1 : 1) {}

  void run(const fft_call& call, const void* x, void* y) const override {
    if (call.key.kind == fft_kind::r2c) {
      for_each_row<Real, value>(call, x, y, [&](const Real* source, value* target) {
        transform_.forward(source, target);
      });
    } else {
      for_each_row<value, Real>(call, x, y, [&](const value* source, Real* target) {
        transform_.inverse(source, target);
      });
    }
  }

 private:
  mutable host_real_transform<Real> transform_;
};

template <class Real>
std::shared_ptr<const operation_plan> make_plan(const fft_row& row) {
  if (row.kind == fft_kind::r2c || row.kind == fft_kind::c2r) {
    return std::make_shared<real_plan<Real>>(row);
  }
  return std::make_shared<complex_plan<Real>>(row);
}

}  // namespace

plan_price price_of_fft_plan(const fft_call& call) {
  // Nearly all of it is for roots of unity, about 50 ns for each 16 bytes of the plan.
  constexpr double nanoseconds_of_byte = 3;
  const auto bytes = plan_bytes(call.host_key());
  return {bytes, nanoseconds_of_byte * static_cast<double>(bytes)};
}

std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries&, const fft_call& call) {
  const auto& row = call.host_key();
  return row.is_double != 0 ? make_plan<double>(row) : make_plan<float>(row);
}

void compute_fft(const fft_call& call, const operation_plan* plan, const void* x, void* y) {
  static_cast<const rows_plan*>(plan)->run(call, x, y);
}

}  // namespace sluice::host
