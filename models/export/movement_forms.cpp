// SPDX-License-Identifier: Apache-2.0
#include "models/export/operation_form.hpp"

namespace sluice::models {

std::vector<operation_form> movement_forms() {
  return forms_of(movement_operations());
}

}  // namespace sluice::models
