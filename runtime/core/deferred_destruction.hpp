// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/foreign_memory.hpp"
#include "runtime/core/runtime_core.hpp"

#include <memory>
#include <utility>

namespace sluice::detail {

/// An object whose end may block in a driver (a library's handle: the libraries synchronise the
/// whole device then), ended by the reclaim thread: nothing that a lane or a completion waits for.
template <class Object>
class deferred_destruction final : public deferred {
 public:
  explicit deferred_destruction(Object object) : object_(std::move(object)) {}
  [[nodiscard]] Object& object() noexcept { return object_; }

 private:
  [[nodiscard]] bool ready(reclaim_thread&) noexcept override { return true; }
  [[nodiscard]] bool uses_blocks() const noexcept override { return true; }

  Object object_;
};

/// Shares `object`, which the reclaim thread of `core` ends when the last copy has gone. What that
/// takes is allocated now. @throws std::bad_alloc; then `object` has gone here
template <class T>
[[nodiscard]] std::shared_ptr<T> share_with_deferred_destruction(std::shared_ptr<runtime_core> core,
                                                                 std::unique_ptr<T> object) {
  using holder = deferred_destruction<std::unique_ptr<T>>;
  auto held = std::make_unique<holder>(std::move(object));
  auto* const address = held->object().get();
  return {address, [core = std::move(core), held = held.release()](T*) {
            std::unique_ptr<holder> last(held);
            // What goes with a library there goes in its order: a plan before the lane's stream.
            if (!core->reclaims_here()) core->reclaim_later(std::move(last));
          }};
}

}  // namespace sluice::detail
