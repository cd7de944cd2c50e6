// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/mutation.hpp"

#include <sluice/operations/scalar.hpp>

#include <complex>
#include <limits>
#include <string>

namespace sluice::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

/// Adds numbers that are not finite.
template <class Operation, class Scalar>
void add_not_finite(mutations_of<Operation>& mutations, const std::string& name,
                    Scalar Operation::*member) {
  mutations.value(member, name + " is NaN", name, scalar(nan));
  mutations.value(member, name + " is infinite", name, scalar(infinity));
  mutations.value(member, name + " is minus infinity", name, scalar(-infinity));
  mutations.value(member, name + " is i NaN", name, scalar(std::complex<double>(1, nan)));
}
/// Adds numbers that are not real.
template <class Operation, class Scalar>
void add_not_real(mutations_of<Operation>& mutations, const std::string& name,
                  Scalar Operation::*member) {
  mutations.value(member, name + " is i", name, scalar(std::complex<double>(0, 1)));
  mutations.value(member, name + " is nearly real", name, scalar(std::complex<double>(1, 1e-300)));
}
/// Adds numbers that are no integer from 0 to 2^64 - 1.
template <class Operation>
void add_no_word(mutations_of<Operation>& mutations, const std::string& name,
                 scalar Operation::*member) {
  add_not_finite(mutations, name, member);
  add_not_real(mutations, name, member);
  mutations.value(member, name + " is negative", name, scalar(-1));
  mutations.value(member, name + " is -2^63", name, scalar(least));
  mutations.value(member, name + " is a fraction", name, scalar(0.5));
  mutations.value(member, name + " is 1e300", name, scalar(1e300));
}

}  // namespace sluice::test
