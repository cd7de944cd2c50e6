// SPDX-License-Identifier: Apache-2.0
// Tests that need a GPU.
#include "runtime/cuda/driver.hpp"
#include "tests/runtime/cuda/illegal_access.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_task.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/stream_pool.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

bool no_gpu() {
  return !has_device("cuda");
}

class cuda_device : public ::testing::Test {
 protected:
  void SetUp() override {
    if (no_gpu()) GTEST_SKIP() << "this machine has no GPU";
    // Creates the context here, not in a call of the test.
    ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
    ASSERT_EQ(cudaGetDevice(&before_), cudaSuccess);
    context_before_ = current_context();
  }
  void TearDown() override {
    if (no_gpu()) return;
    int after = -1;
    EXPECT_EQ(cudaGetDevice(&after), cudaSuccess);
    EXPECT_EQ(after, before_) << "the caller's current device was changed";
    EXPECT_EQ(current_context(), context_before_) << "or its context";
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "an error was left to an unrelated call";
  }

  [[nodiscard]] static CUcontext current_context() {
    CUcontext context = nullptr;
    EXPECT_EQ(cuda::driver().context_get_current(&context), CUDA_SUCCESS);
    return context;
  }

  /// Makes one operation of each kind on one GPU.
  static void exercise(const std::string& name) {
    int current = -1;
    ASSERT_EQ(cudaGetDevice(&current), cudaSuccess);
    auto* const context = current_context();
    const auto expect_unchanged = [&](const char* after) {
      EXPECT_EQ(current_context(), context) << after;
      int now = -1;
      EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
      EXPECT_EQ(now, current) << after;
    };
    {
      device_runtime runtime(open_device(name));
      expect_unchanged("opening");
      const auto s = runtime.create_stream();
      expect_unchanged("create_stream");
      auto a = runtime.allocate<float>(1000, s);
      expect_unchanged("allocate");
      const float one = 1;
      auto recorder = begin_write(a, s);
      runtime.device().fill(a.data(), &one, sizeof one, a.size(), s.ref().native());
      expect_unchanged("fill");
      (void)recorder.commit();
      expect_unchanged("commit");
      EXPECT_EQ(download(a, s), std::vector<float>(1000, 1.0F));
      expect_unchanged("download");
      auto* staging = runtime.device().allocate_staging(100);
      runtime.device().deallocate_staging(staging);
      expect_unchanged("staging");
      a = {};
      expect_unchanged("free");
      EXPECT_TRUE(throws(errc::out_of_memory, "",
                         [&] { (void)runtime.allocate_bytes(std::size_t{1} << 50U, s); }));
      expect_unchanged("out of memory");
    }
    expect_unchanged("the runtime's end");
    (void)open_device(name)->info();
    expect_unchanged("info");
  }

 private:
  int before_ = -1;
  CUcontext context_before_ = nullptr;
};

TEST_F(cuda_device, says_what_it_is) {
  const auto gpu = open_device("cuda");
  const auto info = gpu->info();
  EXPECT_EQ(info.id, (device_id{device_kind::cuda, 0}));
  EXPECT_FALSE(info.name.empty());
  EXPECT_GE(info.compute_capability, 70);
  EXPECT_GT(info.multiprocessors, 0);
  EXPECT_FALSE(gpu->reports_task_failures());
}

TEST_F(cuda_device, never_changes_the_callers_current_device) {
  exercise("cuda:0");
}

TEST_F(cuda_device, of_another_number_never_changes_the_callers_current_device) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "this machine has one GPU";
  exercise("cuda:1");
  std::thread([] {
    EXPECT_EQ(cudaSetDevice(1), cudaSuccess);
    exercise("cuda:0");
  }).join();
  // On a thread without a context.
  std::thread([] { exercise("cuda:1"); }).join();
}

