// SPDX-License-Identifier: Apache-2.0
#include "service/front/queries.hpp"

#include "service/metrics/statistics_json.hpp"
#include "service/protocol/reply_json.hpp"
#include "service/repository/config_json.hpp"

#include <sluice/version.hpp>

#include <array>
#include <string>

namespace sluice::service {

std::span<const std::string_view> served_extensions(const region_registry& regions) {
  static constexpr std::array<std::string_view, 6> extensions{
      "binary_tensor_data", "model_configuration", "model_repository",
      "sequence",           "statistics",          "system_shared_memory"};
  return std::span(extensions).first(extensions.size() - (regions.is_enabled() ? 0 : 1));
}

http_reply answer_query(const route& query, const model_backend& backend,
                        const region_registry& regions) {
  switch (query.target) {
    case endpoint::server_metadata:
      return {.text = server_metadata_json("sluiced", sluice::version, served_extensions(regions))};
    case endpoint::server_live:
      return {.text = R"({"live":true})"};
    case endpoint::server_ready:
      if (!backend.is_ready()) {
        throw request_error(request_status::unavailable, "the server is not ready");
      }
      return {.text = R"({"ready":true})"};
    case endpoint::model_metadata:
      return {.text = model_metadata_json(backend.describe(query.model, query.version))};
    case endpoint::model_ready:
      (void)backend.describe(query.model, query.version);
      return {.text = R"({"ready":true})"};
    case endpoint::model_config:
      return {.text = config_json(backend.configuration(query.model, query.version))};
    case endpoint::model_statistics:
      return {.text = statistics_json(backend.status(), query.model, query.version)};
    default:
      break;
  }
  return make_error_reply(404, "there is no such path");
}

}  // namespace sluice::service
