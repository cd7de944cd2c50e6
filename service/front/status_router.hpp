// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/http_server.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/request_router.hpp"

namespace sluice::service {

/// The paths of the metrics port: `/metrics` for Prometheus, and the status page with what it
/// loads.
class status_router final : public request_router {
 public:
  /// Shows a backend and the server of its clients, which outlive the router.
  status_router(const model_backend& backend, const http_server& clients) noexcept
      : backend_(backend), clients_(clients) {}

  [[nodiscard]] route find(std::string_view path) const override;
  [[nodiscard]] http_reply answer(const route& query) const override;

 private:
  const model_backend& backend_;
  const http_server& clients_;
};

}  // namespace sluice::service
