// SPDX-License-Identifier: Apache-2.0
// GPU streams write and poll words through the driver's stream memory operations (CUDA driver API,
// "Stream Memory Operations"), which occupy neither a multiprocessor nor the driver's thread for
// host functions.
#include "runtime/cuda/check.hpp"
#include "runtime/cuda/driver.hpp"
#include "tests/support/stream_words.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/error.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using stream_operation = CUresult(CUstream, CUdeviceptr, cuuint32_t, unsigned);

// Both functions take a stream, an address, a value and flags.
stream_operation* operation(const char* name) {
  auto* const found = cuda::find_driver_function(name);
  if (found == nullptr) {
    throw error(errc::unsupported, std::string("this driver has no ") + name);
  }
  return reinterpret_cast<stream_operation*>(found);
}

void queue(stream_operation* function, const char* name, stream_ref stream, stream_word& word) {
  const current_device_scope scope(stream.device());
  // Pinned memory has the same address on the device.
  const CUresult status = function(reinterpret_cast<CUstream>(stream.native()),
                                   reinterpret_cast<CUdeviceptr>(&word), 1, 0);
  if (status != CUDA_SUCCESS) {
    throw error(errc::library_failure, std::string(name) + " failed",
                {"CUDA driver", static_cast<long>(status)});
  }
}

static_assert(CU_STREAM_WAIT_VALUE_GEQ == 0 && CU_STREAM_WRITE_VALUE_DEFAULT == 0);

/// The memory of the words. It is freed when all tests have ended.
class word_pages final : public ::testing::Environment {
 public:
  stream_word* make_word() {
    // Enough for one program, so that nothing is allocated while a gate is closed.
    constexpr std::size_t words = 65'536;
    const std::lock_guard lock(mutex_);
    if (left_ == 0) {
      void* page = nullptr;
      cuda::check(cudaHostAlloc(&page, words * sizeof(stream_word), cudaHostAllocPortable));
      pages_.push_back(page);
      next_ = static_cast<stream_word*>(page);
      left_ = words;
    }
    --left_;
    return ::new (static_cast<void*>(next_++)) stream_word(0);
  }
  void TearDown() override {
    for (void* page : pages_) (void)cudaFreeHost(page);
    pages_.clear();
    left_ = 0;
  }

 private:
  std::mutex mutex_;
  std::vector<void*> pages_;
  stream_word* next_ = nullptr;
  std::size_t left_ = 0;
};

// By default a GPU has eight hardware queues for a process, and streams that share one wait for
// each other (CUDA C++ Programming Guide, CUDA_DEVICE_MAX_CONNECTIONS). A closed gate would then
// block streams that it does not hold.
[[maybe_unused]] const int enough_queues = setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);

// GoogleTest owns the object.
auto& pages = static_cast<word_pages&>(*::testing::AddGlobalTestEnvironment(new word_pages));

}  // namespace

stream_word* make_stream_word() {
  return pages.make_word();
}

void set_word_on(stream_ref stream, stream_word& word) {
  static auto* const write = operation("cuStreamWriteValue32");
  queue(write, "cuStreamWriteValue32", stream, word);
}

void await_word_on(stream_ref stream, stream_word& word) {
  static auto* const wait = operation("cuStreamWaitValue32");
  queue(wait, "cuStreamWaitValue32", stream, word);
}

}  // namespace sluice::test
