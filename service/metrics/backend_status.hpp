// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/metrics/model_statistics.hpp"
#include "service/protocol/repository_entry.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sluice::service {

/// A version of a model, and what it has done.
struct version_status {
  std::string model{};
  std::uint64_t version = 0;  ///< 0: the model has no version, because of the problem
  serving_state state = serving_state::unavailable;
  std::string problem{};                                 ///< why it is not served
  std::shared_ptr<const model_statistics> statistics{};  ///< null without a version
};

/// A place for worker processes, which follow each other.
struct worker_status {
  std::string device{};  ///< as the process names it; empty before
  int process = 0;       ///< 0: there is none now
  bool is_up = false;    ///< whether it gets requests and computes
  std::uint64_t restarts = 0;
  std::uint64_t runs_in_flight = 0;
  std::uint64_t request_bytes = 0;  ///< of its memory for inputs that are in use
};

/// What a backend serves, and by which processes.
struct backend_status {
  bool is_ready = false;
  std::vector<version_status> versions{};
  std::vector<worker_status> workers{};
  std::uint64_t request_capacity = 0;  ///< bytes of each worker for inputs
  // Requests that it has refused because no worker could take them, because a limit was reached, or
  // because they can never fit.
  std::uint64_t refused_without_worker = 0;
  std::uint64_t refused_memory = 0;
  std::uint64_t refused_in_flight = 0;
  std::uint64_t refused_size = 0;
  std::uint64_t refused_quarantine = 0;
};

}  // namespace sluice::service
