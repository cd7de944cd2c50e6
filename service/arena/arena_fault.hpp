// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace sluice::service {

/// The peer has written something into the shared memory that it must not write.
///
/// The front takes it as a reason to kill the worker.
class arena_fault : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace sluice::service
