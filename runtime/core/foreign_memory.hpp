// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/blocks/block_record.hpp"

#include <memory>

namespace sluice::detail {

class reclaim_thread;

/// Something that goes when it may, by the reclaim thread, which keeps asking; with a share of the
/// core, so also after the runtime's end. Whatever that needs is allocated when it is made.
class deferred {
 public:
  deferred() = default;
  deferred(const deferred&) = delete;
  deferred& operator=(const deferred&) = delete;
  virtual ~deferred() = default;

 private:
  friend class reclaim_thread;
  friend class runtime_core;

  /// Whether it may be destroyed now. Asked on the reclaim thread, also after the device's loss.
  [[nodiscard]] virtual bool ready(reclaim_thread& by) noexcept = 0;
  [[nodiscard]] virtual bool is_import() const noexcept { return false; }
  /// Whether it may use blocks until it has gone: a runtime's end waits for it before it takes them
  /// back, within its time.
  [[nodiscard]] virtual bool uses_blocks() const noexcept { return false; }

  std::shared_ptr<runtime_core> core_;
  deferred* next_ = nullptr;
};

/// Memory of somebody else's that the runtime keeps: destroying it gives it back to its producer.
/// That is done by the reclaim thread, since a producer may do anything then (DLPack: wait for a
/// Python lock).
class foreign_memory : public deferred {
 private:
  friend class runtime_core;

  [[nodiscard]] bool ready(reclaim_thread& by) noexcept final;
  [[nodiscard]] bool is_import() const noexcept final { return true; }

  use_state uses_;  // what it waits for
};

}  // namespace sluice::detail
