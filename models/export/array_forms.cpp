// SPDX-License-Identifier: Apache-2.0
#include "models/export/operation_form.hpp"

namespace sluice::models {

std::vector<operation_form> array_forms() {
  return forms_of(array_operations());
}

}  // namespace sluice::models
