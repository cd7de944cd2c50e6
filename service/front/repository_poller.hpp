// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"
#include "service/repository/repository_watch.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {

/// A model that is to be looked at now.
struct repository_look {
  std::uint64_t number = 0;  ///< of the request
  std::string model{};
};

/// Changes of a repository, with the files that are to be loaded.
struct repository_news {
  struct model_files {
    /// One, or for a chain one for each step.
    std::vector<std::shared_ptr<const file_descriptor>> descriptors{};
    std::string problem{};  ///< why there are none
  };

  repository_changes changes{};
  std::shared_ptr<const model_index> index{};
  /// By model and version: those that have changed, and all versions of the models in `looks`.
  std::map<std::pair<std::string, std::uint64_t>, model_files> files{};
  std::vector<repository_look> looks{};  ///< which were asked for before the repository was read
  std::string problem{};                 ///< why the repository could not be read for them
};

/// Reads a repository on a thread of its own, because a disk may stall.
class repository_poller {
 public:
  /// Reads the repository once, and then after each `interval`. `wake` is called when there is
  /// news, by the thread.
  /// @throws repository_error if the repository cannot be read
  repository_poller(model_repository repository, std::chrono::milliseconds interval,
                    std::function<void()> wake);
  repository_poller(const repository_poller&) = delete;
  repository_poller& operator=(const repository_poller&) = delete;
  /// Waits for the disk if the thread does.
  ~repository_poller();

  /// Has the repository read now, where changes of this model count at once. The news tells. Any
  /// thread may call it.
  void look_at(repository_look look);
  /// The news since the last call, the oldest first. Any thread may call it.
  [[nodiscard]] std::vector<repository_news> take();

 private:
  void poll(std::vector<repository_look> looks);
  void open(const version_of_model& version, repository_news& news) const;
  void publish(repository_news news);
  void run(std::chrono::milliseconds interval) noexcept;

  repository_watch watch_;
  const std::function<void()> wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_closed_ = false;
  std::vector<repository_look> looks_;
  std::vector<repository_news> news_;
  std::thread thread_;
};

}  // namespace sluice::service
