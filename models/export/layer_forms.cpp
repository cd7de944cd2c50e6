// SPDX-License-Identifier: Apache-2.0
#include "models/export/operation_form.hpp"

namespace sluice::models {

std::vector<operation_form> layer_forms() {
  return forms_of(layer_operations());
}

}  // namespace sluice::models
