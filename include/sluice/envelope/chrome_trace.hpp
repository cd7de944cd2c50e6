#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace sluice {

/// Collects launches and writes them as a Chrome/Perfetto trace (JSON, "Trace Event Format"), to be
/// opened in ui.perfetto.dev or chrome://tracing. Each stream is a track of its own with a slice
/// per launch, from its enqueueing (or the end of the launch before it) to the moment its
/// completion was known; the host's enqueueing calls are slices of the launching threads.
///
/// The buffer is bounded and made at construction: hooks take no lock and allocate nothing.
/// Launches beyond `capacity` are counted and left out.
class chrome_trace final : public kernel_trace {
 public:
  /// Records up to `capacity` launches. @throws std::bad_alloc
  explicit chrome_trace(std::size_t capacity = 65'536);
  ~chrome_trace() override;

  void before_enqueue(const kernel_info& info) override;
  void after_enqueue(const kernel_info& info, const error* failure) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;

  /// The trace as JSON: the launches that have completed by now. Any thread, at any time.
  [[nodiscard]] std::string json() const;
  /// Launches that found the buffer full.
  [[nodiscard]] std::uint64_t left_out() const noexcept;

 private:
  struct buffer;
  std::unique_ptr<buffer> buffer_;
};

}  // namespace sluice
