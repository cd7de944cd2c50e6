// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/worker_channel.hpp"
#include "service/base/spin_wait.hpp"
#include "service/base/wake_event.hpp"
#include "service/front/control_socket.hpp"
#include "service/worker/device_check.hpp"
#include "service/worker/model_loader.hpp"
#include "service/worker/reply_sender.hpp"
#include "service/worker/request_registry.hpp"
#include "service/worker/warm_up_runs.hpp"
#include "service/worker/worker_lanes.hpp"
#include "service/worker/worker_models.hpp"

#include <sluice/envelope/device_service.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace sluice::service {

/// The work of a worker process, on one thread: requests of the front go to the executors of a
/// device, and the orders of the front are obeyed.
///
/// Orders and their answers are JSON messages of the control socket:
///
///     {"load": 7, "name": "classifier", "source": {"path": "..."}, "lanes": 1, "precision": "f16",
///      "warm_ups": [{"name": "one", "count": 1, "inputs": [
///          {"name": "x", "datatype": "FP32", "shape": [1, 3], "random": false}]}]}
///     {"loaded": 7, "inputs": [...], "outputs": [...]} or {"refused": 7, "problem": "..."}
///     {"unload": 7}   a model that has no answer yet gets none
///     {"check": 3}    the device computes; answered with {"checked": 3} once it has
///
/// The source of a chain has the names of its inputs and outputs, and its steps:
///
///     {"inputs": ["page"], "outputs": ["text"],
///      "steps": [{"name": "0 (reader)", "path": "...", "inputs": {"x": "page"},
///                 "outputs": {"y": "text"}}]}
class worker_loop {
 public:
  worker_loop(worker_channel& channel, control_socket& control,
              std::shared_ptr<device_service> service);
  worker_loop(const worker_loop&) = delete;
  worker_loop& operator=(const worker_loop&) = delete;

  /// Works until the front has closed the control socket.
  /// @throws std::runtime_error if the front has sent something else than an order
  /// @throws std::system_error if the kernel refuses
  void run();

 private:
  /// Takes what there is. Returns whether there was something.
  [[nodiscard]] bool work();
  [[nodiscard]] bool take_requests();
  [[nodiscard]] bool take_orders();
  void obey(const nlohmann::json& order);
  /// Models are loaded one after the other, so that the front knows which one a worker was loading
  /// at its death.
  ///@{
  void load_next();
  void serve(loaded_model&& loaded);
  void answer(std::uint32_t handle, const nlohmann::json& message);
  void end_load();
  ///@}
  void send(const nlohmann::json& message);
  void sleep();

  worker_channel& channel_;
  control_socket& control_;
  const std::shared_ptr<wake_event> wake_ = std::make_shared<wake_event>();
  reply_sender replies_;
  request_registry registry_;
  const std::shared_ptr<device_service> service_;
  std::size_t requests_at_hand_ = 0;
  unsigned turns_without_orders_ = 0;
  bool has_unsent_answers_ = false;
  worker_lanes lanes_;
  worker_models models_;
  std::deque<load_order> load_orders_;
  std::optional<std::uint32_t> loading_;
  model_loader loader_;
  warm_up_runs warm_ups_{models_, wake_};
  device_check check_{service_, wake_};
  std::vector<run_message> requests_;
  std::vector<std::uint64_t> cancellations_;
  spin_wait wait_{};
};

}  // namespace sluice::service
