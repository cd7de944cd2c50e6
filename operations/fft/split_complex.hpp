// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sluice::operations {

/// Complex numbers with real and imaginary parts apart.
template <class T>
struct split_complex {
  T* re;
  T* im;

  /// The numbers i · conj(z). With them in place of z, a forward transform is an inverse one.
  [[nodiscard]] split_complex swapped() const noexcept { return {im, re}; }
};

/// The memory of split complex numbers, which begin at whole cache lines.
template <class T>
class split_buffer {
 public:
  /// The numbers are 0.
  explicit split_buffer(std::size_t count) : memory_(2 * part(count) + line), part_(part(count)) {
    const auto past_line = reinterpret_cast<std::uintptr_t>(memory_.data()) % line_bytes;
    offset_ = (line_bytes - past_line) % line_bytes / sizeof(T);
  }
  [[nodiscard]] split_complex<T> get() noexcept {
    T* const first = memory_.data() + offset_;
    return {first, first + part_};
  }
  [[nodiscard]] split_complex<const T> get() const noexcept {
    const T* const first = memory_.data() + offset_;
    return {first, first + part_};
  }
  /// The size of a buffer.
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t count) noexcept {
    return (2 * part(count) + line) * sizeof(T);
  }
  /// The elements from one part to the other. They lie in other sets of a cache where the count is
  /// a power of two.
  [[nodiscard]] static constexpr std::size_t part(std::size_t count) noexcept {
    return (count + line - 1) / line * line + line;
  }

 private:
  static constexpr std::size_t line_bytes = 64;
  static constexpr std::size_t line = line_bytes / sizeof(T);

  std::vector<T> memory_;
  std::size_t part_;
  std::size_t offset_ = 0;
};

/// Scratch memory that is given out piece by piece. A piece is not initialised.
class scratch_memory {
 public:
  /// @param memory with at least `bytes` of the pieces and `slack` more, in bytes
  explicit scratch_memory(void* memory) noexcept
      : next_(reinterpret_cast<std::byte*>((reinterpret_cast<std::uintptr_t>(memory) + slack - 1) /
                                           slack * slack)) {}
  static constexpr std::size_t slack = 64;  // a cache line

  /// `count` numbers, which begin at whole cache lines.
  template <class T>
  [[nodiscard]] split_complex<T> take(std::size_t count) noexcept {
    T* const first = reinterpret_cast<T*>(next_);
    next_ += bytes<T>(count);
    return {first, first + split_buffer<T>::part(count)};
  }
  /// The size of a piece.
  template <class T>
  [[nodiscard]] static constexpr std::size_t bytes(std::size_t count) noexcept {
    return 2 * split_buffer<T>::part(count) * sizeof(T);
  }

 private:
  std::byte* next_;
};

}  // namespace sluice::operations
