// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace sluice::service {

/// The nearest FP16 value of a finite number; ties go to the even one. Numbers beyond the range
/// become infinite.
[[nodiscard]] std::uint16_t to_fp16(double value) noexcept;
/// The nearest BF16 value of a finite number; ties go to the even one. Numbers beyond the range
/// become infinite.
[[nodiscard]] std::uint16_t to_bf16(double value) noexcept;

/// The exact value of FP16 bits.
[[nodiscard]] float from_fp16(std::uint16_t bits) noexcept;
/// The exact value of BF16 bits.
[[nodiscard]] float from_bf16(std::uint16_t bits) noexcept;

}  // namespace sluice::service
