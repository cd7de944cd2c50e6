// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_tensor.hpp>

#include <string>

namespace sluice::test {

/// How far numbers may be apart: |found - expected| <= absolute + relative · |expected|.
struct tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// Why a tensor is not the expected one; empty if it is. Integers and booleans must be equal, and
/// so must NaN and infinities. Two units in the last place of f16 and bf16 are allowed: the
/// expected numbers have been rounded after each step. The test runner of ONNX does so for bf16.
[[nodiscard]] std::string difference(const host_tensor& found, const host_tensor& expected,
                                     const tolerance& allowed);

}  // namespace sluice::test
