// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

/// The parameters of requests to load and unload models.
namespace sluice::service {

/// Refuses a parameter of a request to load a model: none is supported.
/// @throws request_error `unimplemented` if it brings a config or a file, else `invalid_argument`
[[noreturn]] void refuse_load_parameter(const std::string& name);

/// Checks a parameter of a request to unload a model. No model depends on another one, so
/// `unload_dependents` changes nothing.
/// @throws request_error `invalid_argument` if it is another parameter, or no Boolean
void check_unload_parameter(const std::string& name, bool is_boolean);

}  // namespace sluice::service
