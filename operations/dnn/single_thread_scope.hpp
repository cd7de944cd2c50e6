// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/seam.hpp"

#if defined(SLUICE_THREAD_SANITIZER)
// Of the OpenMP library that oneDNN uses, if it uses one.
extern "C" {
void omp_set_num_threads(int) __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
}
#endif

namespace sluice::host {

/// ThreadSanitizer does not see how OpenMP's threads synchronize. In such builds, the calling
/// thread alone computes what it asks of oneDNN within this scope. A primitive keeps the number of
/// threads that it was made with. Nothing in other builds.
class single_thread_scope {
 public:
  single_thread_scope() noexcept {
#if defined(SLUICE_THREAD_SANITIZER)
    if (omp_set_num_threads != nullptr && omp_get_max_threads != nullptr) {
      previous_ = omp_get_max_threads();
      omp_set_num_threads(1);
    }
#endif
  }
  single_thread_scope(const single_thread_scope&) = delete;
  single_thread_scope& operator=(const single_thread_scope&) = delete;
  ~single_thread_scope() {
#if defined(SLUICE_THREAD_SANITIZER)
    if (previous_ != 0) omp_set_num_threads(previous_);
#endif
  }

#if defined(SLUICE_THREAD_SANITIZER)
 private:
  int previous_ = 0;
#endif
};

}  // namespace sluice::host
