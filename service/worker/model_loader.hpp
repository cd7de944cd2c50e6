// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"
#include "service/worker/load_source.hpp"
#include "service/worker/warm_up.hpp"

#include <sluice/operations/models.hpp>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service {

/// What to load.
struct load_order {
  std::uint32_t handle = 0;  ///< of the model, chosen by the front
  std::string name{};        ///< of the model, for errors
  load_source source{};
  model_options options{};  ///< of its programs
  std::size_t lanes = 1;    ///< launches of the model at the same time
  std::vector<warm_up_order> warm_ups{};
};

/// A model that has been read, or why it has not.
struct loaded_model {
  load_order order{};
  std::shared_ptr<const model_source> source{};
  std::vector<prepared_warm_up> warm_ups{};
  std::string problem{};  ///< instead of a source
};

/// Reads models on a thread of its own, so that requests do not wait for files. A model with a
/// node that sluice cannot compute for any inputs is refused. The thread reads
/// one model after the other. Its end waits for the model that is being read.
class model_loader {
 public:
  /// `wake` is signaled when a model has been read.
  explicit model_loader(std::shared_ptr<wake_event> wake);
  model_loader(const model_loader&) = delete;
  model_loader& operator=(const model_loader&) = delete;
  ~model_loader();

  void add(load_order order);
  /// The models that have been read since the last call.
  [[nodiscard]] std::vector<loaded_model> take();

 private:
  void run() noexcept;

  const std::shared_ptr<wake_event> wake_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<load_order> orders_;
  std::vector<loaded_model> loaded_;
  bool is_closed_ = false;
  std::thread thread_;
};

}  // namespace sluice::service
