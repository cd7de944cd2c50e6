// SPDX-License-Identifier: Apache-2.0
#include "operations/elementwise/host_loop.hpp"
#include "operations/elementwise/map_calls.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/resize_call.hpp"
#include "operations/elementwise/spectral_calls.hpp"

#include <type_traits>

namespace sluice::host {
namespace {

using namespace operations;

/// Decibels that compute the level of a reference once for all elements in a row that have it.
template <class Real>
class host_decibels : public map_function<Real> {
 public:
  static constexpr bool types_are_fixed = true;
  explicit host_decibels(const decibels<Real>& function) noexcept
      : function_(function), level_(function.level(reference_)) {}
  Real operator()(Real power, Real reference) const noexcept {
    if (reference != reference_) {
      reference_ = reference;
      level_ = function_.level(reference);
    }
    return larger(function_.level(power) - level_, function_.floor);
  }

 private:
  decibels<Real> function_;
  mutable Real reference_ = 1;
  mutable Real level_;
};

struct map_runner {
  template <class Body, int Operands>
  int operator()(const Body& body, const map_layout<Operands>& layout) const {
    for_each_position(layout, [&](const map_position<Operands>& at) { body(layout, at); });
    return 0;
  }
  template <class Real>
  int operator()(const map_body<decibels<Real>, 3>& body, const map_layout<3>& layout) const {
    return (*this)(
        map_body<host_decibels<Real>, 3>{host_decibels<Real>(body.function), body.at_addresses},
        layout);
  }
  /// f32 without gaps, which the compiler vectorizes.
  template <class Functor>
  int operator()(const map_body<binary_function<Functor, float>, 3>& body,
                 const map_layout<3>& layout) const {
    if (!layout.is_flat(storage::f32)) return run<3>(body, layout);
    const auto* const a = static_cast<const float*>(body.at_addresses.inputs[0]);
    const auto* const b = static_cast<const float*>(body.at_addresses.inputs[1]);
    auto* const y = static_cast<float*>(body.at_addresses.y);
    for (std::int64_t i = 0; i < layout.count; ++i) y[i] = body.function(a[i], b[i]);
    return 0;
  }

 private:
  template <int Operands, class Body>
  static int run(const Body& body, const map_layout<Operands>& layout) {
    for_each_position(layout, [&](const map_position<Operands>& at) { body(layout, at); });
    return 0;
  }
};

}  // namespace

template <class Call>
void compute_map(const Call& call, const map_addresses& addresses) {
  (void)visit(call, addresses, map_runner{});
}

template void compute_map(const cast_call&, const map_addresses&);
template void compute_map(const copy_call&, const map_addresses&);
template void compute_map(const affine_call&, const map_addresses&);
template void compute_map(const scale_call&, const map_addresses&);
template void compute_map(const binary_call&, const map_addresses&);
template void compute_map(const power_call&, const map_addresses&);
template void compute_map(const decibel_call&, const map_addresses&);
template void compute_map(const frames_call&, const map_addresses&);
template void compute_map(const resize_call&, const map_addresses&);

}  // namespace sluice::host