TEST_F(cuda_device, is_current_in_its_scope_only_whatever_is_done_in_it) {
  const auto gpu = open_device("cuda");
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  std::thread([&] {  // the test changes the context of this thread
    EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
    auto* const context = current_context();
    EXPECT_NE(context, nullptr);
    {
      const current_device_scope scope(*gpu);
      EXPECT_EQ(cudaSetDevice(count - 1), cudaSuccess);
    }
    EXPECT_EQ(current_context(), context);
    {
      const current_device_scope scope(*gpu);
      EXPECT_EQ(cuda::driver().context_set_current(nullptr), CUDA_SUCCESS);
    }
    EXPECT_EQ(current_context(), context);
  })
      .join();
}

TEST_F(cuda_device, fills_with_patterns_of_1_2_4_8_and_16_bytes) {
  device_runtime runtime(open_device("cuda"));
  const auto s = runtime.create_stream();
  for (const std::size_t size : {1, 2, 4, 8, 16}) {
    for (const std::size_t count : {0, 1, 3, 1000, 300'001}) {
      std::array<std::uint8_t, 16> pattern{};
      for (std::size_t i = 0; i < pattern.size(); ++i) {
        pattern[i] = static_cast<std::uint8_t>(17 * i + size);
      }
      const std::uint8_t zero = 0;
      const auto bytes = 16 + count * size + 16;
      const auto a = runtime.allocate<std::uint8_t>(bytes, s);
      auto recorder = begin_write(a, s);
      runtime.device().fill(a.data(), &zero, 1, bytes, s.ref().native());
      runtime.device().fill(a.data() + 16, pattern.data(), size, count, s.ref().native());
      (void)recorder.commit();
      const auto got = download(a, s);
      for (std::size_t i = 0; i < bytes; ++i) {
        const bool inside = i >= 16 && i < 16 + count * size;
        ASSERT_EQ(got[i], inside ? pattern[(i - 16) % size] : 0) << size << " " << count;
      }
    }
  }
  std::array<std::uint8_t, 64> pattern{};
  const auto a = runtime.allocate<std::uint8_t>(64, s);
  for (const std::size_t size : {0, 3, 5, 12, 17, 32}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "pattern_bytes", [&] {
      runtime.device().fill(a.data(), pattern.data(), size, 1, s.ref().native());
    }));
  }
}

TEST_F(cuda_device, uses_freed_addresses_again) {
  device_runtime runtime(open_device("cuda"));
  const auto s = runtime.create_stream();
  auto a = runtime.allocate_bytes(1 << 20, s);
  const auto* address = a.address();
  a = {};
  const auto b = runtime.allocate_bytes(1 << 20, s);
  EXPECT_EQ(b.address(), address) << "without reuse a test of use after free would prove nothing";
}

TEST_F(cuda_device, synchronises_its_own_default_stream) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "this machine has one GPU";
  const auto second = open_device("cuda:1");
  auto* const legacy = reinterpret_cast<native_stream*>(cudaStreamLegacy);
  std::atomic<bool> opened{false};
  std::atomic<bool> reached{false};
  std::atomic<bool> waited{false};
  second->notify(legacy, [&] {
    reached.store(true);
    await([&] { return opened.load(); });
  });
  await([&] { return reached.load(); });
  std::atomic<bool> started{false};
  std::thread waiting([&] {
    started.store(true);
    second->synchronize(legacy);
    waited.store(opened.load());
  });
  await([&] { return started.load(); });
  std::this_thread::yield();  // gives an early return time to show; a correct program passes after
                              // any delay
  opened.store(true);
  waiting.join();
  EXPECT_TRUE(waited.load());
}

TEST_F(cuda_device, refuses_host_tasks) {
  device_runtime runtime(open_device("cuda"));
  const auto s = runtime.create_stream();
  EXPECT_TRUE(throws(errc::unsupported, "host", [&] { submit_host_task(s, [] {}); }));
}

