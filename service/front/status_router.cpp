// SPDX-License-Identifier: Apache-2.0
#include "service/front/status_router.hpp"

#include "service/front/http_error.hpp"
#include "service/metrics/metrics_text.hpp"
#include "service/metrics/status_files.hpp"
#include "service/metrics/status_json.hpp"

#include <string>
#include <utility>

namespace sluice::service {
namespace {

// The page loads its own script and style sheet, and nothing else.
constexpr std::string_view page_fields =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

[[nodiscard]] http_reply page_reply(std::string text,
                                    std::string_view content_type = http_reply().content_type) {
  return {.text = std::move(text), .content_type = content_type, .fields = page_fields};
}

}  // namespace

route status_router::find(std::string_view path) const {
  if (path == "/") return {.target = endpoint::status_page};
  if (path == "/status.js") return {.target = endpoint::status_script};
  if (path == "/status.css") return {.target = endpoint::status_style};
  if (path == "/status.json") return {.target = endpoint::status_data};
  if (path == "/metrics") return {.target = endpoint::metrics};
  throw http_error(404, "there is no such path");
}

http_reply status_router::answer(const route& query) const {
  switch (query.target) {
    case endpoint::status_page:
      return page_reply(std::string(status_file("status.html")), "text/html; charset=utf-8");
    case endpoint::status_script:
      return page_reply(std::string(status_file("status.js")), "text/javascript; charset=utf-8");
    case endpoint::status_style:
      return page_reply(std::string(status_file("status.css")), "text/css; charset=utf-8");
    case endpoint::status_data:
      return page_reply(status_json(backend_.status(), clients_.counts()));
    case endpoint::metrics:
      return page_reply(metrics_text(backend_.status(), clients_.counts()),
                        "text/plain; version=0.0.4; charset=utf-8");
    default:
      throw http_error(404, "there is no such path");
  }
}

}  // namespace sluice::service
