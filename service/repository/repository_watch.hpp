// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/repository/model_index.hpp"
#include "service/repository/model_repository.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace sluice::service {

/// One version of one model.
struct version_of_model {
  std::string model{};
  std::uint64_t version = 0;

  friend bool operator==(const version_of_model&, const version_of_model&) = default;
};

/// How the served versions change, in ascending order of models and versions. A version should be
/// unloaded after the loads of its model, so that the model is served all the time.
struct repository_changes {
  std::vector<version_of_model> loads{};
  std::vector<version_of_model> replaces{};  ///< the file or the config is another one
  std::vector<version_of_model> unloads{};
  /// Models whose `problem` is new or gone.
  std::vector<std::string> problems{};

  [[nodiscard]] bool empty() const noexcept {
    return loads.empty() && replaces.empty() && unloads.empty() && problems.empty();
  }
};

/// Notices changes of a repository by reading it from time to time.
///
/// The first call of `poll` takes the repository as it is. Later, a change of a model counts once
/// its config and all files of its versions have been the same for `settling_time`, so that a file
/// is not loaded while it is written. It counts at once if each file that differs is a new inode
/// that `precedes_its_inode`: it was complete before it was renamed into its place. What is removed
/// counts as well once it has been missing for that time.
///
/// A model that cannot be read any more, or whose config has become invalid, keeps its config and
/// its versions, and gets a `problem`. A write that changes neither size nor time is not noticed.
///
/// For one thread at a time. `poll` reads the disk, so it blocks while the disk does.
class repository_watch {
 public:
  using time_point = std::chrono::steady_clock::time_point;
  /// No shorter than the resolution of times in common file systems.
  static constexpr std::chrono::seconds settling_time{2};

  explicit repository_watch(model_repository repository);

  /// Reads the repository.
  /// @param now a time that never decreases from call to call
  /// @param requested models whose changes count at once, unless they are missing
  /// @throws repository_error if the repository cannot be read; then nothing has changed
  repository_changes poll(time_point now, const std::set<std::string>& requested = {});

  /// The models as of the changes that have counted. Null before the first poll.
  [[nodiscard]] std::shared_ptr<const model_index> index() const noexcept { return index_; }
  [[nodiscard]] const model_repository& repository() const noexcept { return repository_; }

 private:
  /// A change that does not count yet.
  struct pending {
    std::optional<indexed_model> model{};  ///< nothing: it is missing
    time_point since{};
  };

  /// Whether a change counts at `now`, which is otherwise remembered.
  [[nodiscard]] bool counts(const std::string& name, const indexed_model* before,
                            const indexed_model* after, time_point now);

  model_repository repository_;
  std::shared_ptr<const model_index> index_{};
  /// The models that have counted as they were read, without what they have kept.
  std::map<std::string, indexed_model, std::less<>> settled_{};
  std::map<std::string, pending, std::less<>> pending_{};
};

}  // namespace sluice::service
