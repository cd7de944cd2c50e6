// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/operation_descriptor.hpp>

#include <string_view>
#include <vector>

namespace sluice {

/// An operation of sluice, as documentation lists it.
struct operation_description {
  const operation_descriptor* descriptor = nullptr;  ///< name and libraries
  std::string_view result{};   ///< what it computes: "alpha · A · B + beta · C"
  std::string_view types{};    ///< element types: "f32, f64"
  std::string_view layouts{};  ///< layouts of the operands: "any strides"
};

/// All operations of sluice, by library.
[[nodiscard]] SLUICE_EXPORT std::vector<operation_description> describe_operations();

}  // namespace sluice
