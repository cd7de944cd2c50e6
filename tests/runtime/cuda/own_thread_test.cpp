// SPDX-License-Identifier: Apache-2.0
// How often scopes of a context call the driver, and which context they leave current.
#include "runtime/cuda/context.hpp"
#include "tests/support/devices.hpp"

#include <sluice/runtime/user_code_scope.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

/// A driver with two contexts that counts the calls of each thread.
class fake_driver : public ::testing::Test {
 protected:
  fake_driver() {
    cuda::driver_functions functions;
    functions.context_get_current = [](CUcontext* context) {
      ++calls;
      *context = current;
      return CUDA_SUCCESS;
    };
    functions.context_set_current = [](CUcontext context) {
      ++calls;
      current = context;
      return CUDA_SUCCESS;
    };
    functions.exchange_capture_mode = [](CUstreamCaptureMode* mode) {
      ++calls;
      std::swap(*mode, capture_mode);
      return CUDA_SUCCESS;
    };
    real_ = cuda::exchange_driver(functions);
  }
  ~fake_driver() override { (void)cuda::exchange_driver(real_); }

  /// The number of driver calls that `function` makes.
  static int calls_of(const std::function<void()>& function) {
    calls = 0;
    function();
    return calls;
  }
  static void on_a_new_thread(const std::function<void()>& function) {
    std::thread(function).join();
  }

  static thread_local int calls;
  static thread_local CUcontext current;
  static thread_local CUstreamCaptureMode capture_mode;
  const CUcontext first = reinterpret_cast<CUcontext>(std::uintptr_t{0x10});
  const CUcontext second = reinterpret_cast<CUcontext>(std::uintptr_t{0x20});

  class scope {
   public:
    explicit scope(CUcontext context) : entered_(cuda::enter(context)) {}
    scope(const scope&) = delete;
    scope& operator=(const scope&) = delete;
    ~scope() { cuda::leave(entered_); }

   private:
    void* entered_;
  };

 private:
  cuda::driver_functions real_;
};
thread_local int fake_driver::calls = 0;
thread_local CUcontext fake_driver::current = nullptr;
thread_local CUstreamCaptureMode fake_driver::capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

TEST_F(fake_driver, is_asked_by_each_scope_of_a_users_thread_which_restores) {
  on_a_new_thread([this] {
    for (auto* const before : {CUcontext{nullptr}, second, first}) {
      current = before;
      {
        const scope entered(first);
        EXPECT_EQ(current, first);
        EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
        {
          const cuda::launch_scope nested(second);
          EXPECT_EQ(current, second);
        }
        EXPECT_EQ(current, first);
        current = second;  // a closure may change the context
      }
      EXPECT_EQ(current, before);
      EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    }
    EXPECT_EQ(calls_of([this] { const cuda::launch_scope launch(first); }), 1);
    EXPECT_EQ(calls_of([this] { const scope closure(first); }), 4);
    const detail::user_code_scope users;  // has no effect on a thread that is not sluice's own
    EXPECT_EQ(calls_of([this] { const cuda::launch_scope launch(first); }), 1);
  });
}

