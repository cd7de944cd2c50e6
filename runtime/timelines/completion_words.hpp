// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace sluice::detail {

/// Words of pinned memory to which streams write the tickets that they have reached, one word for
/// each stream.
///
/// A thread sees the word of an idle stream change about a microsecond before `cudaEventQuery`
/// tells it of an event behind the same work. Thread-safe.
class completion_words {
 public:
  using word = std::atomic<std::uint32_t>;

  explicit completion_words(device& owner) noexcept : device_(owner) {}
  completion_words(const completion_words&) = delete;
  completion_words& operator=(const completion_words&) = delete;
  /// The memory stays if a word has not been given back.
  ~completion_words();

  /// A word for a stream; nullptr if the device does better without one, after a refused write, or
  /// if there is no memory.
  [[nodiscard]] word* take() noexcept;
  /// All writes of the stream have landed.
  void give_back(word& unused) noexcept;
  /// States that the driver has refused a write: no stream writes words any more.
  void note_refused_write() noexcept { refused_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] bool refused() const noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  static constexpr std::size_t words_in_slab = 64;
  struct alignas(64) cell {
    word value{0};
  };
  /// @throws error as `device::allocate_staging`; std::bad_alloc
  void add_slab();

  [[nodiscard]] word* take_free() noexcept;

  device& device_;
  std::atomic<bool> refused_{false};
  std::mutex mutex_;
  std::vector<cell*> slabs_;
  std::vector<word*> free_;
};

}  // namespace sluice::detail
