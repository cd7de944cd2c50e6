#pragma once

#include "runtime/block_record.hpp"

#include <memory>

namespace sluice::detail {

/// Memory of somebody else's that the runtime keeps: destroying it gives it back to its producer.
/// That is done by the reclaim thread, since a producer may do anything then (DLPack: wait for a
/// Python lock). Whatever that needs is allocated when the memory comes in.
class foreign_memory {
 public:
  foreign_memory() = default;
  foreign_memory(const foreign_memory&) = delete;
  foreign_memory& operator=(const foreign_memory&) = delete;
  virtual ~foreign_memory() = default;

 private:
  friend class reclaim_thread;
  friend class runtime_core;

  use_state uses_;                      // what it waits for
  std::shared_ptr<runtime_core> core_;  // the reclaim thread's, which may outlive the runtime
  foreign_memory* next_ = nullptr;
};

}  // namespace sluice::detail
