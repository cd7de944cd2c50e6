// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/blocks/block_record.hpp"

#include <memory>

namespace sluice::detail {

class reclaim_thread;

/// A work item that the reclaim thread destroys once `ready()` returns true.
///
/// It holds a share of the core, so this also works after the runtime's end. Everything that its
/// destruction needs is allocated when it is constructed.
class deferred {
 public:
  deferred() = default;
  deferred(const deferred&) = delete;
  deferred& operator=(const deferred&) = delete;
  virtual ~deferred() = default;

 private:
  friend class reclaim_thread;
  friend class runtime_core;

  /// Whether it may be destroyed now. Called on the reclaim thread, also after the loss of the
  /// device.
  [[nodiscard]] virtual bool ready(reclaim_thread& reclaimer) noexcept = 0;
  [[nodiscard]] virtual bool is_import() const noexcept { return false; }
  /// Whether the end of a runtime waits for its destruction, within the timeout, before it frees
  /// the blocks.
  [[nodiscard]] virtual bool ends_first() const noexcept { return false; }

  std::shared_ptr<runtime_core> core_;
  deferred* next_ = nullptr;
};

/// Memory of another library that the runtime keeps. Its destructor returns the memory to its
/// producer.
///
/// The reclaim thread destroys it, because a producer's deleter may run any code. A DLPack deleter
/// may wait for a lock of Python.
class foreign_memory : public deferred {
 private:
  friend class runtime_core;

  [[nodiscard]] bool ready(reclaim_thread& reclaimer) noexcept final;
  [[nodiscard]] bool is_import() const noexcept final { return true; }

  use_state uses_;  // the uses it waits for
};

}  // namespace sluice::detail
