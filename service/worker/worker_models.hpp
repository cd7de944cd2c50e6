// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/seam.hpp"
#include "service/arena/run_message.hpp"
#include "service/worker/model_loader.hpp"
#include "service/worker/reply_sender.hpp"
#include "service/worker/request_registry.hpp"
#include "service/worker/worker_lanes.hpp"
#include "service/worker/worker_request.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace sluice::service {

/// The models of a worker, by handle, and the requests for them. One thread calls the functions.
class worker_models {
 public:
  /// `wake` is signaled when `work` has to be called. The others live until the service has ended.
  worker_models(const std::shared_ptr<device_service>& service,
                const std::shared_ptr<wake_event>& wake, worker_lanes& lanes,
                worker_channel& channel, reply_sender& replies, request_registry& registry);

  /// Serves a model that has been read. Returns the message for the front: that the model is
  /// served, with its inputs and outputs, or why it is not.
  [[nodiscard]] nlohmann::json add(loaded_model&& loaded);
  /// Ends a model. Requests that have come are answered.
  void remove(std::uint32_t handle);
  /// Runs a model. The answer goes to the front.
  void run(const run_message& message) noexcept;
  /// Runs a model and drops the results. `done` is called once, by any thread, with nullptr or the
  /// error, whose text has no path. It must not throw or block.
  void warm_up(std::uint32_t handle, std::map<std::string, run_input> inputs,
               const std::function<void(const error*)>& done) noexcept;
  /// Has a request answered with `cancelled`, unless it has been answered.
  void cancel(std::uint64_t request) noexcept;
  /// Goes on with requests whose programs have been made.
  void work() noexcept { table_.work(); }

 private:
  struct served {
    std::vector<std::string> inputs{};
    std::vector<std::string> outputs{};
    std::shared_ptr<const model_facts> facts{};
    std::size_t lanes = 1;
  };

  [[nodiscard]] std::map<std::string, run_input> inputs_of(
      const run_message& message, const served& model,
      const std::shared_ptr<request_memory>& memory) const;
  void start(const run_message& message, const std::shared_ptr<request_memory>& memory);

  worker_lanes& lanes_;
  worker_channel& channel_;
  reply_sender& replies_;
  request_registry& registry_;
  std::unordered_map<std::uint32_t, served> served_;
  detail::model_table table_;
};

}  // namespace sluice::service
