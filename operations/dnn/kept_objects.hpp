// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace sluice::host {

/// Objects that take long to make, kept between uses. Each is used by one thread at a time.
/// Thread-safe.
template <class T>
class kept_objects {
 public:
  /// An object that nobody uses, or a new one: `make()`, of the type `std::unique_ptr<T>`.
  template <class Make>
  [[nodiscard]] std::unique_ptr<T> take(const Make& make) {
    {
      const std::scoped_lock lock(mutex_);
      if (!objects_.empty()) {
        auto object = std::move(objects_.back());
        objects_.pop_back();
        return object;
      }
    }
    return make();
  }
  /// Keeps an object for the next use.
  void keep(std::unique_ptr<T> object) {
    const std::scoped_lock lock(mutex_);
    objects_.push_back(std::move(object));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<T>> objects_;
};

}  // namespace sluice::host
