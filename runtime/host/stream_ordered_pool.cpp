// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/stream_ordered_pool.hpp"

#include "runtime/base/size_class.hpp"
#include "runtime/host/annotations.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <unistd.h>

namespace sluice::host {
namespace {

using detail::block_alignment;
using detail::size_class;

/// Blocks of this size and above lie in huge pages, where the system has them: otherwise a
/// processor waits for the translation of addresses about as long as for the memory itself.
constexpr std::size_t least_in_huge_pages = std::size_t{4} << 20U;
constexpr std::size_t huge_page = std::size_t{2} << 20U;

std::size_t physical_memory() noexcept {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// The allocation, as a write on the stream. A use on another stream that does not wait for it is a
/// data race with this task.
class allocation_task final : public host_task {
 public:
  explicit allocation_task(std::size_t bytes) noexcept : bytes_(bytes) {}
  /// Sets the address. Called before the task is submitted.
  void allocated(void* address) noexcept { address_ = address; }
  void run(host_stream&) override { annotate_write(address_, bytes_); }

 private:
  void* address_ = nullptr;
  std::size_t bytes_;
};

}  // namespace

void* allocate_aligned(std::size_t bytes) {
  void* address = nullptr;
  // Linux would grant more memory than exists, and kill the process when it is touched.
  if (bytes <= physical_memory()) {
    const bool is_large = bytes >= least_in_huge_pages;
    const auto size = (bytes + block_alignment - 1) / block_alignment * block_alignment;
    // Unlike `aligned_alloc`, it takes sizes that are no multiples of the alignment.
    const auto alignment = is_large ? huge_page : block_alignment;
    if (posix_memalign(&address, alignment, size) != 0) address = nullptr;
#if defined(MADV_HUGEPAGE)
    // Without huge pages, the memory stays as it is.
    if (is_large && address != nullptr) (void)madvise(address, size, MADV_HUGEPAGE);
#endif
  }
  if (address == nullptr) {
    throw error(errc::out_of_memory,
                "host device: out of memory: " + std::to_string(bytes) + " bytes");
  }
  return address;
}

void deallocate_aligned(void* address) noexcept {
  std::free(address);
}

stream_ordered_pool::~stream_ordered_pool() {
  for (auto& [bytes, blocks] : free_) {
    for (auto& b : blocks) deallocate_aligned(b.address);
  }
  for (auto& [address, bytes] : blocks_in_use_) deallocate_aligned(address);
}

void* stream_ordered_pool::take(std::size_t bytes, const host_stream& stream) {
  const auto bin = free_.find(bytes);
  if (bin == free_.end()) return nullptr;
  auto& blocks = bin->second;
  const auto freed_here = [&](const block& b) {
    return b.stream == &stream;
  };
  // Blocks that other streams cannot use yet are taken first: the budget relies on it.
  auto b = std::find_if(blocks.rbegin(), blocks.rend(), freed_here);
  if (b == blocks.rend()) {
    // For a block freed on another stream, the completed free replaces a wait.
    b = std::find_if(blocks.rbegin(), blocks.rend(), [](const block& f) { return f.reached(); });
  }
  if (b == blocks.rend()) return nullptr;
  void* const address = b->address;
  *b = std::move(blocks.back());
  blocks.pop_back();
  return address;
}

void* stream_ordered_pool::allocate(std::size_t bytes, host_stream& stream) {
  // For sizes beyond the physical memory, rounding may overflow.
  const auto size = bytes <= physical_memory() ? size_class(bytes) : bytes;
  const std::lock_guard lock(mutex_);
  // Everything that may throw precedes `take`, because work before the free may still use the block
  // that it returns, so that block could not be returned to the system.
  auto entry = blocks_in_use_.extract(blocks_in_use_.emplace(nullptr, size).first);
  std::unique_ptr<allocation_task> begin;
  if constexpr (thread_sanitizer_on) begin = std::make_unique<allocation_task>(size);
  void* address = take(size, stream);
  if (address == nullptr) {
    try {
      address = allocate_aligned(size);
    } catch (const error&) {
      if (size > physical_memory()) throw;  // freeing memory would not help
      (void)give_back();
      address = allocate_aligned(size);
    }
    bytes_ += size;
  }
  entry.key() = address;
  blocks_in_use_.insert(std::move(entry));  // allocates nothing: the table was large enough
  if constexpr (thread_sanitizer_on) {
    begin->allocated(address);
    stream.submit(begin.release());
  }
  return address;
}

void stream_ordered_pool::deallocate(void* address, host_stream& stream) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = blocks_in_use_.find(address);
  if (entry == blocks_in_use_.end()) return;
  const auto bytes = entry->second;
  try {
    auto flag = std::make_shared<std::atomic<bool>>(false);
    auto release = [address, bytes, flag] {
      annotate_write(address, bytes);
      flag->store(true, std::memory_order_release);
    };
    auto task = std::make_unique<function_task<decltype(release)>>(std::move(release));
    free_[bytes].push_back({address, bytes, &stream, flag});
    stream.submit(task.release());
    blocks_in_use_.erase(entry);
  } catch (const std::bad_alloc&) {
    // The block stays in `blocks_in_use_` until the pool is destroyed: lost, but never reused while
    // in use.
  }
}

void stream_ordered_pool::deallocate_finished(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  const auto entry = blocks_in_use_.find(address);
  if (entry == blocks_in_use_.end()) return;
  const auto bytes = entry->second;
  annotate_write(address, bytes);  // an unfinished use races with this
  blocks_in_use_.erase(entry);
  try {
    free_[bytes].push_back({address, bytes, nullptr, nullptr});
  } catch (const std::bad_alloc&) {
    deallocate_aligned(address);
    bytes_ -= bytes;
  }
}

std::size_t stream_ordered_pool::bytes() const noexcept {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

std::size_t stream_ordered_pool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  return give_back();
}

std::size_t stream_ordered_pool::give_back() noexcept {
  std::size_t total = 0;
  for (auto& [bytes, blocks] : free_) {
    total += bytes * std::erase_if(blocks, [](const block& b) {
               if (!b.reached()) return false;
               deallocate_aligned(b.address);
               return true;
             });
  }
  bytes_ -= total;
  return total;
}

}  // namespace sluice::host
