// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/repository_parameters.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

namespace sluice::service {

void refuse_load_parameter(const std::string& name) {
  if (name == "config" || name.rfind("file:", 0) == 0) {
    throw request_error(request_status::unimplemented,
                        "the parameter " + quoted_name(name) +
                            " is not supported: a model is loaded from the repository alone");
  }
  throw request_error(request_status::invalid_argument,
                      "there is no parameter " + quoted_name(name));
}

void check_unload_parameter(const std::string& name, bool is_boolean) {
  if (name != "unload_dependents") {
    throw request_error(request_status::invalid_argument,
                        "there is no parameter " + quoted_name(name));
  }
  if (!is_boolean) {
    throw request_error(request_status::invalid_argument, "unload_dependents is no Boolean");
  }
}

}  // namespace sluice::service
