// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/model_backend.hpp"
#include "service/front/queries.hpp"
#include "service/front/request_router.hpp"

namespace sluice::service {

/// The paths of the Open Inference Protocol.
class inference_router final : public request_router {
 public:
  /// The backend outlives the router.
  explicit inference_router(const model_backend& backend) noexcept : backend_(backend) {}

  [[nodiscard]] route find(std::string_view path) const override { return find_route(path); }
  [[nodiscard]] http_reply answer(const route& query) const override {
    return answer_query(query, backend_);
  }

 private:
  const model_backend& backend_;
};

}  // namespace sluice::service
