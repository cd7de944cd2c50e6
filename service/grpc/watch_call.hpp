// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/grpc_context.hpp"
#include "service/grpc/query_messages.hpp"
#include "service/grpc/streaming_call.hpp"

#include <mutex>
#include <optional>
#include <string_view>

namespace sluice::service {

/// The status of a service; nothing if there is none with this name.
[[nodiscard]] std::optional<serving_status> health_of(std::string_view service,
                                                      const model_backend& backend);

/// A call of `Watch` of `grpc.health.v1`, which sends the status of a service and each change.
class watch_call final : public streaming_call {
 public:
  watch_call(grpc_context& context, grpc::CallbackServerContext& call)
      : streaming_call(context.sends, call, 1), context_(context) {}

  void note_health(bool is_ready) override;

 private:
  void receive(wire_reader message) override;
  void on_hang_up() noexcept override { end(); }
  void on_drain() noexcept override { end(); }
  void end() noexcept;

  grpc_context& context_;
  std::mutex mutex_{};
  std::optional<serving_status> last_{};  ///< that was sent; guarded by mutex_
  bool is_open_ = false;                  ///< whether the request was read; guarded by mutex_
  bool is_over_ = false;                  ///< guarded by mutex_
};

}  // namespace sluice::service
