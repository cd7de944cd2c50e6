// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace sluice::service {

class streaming_call;

/// The open calls that do not end by themselves. Thread-safe.
class call_registry {
 public:
  void add(const std::shared_ptr<streaming_call>& call);
  /// Has all calls end once they have answered what they have received, also those that are added
  /// later.
  void drain();
  /// Tells all calls whether the server is ready.
  void note_health(bool is_ready);

 private:
  [[nodiscard]] std::vector<std::shared_ptr<streaming_call>> open_calls();

  std::mutex mutex_{};
  std::vector<std::weak_ptr<streaming_call>> calls_{};  ///< guarded by mutex_
  bool is_draining_ = false;                            ///< guarded by mutex_
};

}  // namespace sluice::service
