// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/core/foreign_memory.hpp"
#include "runtime/core/runtime_core.hpp"

#include <memory>
#include <utility>

namespace sluice::detail {

/// An object that the reclaim thread destroys, because its destructor may block in the driver.
/// Destroying a library handle synchronizes the whole device, which no lane and no completion may
/// wait for.
template <class Object>
class deferred_destruction final : public deferred {
 public:
  explicit deferred_destruction(Object object) : object_(std::move(object)) {}
  [[nodiscard]] Object& object() noexcept { return object_; }

 private:
  [[nodiscard]] bool ready(reclaim_thread&) noexcept override { return true; }
  [[nodiscard]] bool ends_first() const noexcept override { return true; }

  Object object_;
};

/// Shares `object`. The reclaim thread of `core` destroys it once the last copy is gone. Allocates
/// all memory for that now.
/// @throws std::bad_alloc; `object` has been destroyed then
template <class T>
[[nodiscard]] std::shared_ptr<T> share_with_deferred_destruction(std::shared_ptr<runtime_core> core,
                                                                 std::unique_ptr<T> object) {
  using holder = deferred_destruction<std::unique_ptr<T>>;
  auto owner = std::make_unique<holder>(std::move(object));
  auto* const address = owner->object().get();
  return {address, [core = std::move(core), owner = owner.release()](T*) {
            std::unique_ptr<holder> last(owner);
            // On the reclaim thread it is destroyed at once, which keeps the order: plans before
            // their lane's stream.
            if (!core->reclaims_here()) core->reclaim_later(std::move(last));
          }};
}

}  // namespace sluice::detail
