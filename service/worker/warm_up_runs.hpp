// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/wake_event.hpp"
#include "service/worker/warm_up.hpp"
#include "service/worker/worker_models.hpp"

#include <sluice/runtime/error.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice::service {

/// Runs the warm-ups of models that have been loaded, one run at a time. One thread calls the
/// functions.
class warm_up_runs {
 public:
  /// The end of the warm-ups of a model.
  struct outcome {
    std::uint32_t handle = 0;
    nlohmann::json answer{};               ///< as given to `add`
    std::optional<std::string> problem{};  ///< why a run has failed
  };

  /// `wake` is signaled when `take` has to be called. `models` outlives this.
  warm_up_runs(worker_models& models, std::shared_ptr<wake_event> wake) noexcept
      : models_(models), wake_(std::move(wake)) {}

  /// Adds a model. `answer` is for the front after the runs.
  void add(std::uint32_t handle, nlohmann::json answer, std::vector<prepared_warm_up> warm_ups);
  /// Drops the warm-ups of a model, which has no outcome then.
  void remove(std::uint32_t handle);
  /// Goes on with the runs. A run for which memory is short counts as done. Returns the models
  /// whose warm-ups have ended.
  [[nodiscard]] std::vector<outcome> take();

 private:
  struct job {
    outcome result{};
    std::vector<prepared_warm_up> warm_ups{};
    std::size_t current = 0;
    std::uint64_t begun = 0;  // of its runs
  };
  /// The end of the current run, noted by any thread.
  struct run_end {
    std::mutex mutex{};
    bool is_there = false;
    std::optional<error> failure{};
  };

  /// Begins the next run of the first job. False if it has none left.
  [[nodiscard]] bool begin(job& first);

  worker_models& models_;
  const std::shared_ptr<wake_event> wake_;
  const std::shared_ptr<run_end> end_ = std::make_shared<run_end>();
  bool is_running_ = false;
  bool is_dropped_ = false;  // the model of the run has been removed
  std::deque<job> jobs_;
};

}  // namespace sluice::service
