// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/core/disk_cache.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace sluice::operations {

/// Which of several algorithms a library shall use, by a text that says all that the choice depends
/// on: the library and its version, the GPU, and the call.
///
/// A choice is final, so that all lanes of a process compute with the same algorithm. One that was
/// measured is also kept on disk, for later processes. Thread-safe.
class algorithm_choices {
 public:
  /// The largest number of choices in memory. Further calls have the algorithm number 0.
  static constexpr std::size_t max_choices = 16384;

  explicit algorithm_choices(disk_cache files) : files_(std::move(files)) {}
  /// The choices of the process, with the files of the user.
  [[nodiscard]] static algorithm_choices& of_process();

  /// The choice for `subject`, if there is one.
  [[nodiscard]] std::optional<std::uint32_t> find(const std::string& subject);
  /// Keeps a choice unless there is one. Returns the one that holds.
  std::uint32_t keep(const std::string& subject, std::uint32_t choice, bool is_measured);

 private:
  /// Adds a choice unless there is one. Returns the one that holds.
  [[nodiscard]] std::uint32_t insert(const std::string& subject, std::uint32_t choice);

  const disk_cache files_;
  std::mutex mutex_;
  std::map<std::string, std::uint32_t> choices_;
};

}  // namespace sluice::operations
