#include "tests/runtime/failing_allocations.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t until_failure = 0;
thread_local const std::function<void()>* before_failure = nullptr;
}  // namespace

namespace sluice::test {

void fail_allocation(std::uint64_t nth, const std::function<void()>* also) noexcept {
  until_failure = nth;
  before_failure = also;
}
bool allocation_is_to_fail() noexcept {
  return until_failure != 0;
}

}  // namespace sluice::test

// Those of the whole program.
void* operator new(std::size_t bytes) {
  if (until_failure != 0 && --until_failure == 0) {
    if (before_failure != nullptr) (*before_failure)();
    throw std::bad_alloc();
  }
  if (auto* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
