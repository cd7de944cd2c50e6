// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/statistics_selection.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <string>

namespace sluice::service {

std::vector<const version_status*> select_statistics(const backend_status& backend,
                                                     std::string_view model,
                                                     std::string_view version) {
  std::vector<const version_status*> selected;
  bool is_known = model.empty();
  for (const auto& each : backend.versions) {
    if (!model.empty() && each.model != model) continue;
    if (!version.empty() && (!each.statistics || std::to_string(each.version) != version)) continue;
    is_known = true;
    if (each.statistics) selected.push_back(&each);
  }
  if (!is_known) {
    auto text = "there is no model " + quoted_name(model);
    if (!version.empty()) text += " with the version " + quoted_name(version);
    throw request_error(request_status::not_found, text);
  }
  return selected;
}

}  // namespace sluice::service
