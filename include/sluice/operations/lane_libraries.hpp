// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/algorithm_policy.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <typeindex>
#include <typeinfo>
#include <utility>

namespace sluice {

/// Which algorithms of libraries the plans of a lane take.
struct algorithm_selection {
  algorithm_policy policy = algorithm_policy::proposed;  ///< of the service
  /// Whether nothing of the service is in flight, so that algorithms may be tried now. Null: they
  /// are never tried, and only earlier choices are used.
  std::function<bool()> has_nothing_in_flight{};

  /// Whether algorithms may be tried now.
  [[nodiscard]] bool is_idle() const { return has_nothing_in_flight && has_nothing_in_flight(); }
};

/// The library objects of one lane: handles, workspaces and scratch memory, bound to its stream.
///
/// An object is made when it is first asked for, and destroyed after the lane's last launch. `get`
/// is thread-safe; the objects need not be. A thread that makes one keeps no other thread waiting.
class lane_libraries {
 public:
  /// The libraries of a lane with the stream `stream` of `runtime`.
  lane_libraries(device_runtime& runtime, stream_ref stream,
                 algorithm_selection algorithms = {}) noexcept
      : runtime_(runtime), stream_(stream), algorithms_(std::move(algorithms)) {}
  lane_libraries(const lane_libraries&) = delete;
  lane_libraries& operator=(const lane_libraries&) = delete;
  ~lane_libraries() = default;

  /// The lane's `Library`. It is made as `Library(device_runtime&, stream_ref)`, which may be slow.
  template <class Library>
  [[nodiscard]] Library& get() {
    const std::type_index type(typeid(Library));
    if (auto* const library = find(type)) return *static_cast<Library*>(library);
    return *static_cast<Library*>(add(type, std::make_shared<Library>(runtime_, stream_)));
  }
  /// The runtime of the lane.
  [[nodiscard]] device_runtime& runtime() const noexcept { return runtime_; }
  /// The stream of the lane.
  [[nodiscard]] stream_ref stream() const noexcept { return stream_; }
  /// Which algorithms plans take.
  [[nodiscard]] const algorithm_selection& algorithms() const noexcept { return algorithms_; }

 private:
  [[nodiscard]] void* find(std::type_index type) {
    const std::lock_guard lock(mutex_);
    const auto found = libraries_.find(type);
    return found == libraries_.end() ? nullptr : found->second.get();
  }
  /// Returns the object that another thread has added meanwhile, if there is one.
  [[nodiscard]] void* add(std::type_index type, std::shared_ptr<void> library) {
    const std::lock_guard lock(mutex_);
    return libraries_.try_emplace(type, std::move(library)).first->second.get();
  }

  device_runtime& runtime_;
  stream_ref stream_;
  const algorithm_selection algorithms_;
  std::mutex mutex_;
  std::map<std::type_index, std::shared_ptr<void>> libraries_;
};

}  // namespace sluice
