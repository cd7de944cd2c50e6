// SPDX-License-Identifier: Apache-2.0
#include "service/front/queries.hpp"

#include "service/protocol/reply_json.hpp"
#include "service/repository/config_json.hpp"

#include <sluice/version.hpp>

#include <array>
#include <string>
#include <string_view>

namespace sluice::service {

http_reply answer_query(const route& query, const model_backend& backend) {
  constexpr std::array<std::string_view, 3> extensions{"binary_tensor_data", "model_configuration",
                                                       "model_repository"};
  switch (query.target) {
    case endpoint::server_metadata:
      return {.json = server_metadata_json("sluiced", sluice::version, extensions)};
    case endpoint::server_live:
      return {.json = R"({"live":true})"};
    case endpoint::server_ready:
      if (!backend.is_ready()) {
        throw request_error(request_status::unavailable, "the server is not ready");
      }
      return {.json = R"({"ready":true})"};
    case endpoint::model_metadata:
      return {.json = model_metadata_json(backend.describe(query.model, query.version))};
    case endpoint::model_ready:
      (void)backend.describe(query.model, query.version);
      return {.json = R"({"ready":true})"};
    case endpoint::model_config:
      return {.json = config_json(backend.configuration(query.model, query.version))};
    case endpoint::infer:
    case endpoint::repository_index:
    case endpoint::model_load:
    case endpoint::model_unload:
      break;
  }
  return make_error_reply(404, "there is no such path");
}

}  // namespace sluice::service