TEST_F(cuda_device, makes_streams_of_the_priority_that_is_asked_for) {
  int least = 0;
  int greatest = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
  ASSERT_LT(greatest, least)
      << "this GPU has one priority";  // a smaller number means a higher priority
  device_runtime runtime(open_device("cuda"));
  const auto priority_of = [](const auto& owner) {
    auto* const native = reinterpret_cast<cudaStream_t>(owner.ref().native());
    unsigned flags = 0;
    EXPECT_EQ(cudaStreamGetFlags(native, &flags), cudaSuccess);
    EXPECT_EQ(flags, cudaStreamNonBlocking);
    int priority = 0;
    EXPECT_EQ(cudaStreamGetPriority(native, &priority), cudaSuccess);
    return priority;
  };
  EXPECT_EQ(priority_of(runtime.create_stream()), least);
  EXPECT_EQ(priority_of(runtime.create_stream(stream_priority::normal)), least);
  EXPECT_EQ(priority_of(runtime.create_stream(stream_priority::high)), greatest);
  stream_pool pool(runtime, {.priority = stream_priority::high});
  EXPECT_EQ(priority_of(pool.acquire()), greatest);
}

TEST_F(cuda_device, adopts_streams_with_and_without_an_order_to_the_default_stream) {
  for (const unsigned flags : {cudaStreamDefault, cudaStreamNonBlocking}) {
    device_runtime runtime(open_device("cuda"));
    cudaStream_t foreign = nullptr;
    ASSERT_EQ(flags == cudaStreamDefault ? cudaStreamCreate(&foreign)
                                         : cudaStreamCreateWithFlags(&foreign, flags),
              cudaSuccess);
    const auto runtime_stream = runtime.create_stream();
    const auto a = runtime.allocate<std::uint32_t>(1000, runtime_stream);
    runtime_stream.synchronize();
    const auto fill = [&](std::uint32_t value, std::size_t count, stream_ref stream) {
      return launch_fill(a.subspan(0, count), value, stream);
    };
    {
      const auto adopted = runtime.adopt_stream(reinterpret_cast<native_stream*>(foreign));
      EXPECT_EQ(reinterpret_cast<cudaStream_t>(adopted.ref().native()), foreign);
      gate closed;
      closed.hold(adopted);
      // A fill by the stream's owner, which does not use a recorder.
      const std::uint32_t before = 7;
      runtime.device().fill(a.data(), &before, sizeof before, a.size(), adopted.ref().native());
      EXPECT_EQ(fill(1, 600, adopted).stream, adopted.id());
      const auto waits = runtime.statistics().waits;
      (void)fill(2, 300, runtime_stream);
      EXPECT_EQ(runtime.statistics().waits, waits + 1) << "for the adopted one";
      EXPECT_EQ(cudaStreamQuery(foreign), cudaErrorNotReady);
      (void)cudaGetLastError();
      closed.open();
      auto expected = std::vector<std::uint32_t>(1000, 7);
      std::fill_n(expected.begin(), 600, 1U);
      std::fill_n(expected.begin(), 300, 2U);
      EXPECT_EQ(download(a, runtime_stream), expected);
    }
    // The native stream is unchanged.
    EXPECT_EQ(cudaStreamSynchronize(foreign), cudaSuccess);
    unsigned now = ~0U;
    EXPECT_EQ(cudaStreamGetFlags(foreign, &now), cudaSuccess);
    EXPECT_EQ(now, flags);
    EXPECT_EQ(cudaStreamDestroy(foreign), cudaSuccess);
  }
}

