// SPDX-License-Identifier: Apache-2.0
#pragma once

// Of the OpenMP library that oneDNN uses, if it uses one.
extern "C" {
void omp_set_num_threads(int) __attribute__((weak));
int omp_get_max_threads() __attribute__((weak));
}

namespace sluice::host {

/// While it exists, oneDNN computes on the calling thread alone. Threads of OpenMP would spin after
/// each call and take the processors from streams. A primitive keeps the number of threads with
/// which it was made.
///
/// The number of OpenMP's threads is a setting of the calling thread.
class single_thread_scope {
 public:
  single_thread_scope() noexcept {
    if (omp_set_num_threads == nullptr || omp_get_max_threads == nullptr) return;
    previous_ = omp_get_max_threads();
    omp_set_num_threads(1);
  }
  single_thread_scope(const single_thread_scope&) = delete;
  single_thread_scope& operator=(const single_thread_scope&) = delete;
  ~single_thread_scope() {
    if (previous_ != 0) omp_set_num_threads(previous_);
  }

 private:
  int previous_ = 0;
};

}  // namespace sluice::host
