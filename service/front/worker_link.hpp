// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/front_channel.hpp"
#include "service/front/control_socket.hpp"
#include "service/front/oom_kills.hpp"
#include "service/front/worker_process.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace sluice::service {

class reply_watch;

/// A worker process and what the front shares with it.
struct worker_link {
  /// Starts the process.
  /// @throws std::system_error if it cannot be started
  worker_link(const worker_program& program, const arena_sizes& sizes)
      : worker_link(program, sizes, make_control_sockets()) {}

  front_channel channel;
  std::mutex receive_mutex{};  ///< one thread at a time calls `channel.receive`
  control_socket control;
  worker_process process;
  std::chrono::steady_clock::time_point start{};
  std::uint64_t oom_kills_at_start = count_oom_kills();
  // For the supervisor alone.
  std::optional<std::chrono::steady_clock::time_point> closed{};  ///< when its socket was closed
  bool is_faulty = false;                                         ///< whether it has been killed
  std::optional<std::chrono::steady_clock::time_point> killed{};
  std::shared_ptr<reply_watch> watch{};  ///< receives its replies; null: the supervisor does
  std::uint64_t checks = 0;              ///< that it has been asked to do
  bool check_is_due = false;             ///< whether the last one has no answer yet
  std::chrono::steady_clock::time_point last_check{};
  std::deque<std::uint32_t> loads{};   ///< handles that it has been asked to load, the next first
  std::atomic<bool> is_well{true};     ///< whether it answers checks in time
  std::atomic<bool> has_fault{false};  ///< whether it has broken a rule of its memory
  // Under the lock of the supervisor.
  /// Whether it gets requests: it has opened its device, and has not ended or been killed.
  bool is_open = false;
  bool is_in_trial = false;            ///< whether it runs one request, and others wait
  std::string device{};                ///< its name in metrics
  std::set<std::uint32_t> contents{};  ///< handles that it has loaded
  std::atomic<std::size_t> runs_in_flight{0};

 private:
  worker_link(const worker_program& program, const arena_sizes& sizes,
              std::pair<file_descriptor, file_descriptor> sockets)
      : channel(sizes),
        control(std::move(sockets.first)),
        process(program, channel, sockets.second) {}
};

}  // namespace sluice::service
