// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>

namespace sluice::service {

/// The bytes that came from a client and are not used yet, in memory of a fixed size.
///
/// Bytes may be consumed while a read into `prepare()` is in flight: only `prepare` moves bytes.
class read_buffer {
 public:
  explicit read_buffer(std::size_t capacity)
      : memory_(new std::byte[capacity]), capacity_(capacity) {}

  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept {
    return {memory_.get() + begin_, size()};
  }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(memory_.get() + begin_), size()};
  }
  void consume(std::size_t bytes) noexcept { begin_ += bytes; }

  /// The room for further bytes. Moves those that are there to the front.
  [[nodiscard]] std::span<std::byte> prepare() noexcept {
    if (begin_ > 0) {
      std::memmove(memory_.get(), memory_.get() + begin_, size());
      end_ -= begin_;
      begin_ = 0;
    }
    return {memory_.get() + end_, capacity_ - end_};
  }
  /// Adds the first `bytes` of the room that `prepare` returned last.
  void commit(std::size_t bytes) noexcept { end_ += bytes; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace sluice::service
