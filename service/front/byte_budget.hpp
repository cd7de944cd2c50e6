// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

namespace sluice::service {

/// A limit of bytes that several threads share.
class byte_budget {
 public:
  explicit byte_budget(std::uint64_t limit) noexcept : limit_(limit) {}

  [[nodiscard]] bool try_take(std::uint64_t bytes) noexcept {
    std::uint64_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) {
        refusals_.fetch_add(1, std::memory_order_relaxed);
        return false;
      }
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void put_back(std::uint64_t bytes) noexcept { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  /// How often `try_take` has returned false.
  [[nodiscard]] std::uint64_t refusals() const noexcept {
    return refusals_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t used() const noexcept {
    return used_.load(std::memory_order_relaxed);
  }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_{0};
  std::atomic<std::uint64_t> refusals_{0};
};

/// Bytes of a budget that one user has taken. The destructor puts them back.
class byte_charge {
 public:
  explicit byte_charge(byte_budget& budget) noexcept : budget_(budget) {}
  byte_charge(const byte_charge&) = delete;
  byte_charge& operator=(const byte_charge&) = delete;
  ~byte_charge() { release(); }

  /// Takes more, so that `bytes` are taken. Changes nothing if the budget does not allow it.
  [[nodiscard]] bool try_grow_to(std::uint64_t bytes) noexcept {
    if (bytes <= bytes_) return true;
    if (!budget_.try_take(bytes - bytes_)) return false;
    bytes_ = bytes;
    return true;
  }
  void release() noexcept {
    budget_.put_back(bytes_);
    bytes_ = 0;
  }

 private:
  byte_budget& budget_;
  std::uint64_t bytes_ = 0;
};

}  // namespace sluice::service