TEST_F(cuda_device, adopts_no_stream_of_another_gpu) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  if (count < 2) GTEST_SKIP() << "this machine has one GPU";
  device_runtime runtime(open_device("cuda:0"));
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t blocking = nullptr;
  cudaStream_t unordered = nullptr;
  EXPECT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&unordered, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  const auto streams = runtime.statistics().streams;
  for (auto* const elsewhere : {blocking, unordered}) {
    EXPECT_TRUE(throws(errc::invalid_argument, "not a stream of cuda:0", [&] {
      (void)runtime.adopt_stream(reinterpret_cast<native_stream*>(elsewhere));
    }));
    EXPECT_EQ(cudaStreamDestroy(elsewhere), cudaSuccess);
  }
  EXPECT_EQ(runtime.statistics().streams, streams);
  EXPECT_FALSE(runtime.device().lost());
  runtime.create_stream().synchronize();
}

// A fault is final for its process, so it happens in a child.

#define SLUICE_TEST_REQUIRE(condition)                  \
  do {                                                  \
    if (!(condition)) {                                 \
      std::fprintf(stderr, "not so: %s\n", #condition); \
      std::exit(1);                                     \
    }                                                   \
  } while (false)

template <class Function>
bool is_device_lost(Function function) {
  try {
    function();
  } catch (const error& e) {
    return e.code() == errc::device_lost && e.status().library == "CUDA runtime";
  }
  return false;
}

[[noreturn]] void fault() {
  {
    device_runtime runtime(open_device("cuda"));
    auto& gpu = runtime.device();
    const auto s = runtime.create_stream();
    const auto other = runtime.create_stream();
    const auto a = runtime.allocate<float>(100, s);
    const auto b = runtime.allocate<float>(100, other);
    auto recorder = begin_write(a, s);
    SLUICE_TEST_REQUIRE(launch_illegal_access(s.ref().native()) == cudaSuccess);
    const auto point = recorder.commit();
    auto* line = detail::timeline::of(s.ref());
    SLUICE_TEST_REQUIRE(is_device_lost([&] { line->wait_until(point.ticket); }));
    SLUICE_TEST_REQUIRE(gpu.lost());
    SLUICE_TEST_REQUIRE(line->watermark() < point.ticket);
    // From now on every function throws `device_lost` without a call of the driver.
    SLUICE_TEST_REQUIRE(is_device_lost([&] { s.synchronize(); }));
    SLUICE_TEST_REQUIRE(is_device_lost([&] { other.synchronize(); }));
    SLUICE_TEST_REQUIRE(is_device_lost([&] { (void)runtime.create_stream(); }));
    SLUICE_TEST_REQUIRE(is_device_lost([&] { (void)runtime.allocate_bytes(16, other); }));
    SLUICE_TEST_REQUIRE(is_device_lost([&] { (void)gpu.create_event(); }));
    SLUICE_TEST_REQUIRE(is_device_lost([&] { (void)gpu.allocate(16); }));
    SLUICE_TEST_REQUIRE(gpu.query(nullptr, 1) == event_state::lost);
    SLUICE_TEST_REQUIRE(gpu.quiescent(s.ref().native()));
    auto later = launch_recorder::strict(other);
    later.read(b);
    SLUICE_TEST_REQUIRE(is_device_lost([&] { later.preflight(); }));
    SLUICE_TEST_REQUIRE(!runtime.shut_down(std::chrono::seconds(60)));
    SLUICE_TEST_REQUIRE(runtime.statistics().leases == 0);
  }
  std::exit(0);
}

TEST_F(cuda_device, is_lost_after_a_fault) {
  EXPECT_EXIT(fault(), ::testing::ExitedWithCode(0), "^$");
}

// A recorder between preflight and commit returns its leases after a loss.
[[noreturn]] void fault_between_preflight_and_commit() {
  {
    device_runtime runtime(open_device("cuda"));
    const auto s = runtime.create_stream();
    const auto a = runtime.allocate<float>(100, s);
    auto recorder = begin_write(a, s);
    SLUICE_TEST_REQUIRE(launch_illegal_access(s.ref().native()) == cudaSuccess);
    await([&] {
      try {
        runtime.device().synchronize(s.ref().native());
      } catch (const error&) {
      }
      return runtime.device().lost();
    });
    SLUICE_TEST_REQUIRE(is_device_lost([&] { (void)recorder.commit(); }));
    SLUICE_TEST_REQUIRE(runtime.statistics().leases == 0);
  }
  std::exit(0);
}

TEST_F(cuda_device, lost_before_commit_leaves_no_lease) {
  EXPECT_EXIT(fault_between_preflight_and_commit(), ::testing::ExitedWithCode(0), "^$");
}

// With all kinds of outstanding objects: exports, imports, red zones, copies.
[[noreturn]] void fault_with_everything_outstanding() {
  static std::atomic<int> returned{0};
  cudaStream_t consumer = nullptr;
  SLUICE_TEST_REQUIRE(cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking) == cudaSuccess);
  void* foreign = nullptr;
  SLUICE_TEST_REQUIRE(cudaMalloc(&foreign, 400) == cudaSuccess);
  std::int64_t extent = 100;
  dlpack::versioned_tensor tensor{};
  tensor.version = {1, 0};
  tensor.deleter = [](dlpack::versioned_tensor*) {
    returned.fetch_add(1);
  };
  tensor.tensor = {.data = foreign,
                   .device = {dlpack::cuda, 0},
                   .ndim = 1,
                   .dtype = {dlpack::real, 32, 1},
                   .shape = &extent,
                   .strides = nullptr,
                   .byte_offset = 0};
  {
    device_runtime guarded(
        open_device("cuda"),
        {.resource = make_guard_resource(make_pool_resource(make_async_resource()))});
    device_runtime other(open_device("cuda"));
    device_runtime host(open_device("host"));
    const auto s = guarded.create_stream();
    const auto others = other.create_stream();
    const auto hosts = host.create_stream();
    const auto a = guarded.allocate<float>(100, s);
    const auto b = other.allocate<float>(100, others);
    const auto c = host.allocate<float>(100, hosts);
    (void)enqueue_copy(b, others, a, s);  // everything has been loaded
    (void)enqueue_copy(c, hosts, a, s);
    (void)enqueue_copy(a, s, c, hosts);
    others.synchronize();
    hosts.synchronize();
    s.synchronize();
    const foreign_stream consumers(reinterpret_cast<native_stream*>(consumer));
    auto* with_stream = export_dlpack(guarded, a, {.stream = consumers});
    auto* without = export_dlpack(guarded, a, {.read_only = true});
    auto imported = import_dlpack(guarded, &tensor, {.stream = consumers});
    SLUICE_TEST_REQUIRE(load_illegal_access() == cudaSuccess);
    gate closed;
    closed.hold(s);
    (void)enqueue_copy(b, others, a, s);
    (void)enqueue_copy(c, hosts, a, s);
    (void)enqueue_copy(a, s, c, hosts);
    {
      const auto freed = guarded.allocate<float>(100, s);
      auto recorder = launch_recorder::strict(s);
      recorder.read(imported).write(freed);
      recorder.preflight();
      (void)recorder.commit();
    }
    imported = {};
    // The stream waits for no other stream.
    const auto faulty = other.create_stream();
    SLUICE_TEST_REQUIRE(launch_illegal_access(faulty.ref().native()) == cudaSuccess);
    for (auto* runtime : {&guarded, &other}) {
      await([&] {
        runtime->reap_pending();
        return runtime->device().lost();
      });
    }
    with_stream->deleter(with_stream);
    without->deleter(without);
    SLUICE_TEST_REQUIRE(!guarded.shut_down(std::chrono::seconds(60)));
    SLUICE_TEST_REQUIRE(guarded.statistics().leases == 0);
    SLUICE_TEST_REQUIRE(guarded.statistics().exports == 0);
  }
  SLUICE_TEST_REQUIRE(returned.load() == 1);
  std::exit(0);
}

TEST_F(cuda_device, lost_with_everything_outstanding_ends_quietly) {
  EXPECT_EXIT(fault_with_everything_outstanding(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace sluice::test
