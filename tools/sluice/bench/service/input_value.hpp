// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/datatype.hpp"

#include <string>

namespace sluice::cli {

/// The bytes of an element of this type and value, as binary data has them.
/// @param option  begins the text of an error
/// @param text    a decimal number; 0 or 1 for BOOL. A floating-point element is the nearest value
/// @throws error `invalid_argument` if the type has no such number
[[nodiscard]] std::string element_bytes(const std::string& option, const std::string& text,
                                        service::datatype type);

}  // namespace sluice::cli
