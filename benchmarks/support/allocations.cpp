// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/support/allocations.hpp"

#include <cstdlib>
#include <new>

namespace {

thread_local std::uint64_t allocations = 0;

}  // namespace

std::uint64_t sluice::bench::allocations_of_this_thread() noexcept {
  return allocations;
}

// These replace the functions also for the libraries of the program. All other forms call them.
void* operator new(std::size_t bytes) {
  ++allocations;
  if (auto* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  ++allocations;
  const auto step = static_cast<std::size_t>(alignment);
  if (auto* memory = std::aligned_alloc(step, (bytes / step + 1) * step)) return memory;
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
