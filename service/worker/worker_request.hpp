// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/seam.hpp"
#include "service/worker/reply_sender.hpp"
#include "service/worker/request_registry.hpp"
#include "service/worker/worker_lanes.hpp"

#include <sluice/runtime/error.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::service {

/// What the answers to requests need to know of a model.
struct model_facts {
  std::vector<datatype> output_types{};  ///< as the model declares them
  std::string path{};                    ///< of its file; empty for a chain
};

/// The error for clients that stands for an error of sluice.
/// @param model  whose path is no concern of clients; may be nullptr
[[nodiscard]] request_error client_error(const error& failure, const model_facts* model);

/// The memory of the inputs of a request. All tensors in it share it, so its end means that nothing
/// reads the inputs any more. An error is sent then and not before: a launch whose deadline has
/// passed still reads its inputs, and the front uses their memory again after the reply.
class request_memory {
 public:
  request_memory(reply_sender& replies, request_registry& registry, std::uint64_t request,
                 request_sender sender)
      : replies_(replies), registry_(registry), request_(request) {
    registry_.add(request, sender);
  }
  request_memory(const request_memory&) = delete;
  request_memory& operator=(const request_memory&) = delete;
  ~request_memory() {
    registry_.remove(request_);
    if (failure_) replies_.send({.request = request_, .error = std::move(failure_)});
  }
  /// States the error. One thread calls it, once, and then drops its reference. The loss of the
  /// device is no answer: the process ends, and the front has another worker run the request.
  void fail(const error& failure, const model_facts* model) noexcept {
    if (failure.code() != errc::device_lost) failure_.emplace(client_error(failure, model));
  }
  void fail(request_error failure) noexcept { failure_.emplace(std::move(failure)); }

 private:
  reply_sender& replies_;
  request_registry& registry_;
  const std::uint64_t request_;
  std::optional<request_error> failure_{};
};

/// A request of the front, which an executor answers once its model has a program.
class worker_request final : public detail::model_request {
 public:
  struct destination {
    reply_sender* replies = nullptr;
    worker_lanes* lanes = nullptr;
    std::size_t lane_count = 1;            ///< of the model
    std::uint64_t request = 0;             ///< its number
    std::vector<std::uint32_t> numbers{};  ///< of its outputs in the model
    std::shared_ptr<const model_facts> model{};
    std::shared_ptr<request_memory> memory{};
    std::chrono::steady_clock::time_point receipt{};
  };

  worker_request(const request_options& request_options, request_sender client,
                 destination&& answer)
      : model_request(request_options, client, true), answer_(std::move(answer)) {}
  worker_request(const worker_request&) = delete;
  worker_request& operator=(const worker_request&) = delete;
  ~worker_request() override { drop(); }

 private:
  void pass_on(detail::model_run&& run) override;
  void send_error(const error& why) noexcept override;

  destination answer_;
};

}  // namespace sluice::service
