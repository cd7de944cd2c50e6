// SPDX-License-Identifier: Apache-2.0
#include "tests/support/failing_allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocation_count = 0;
thread_local std::uint64_t until_failure = 0;
thread_local bool stays = false;  // later allocations fail, too
thread_local bool failing = false;
thread_local const std::function<void()>* before_failure = nullptr;

void fail_if_due() {
  ++allocation_count;
  if (!failing) {
    if (until_failure == 0 || --until_failure != 0) return;
    failing = stays;
    if (before_failure != nullptr) (*before_failure)();
  }
  throw std::bad_alloc();
}

void set(std::uint64_t nth, bool from_then_on, const std::function<void()>* also) noexcept {
  until_failure = nth;
  stays = from_then_on;
  failing = false;
  before_failure = also;
}

}  // namespace

namespace sluice::test {

void fail_allocation(std::uint64_t nth, const std::function<void()>* also) noexcept {
  set(nth, false, also);
}
void fail_allocations_from(std::uint64_t nth) noexcept {
  set(nth, true, nullptr);
}
bool allocation_is_to_fail() noexcept {
  return until_failure != 0;
}
std::uint64_t allocations_made() noexcept {
  return allocation_count;
}

}  // namespace sluice::test

// These replace the operators of the whole program.
void* operator new(std::size_t bytes) {
  fail_if_due();
  if (auto* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  fail_if_due();
  const auto unit = static_cast<std::size_t>(alignment);
  if (auto* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
// AddressSanitizer's arrays would not call the operators above.
void* operator new[](std::size_t bytes) {
  return ::operator new(bytes);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
