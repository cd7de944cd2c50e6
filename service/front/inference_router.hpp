// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/queries.hpp"
#include "service/front/region_registry.hpp"
#include "service/front/request_router.hpp"

namespace sluice::service {

/// The paths of the Open Inference Protocol.
class inference_router final : public request_router {
 public:
  /// The backend and the regions outlive the router.
  inference_router(const model_backend& backend, const region_registry& regions) noexcept
      : backend_(backend), regions_(regions) {}

  [[nodiscard]] route find(std::string_view path) const override { return find_route(path); }
  [[nodiscard]] http_reply answer(const route& query) const override {
    return answer_query(query, backend_, regions_);
  }

 private:
  const model_backend& backend_;
  const region_registry& regions_;
};

}  // namespace sluice::service
