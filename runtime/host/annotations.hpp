// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/base/sanitizers.hpp"

#include <sluice/export.hpp>

#include <cstddef>
#include <initializer_list>

#if defined(SLUICE_THREAD_SANITIZER)
extern "C" {
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

/// Announces the memory accesses of libraries without instrumentation to ThreadSanitizer, and
/// records which streams are inside a library call, and when parts of a launch begin and end.
namespace sluice::host {

#if defined(SLUICE_THREAD_SANITIZER)
inline constexpr bool thread_sanitizer_on = true;
#else
inline constexpr bool thread_sanitizer_on = false;
#endif

/// Records that the calling thread enters or leaves a library. No effect unless it is a stream's
/// thread.
void note_library_call(bool entered) noexcept;

/// Marks the current time for the trace of the current launch, as the begin or the end of a part of
/// its work. No effect unless the calling thread is that of a stream, and the launch has
/// timestamps.
void mark_time() noexcept;

/// Announces that the calling thread reads `bytes` bytes at `address`.
inline void annotate_read([[maybe_unused]] const void* address,
                          [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(SLUICE_THREAD_SANITIZER)
  if (bytes != 0) __tsan_read_range(const_cast<void*>(address), bytes);
#endif
}
inline void annotate_write([[maybe_unused]] void* address,
                           [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(SLUICE_THREAD_SANITIZER)
  if (bytes != 0) __tsan_write_range(address, bytes);
#endif
}

struct read_range {
  const void* address;
  std::size_t bytes;
};
struct write_range {
  void* address;
  std::size_t bytes;
};

/// The scope of one library call. Scopes may be nested. Before and after the call it announces the
/// ranges of the arguments, so that ThreadSanitizer reports a race with either end. It hides the
/// library's internal synchronization, which a GPU would not have.
///
///     const library_call_scope scope({{x, x_bytes}}, {{y, y_bytes}});
///     cblas_saxpy(n, a, x, 1, y, 1);
class library_call_scope {
 public:
  library_call_scope(std::initializer_list<read_range> reads,
                     std::initializer_list<write_range> writes) noexcept
      : reads_(reads), writes_(writes) {
    note_library_call(true);
    annotate();
#if defined(SLUICE_THREAD_SANITIZER)
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
  }
  library_call_scope(const library_call_scope&) = delete;
  library_call_scope& operator=(const library_call_scope&) = delete;
  ~library_call_scope() {
#if defined(SLUICE_THREAD_SANITIZER)
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
    annotate();
    note_library_call(false);
  }

 private:
  // The lists exist only until the end of the declaration, so their elements are copied.
  template <class Range>
  struct copied {
    copied(std::initializer_list<Range> list) noexcept {
      for (const auto& range : list) {
        if (count < capacity) items[count++] = range;
      }
    }
    static constexpr std::size_t capacity = 6;
    Range items[capacity]{};
    std::size_t count = 0;
  };
  copied<read_range> reads_;
  copied<write_range> writes_;

  void annotate() const noexcept {
    for (std::size_t i = 0; i < reads_.count; ++i)
      annotate_read(reads_.items[i].address, reads_.items[i].bytes);
    for (std::size_t i = 0; i < writes_.count; ++i)
      annotate_write(writes_.items[i].address, writes_.items[i].bytes);
  }
};

}  // namespace sluice::host