TEST_F(fake_driver, is_not_called_by_scopes_of_a_thread_that_keeps_their_context) {
  on_a_new_thread([this] {
    cuda::keep_current(first);
    EXPECT_EQ(current, first);
    EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    EXPECT_EQ(calls_of([this] {
                const scope closure(first);
                const scope library(first);
                const cuda::launch_scope launch(first);
                EXPECT_EQ(current, first);
              }),
              0);
    EXPECT_EQ(current, first);
    EXPECT_EQ(capture_mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  });
  on_a_new_thread([this] {
    EXPECT_EQ(calls_of([this] { const cuda::launch_scope launch(first); }), 3)
        << "another thread keeps nothing";
  });
}

TEST_F(fake_driver, is_asked_again_by_a_thread_that_keeps_a_context_around_code_of_users) {
  on_a_new_thread([this] {
    cuda::keep_current(first);
    for (auto* const left : {CUcontext{nullptr}, second, first}) {
      const scope around(first);
      {
        const detail::user_code_scope users;
        current = left;
        {
          const detail::user_code_scope nested;
          const scope of_the_user(first);
          EXPECT_EQ(current, first);
          current = second;
        }
        EXPECT_EQ(current, left) << "users' scopes restore there, too";
        {
          const cuda::launch_scope launch(first);
          EXPECT_EQ(current, first);
        }
        EXPECT_EQ(current, left);
      }
      EXPECT_EQ(current, first);
      EXPECT_EQ(calls_of([this] { const scope closure(first); }), 0);
    }
    EXPECT_EQ(calls_of([] { const detail::user_code_scope users; }), 1);
  });
}

TEST_F(fake_driver, is_asked_by_a_thread_that_keeps_a_context_inside_scopes_of_another) {
  on_a_new_thread([this] {
    cuda::keep_current(first);
    {
      const scope elsewhere(second);
      EXPECT_EQ(current, second);
      {
        const scope back(first);
        EXPECT_EQ(current, first);
        const cuda::launch_scope launch(second);
        EXPECT_EQ(current, second);
      }
      EXPECT_EQ(current, second);
      {
        const cuda::launch_scope launch(first);
        EXPECT_EQ(current, first);
      }
      EXPECT_EQ(current, second);
    }
    EXPECT_EQ(current, first);
    {
      const cuda::launch_scope launch(second);
      EXPECT_EQ(current, second);
    }
    EXPECT_EQ(current, first);
    EXPECT_EQ(calls_of([this] { const scope closure(first); }), 0);
  });
}

/// The GPU's own driver, with the calls of each thread counted.
class counted_driver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
    real = cuda::driver();
    auto counting = real;
    counting.context_get_current = [](CUcontext* context) {
      ++calls;
      return real.context_get_current(context);
    };
    counting.context_set_current = [](CUcontext context) {
      ++calls;
      return real.context_set_current(context);
    };
    counting.exchange_capture_mode = [](CUstreamCaptureMode* mode) {
      ++calls;
      return real.exchange_capture_mode(mode);
    };
    (void)cuda::exchange_driver(counting);
    runtime_.emplace(open_device("cuda"));
    stream_ = runtime_->create_stream();
    for (int i = 0; i < 3; ++i) blocks_.push_back(runtime_->allocate<float>(16, stream_));
  }
  void TearDown() override {
    if (IsSkipped()) return;
    blocks_.clear();
    stream_ = {};
    runtime_.reset();
    (void)cuda::exchange_driver(real);
  }

  /// Makes launches of three blocks whose closure enters the device, like a library's closure.
  void launch(int count) {
    for (; count != 0; --count) {
      auto recorder = launch_recorder::strict(stream_);
      recorder.read(blocks_[0]).read(blocks_[1]).write(blocks_[2]);
      recorder.preflight();
      { const current_device_scope closure(runtime_->device()); }
      (void)recorder.commit();
    }
  }
  /// The number of driver calls of `count` launches, after some others.
  int calls_of_launches(int count) {
    launch(8);
    stream_.synchronize();
    calls = 0;
    launch(count);
    return calls;
  }
  [[nodiscard]] static CUcontext current() {
    CUcontext context = nullptr;
    EXPECT_EQ(real.context_get_current(&context), CUDA_SUCCESS);
    return context;
  }
  [[nodiscard]] device& gpu() { return runtime_->device(); }

  static cuda::driver_functions real;
  static thread_local int calls;

 private:
  std::optional<device_runtime> runtime_;
  stream stream_;
  std::vector<gpu_ref<float>> blocks_;
};
cuda::driver_functions counted_driver::real;
thread_local int counted_driver::calls = 0;

constexpr int launches = 10;  // so few that no launch queries completed ones

TEST_F(counted_driver, is_called_five_times_to_enter_the_context_in_a_launch_of_a_users_thread) {
  std::thread([this] {
    const auto* const before = current();
    (void)calls_of_launches(1);
    EXPECT_EQ(current(), before);
    auto* const previous = cuda::make_current(cuda::primary_context(0));
    // Four calls for the closure, one for the record.
    EXPECT_EQ(calls_of_launches(launches), 5 * launches);
    cuda::make_current_again(previous);
  }).join();
}

TEST_F(counted_driver, is_not_called_to_enter_the_context_in_launches_of_sluices_own_threads) {
  std::thread([this] {
    gpu().prepare_own_thread();
    const auto* const context = current();
    EXPECT_EQ(calls_of_launches(launches), 0);
    {
      const detail::user_code_scope users;
      EXPECT_EQ(real.context_set_current(nullptr), CUDA_SUCCESS);
      launch(1);
      EXPECT_EQ(current(), nullptr);
    }
    EXPECT_EQ(current(), context);
    EXPECT_EQ(calls_of_launches(launches), 0);
  }).join();
}

}  // namespace
}  // namespace sluice::test
