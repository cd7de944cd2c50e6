// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/front_channel.hpp"
#include "service/base/file_descriptor.hpp"

#include <optional>
#include <string>
#include <vector>

namespace sluice::service {

/// The descriptors that a worker process begins with, besides those of standard input (empty),
/// output and errors. It has no others.
struct worker_descriptors {
  static constexpr int memory = 3;       ///< of the arena
  static constexpr int worker_wake = 4;  ///< the eventfd that wakes the worker
  static constexpr int front_wake = 5;   ///< the eventfd that wakes the front
  static constexpr int control = 6;      ///< for `control_socket`
};

/// A program to start as a worker.
struct worker_program {
  std::string path{};                      ///< of an executable file
  std::vector<std::string> arguments{};    ///< without the name of the program
  std::vector<std::string> environment{};  ///< "NAME=value", in addition to that of the front
  std::string device{};  ///< the name in metrics; empty: the one that the worker states
};

/// Has the kernel kill this process once the thread that started it has ended. For the main
/// function of a worker, which must also end when its control socket is closed: the front may have
/// ended before this call.
void end_with_front() noexcept;

/// A worker process.
///
/// It has a process group of its own, so that a Ctrl-C in a terminal reaches the front alone, and
/// begins with no signal blocked or ignored. Not thread-safe.
class worker_process {
 public:
  /// Starts the program with the descriptors of `worker_descriptors`. The calling thread must live
  /// as long as the front, because the worker dies with it.
  /// @throws std::system_error if the program cannot be started
  worker_process(const worker_program& program, const front_channel& channel,
                 const file_descriptor& control);
  worker_process(const worker_process&) = delete;
  worker_process& operator=(const worker_process&) = delete;
  /// Kills the process and waits at most a second for its end: a driver can keep a process for
  /// long. To see the end surely, wait until `end_descriptor` is readable first.
  ~worker_process();

  [[nodiscard]] int id() const noexcept { return id_; }
  /// A pidfd: it becomes readable when the process has ended, and only then does no process use
  /// the arena any more.
  [[nodiscard]] int end_descriptor() const noexcept { return end_.get(); }
  /// Kills the process. Does not wait for its end.
  void kill() noexcept;
  /// Frees the process number of an ended process and says how it ended, as in "exited with
  /// status 1" or "killed by signal 9 (Killed)". Nothing while the process runs.
  [[nodiscard]] std::optional<std::string> reap();
  /// Whether SIGKILL has ended the process, according to `reap`.
  [[nodiscard]] bool was_killed() const noexcept { return was_killed_; }

 private:
  int id_ = -1;
  file_descriptor end_{};
  std::optional<std::string> end_text_{};
  bool was_killed_ = false;
};

}  // namespace sluice::service
