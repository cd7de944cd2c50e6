// SPDX-License-Identifier: Apache-2.0
// A program captures its own stream into a graph while a runtime works. Neither affects the other.
// The capture mode is "global", as in torch.cuda.graph.
#include "tests/support/collected_reports.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/arrow.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

native_stream* native(cudaStream_t stream) {
  return reinterpret_cast<native_stream*>(stream);
}

/// A capture on a thread of its own, in the mode "global". This is the mode of every thread that
/// does not change it.
class other_capture {
 public:
  explicit other_capture(unsigned stream_flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, stream_flags), cudaSuccess);
    EXPECT_EQ(cudaMalloc(&memory_, 8), cudaSuccess);
    EXPECT_EQ(cudaMemset(memory_, 0, 8), cudaSuccess);
    EXPECT_EQ(cudaEventCreateWithFlags(&inside_, cudaEventDisableTiming), cudaSuccess);
  }
  other_capture(const other_capture&) = delete;
  other_capture& operator=(const other_capture&) = delete;
  ~other_capture() {
    (void)end();
    if (graph_ != nullptr) (void)cudaGraphDestroy(graph_);
    (void)cudaEventDestroy(inside_);
    (void)cudaStreamDestroy(stream_);
    (void)cudaFree(memory_);
    (void)cudaGetLastError();
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  /// An event recorded in the capture.
  [[nodiscard]] cudaEvent_t inside() const { return inside_; }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    thread_ = std::thread([this, mode] {
      EXPECT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
      EXPECT_EQ(cudaMemsetAsync(memory_, 0x5A, 4, stream_), cudaSuccess);
      EXPECT_EQ(cudaEventRecord(inside_, stream_), cudaSuccess);
      begun_.store(true);
      await([this] { return ending_.load(); });
      (void)cudaMemsetAsync(static_cast<char*>(memory_) + 4, 0xA5, 4, stream_);
      ended_ = cudaStreamEndCapture(stream_, &graph_);
      (void)cudaGetLastError();
    });
    await([this] { return begun_.load(); });
  }
  /// Ends the capture and returns its status.
  cudaError_t end() {
    ending_.store(true);
    if (thread_.joinable()) thread_.join();
    return ended_;
  }
  /// Runs the graph. Returns whether it did the captured work.
  [[nodiscard]] bool graph_runs() {
    cudaGraphExec_t executable = nullptr;
    if (cudaGraphInstantiate(&executable, graph_, 0) != cudaSuccess) return false;
    std::uint32_t words[2] = {0, 0};
    const bool ran =
        cudaGraphLaunch(executable, stream_) == cudaSuccess &&
        cudaStreamSynchronize(stream_) == cudaSuccess &&
        cudaMemcpy(words, memory_, sizeof words, cudaMemcpyDeviceToHost) == cudaSuccess;
    (void)cudaGraphExecDestroy(executable);
    return ran && words[0] == 0x5A5A5A5A && words[1] == 0xA5A5A5A5;
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaEvent_t inside_ = nullptr;
  void* memory_ = nullptr;
  std::thread thread_;
  std::atomic<bool> begun_{false};
  std::atomic<bool> ending_{false};
  cudaError_t ended_ = cudaSuccess;
  cudaGraph_t graph_ = nullptr;
};

/// A tensor of another library that reports its return.
class foreign_tensor {
 public:
  explicit foreign_tensor(const gpu_ref<std::uint32_t>& memory)
      : memory_(memory), extent_(static_cast<std::int64_t>(memory.size())) {
    tensor_.version = {1, 0};
    tensor_.manager_ctx = this;
    tensor_.deleter = [](dlpack::versioned_tensor* self) {
      static_cast<foreign_tensor*>(self->manager_ctx)->returned_.fetch_add(1);
    };
    tensor_.tensor = {.data = memory.data(),
                      .device = {dlpack::cuda, 0},
                      .ndim = 1,
                      .dtype = {dlpack::unsigned_integer, 32, 1},
                      .shape = &extent_,
                      .strides = nullptr,
                      .byte_offset = 0};
  }
  [[nodiscard]] dlpack::versioned_tensor* get() noexcept { return &tensor_; }
  [[nodiscard]] int returned() const { return returned_.load(); }

 private:
  gpu_ref<std::uint32_t> memory_;
  std::int64_t extent_;
  std::atomic<int> returned_{0};
  dlpack::versioned_tensor tensor_{};
};

class cuda_capture : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
    open({});
    producer_ = std::make_unique<device_runtime>(open_device("cuda"));
    producer_stream_ = producer_->create_stream();
    theirs_ = producer_->allocate<std::uint32_t>(count, producer_stream_);
    // Loads everything that is launched behind a gate, and allocates the memory of a gate.
    gate once;
    once.hold(stream_);
    once.open();
    (void)write(theirs_, 1, producer_stream_);
    producer_stream_.synchronize();
    stream_.synchronize();
  }
  void TearDown() override {
    if (!has_device("cuda")) return;
    theirs_ = {};
    producer_stream_ = {};
    producer_.reset();
    stream_ = {};
    runtime_.reset();
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess) << "an error was left to an unrelated call";
  }

  void open(runtime_options options) {
    stream_ = {};
    runtime_ = std::make_unique<device_runtime>(open_device("cuda"), std::move(options));
    stream_ = runtime_->create_stream();
  }
  [[nodiscard]] device_runtime& runtime() const { return *runtime_; }
  [[nodiscard]] const sluice::stream& stream() const { return stream_; }
  [[nodiscard]] device_runtime& producer() const { return *producer_; }
  [[nodiscard]] const sluice::stream& producer_stream() const { return producer_stream_; }
  [[nodiscard]] const gpu_ref<std::uint32_t>& theirs() const { return theirs_; }
  [[nodiscard]] std::uint32_t random_word() { return static_cast<std::uint32_t>(generator_()); }
  [[nodiscard]] gpu_ref<std::uint32_t> words() {
    return runtime().allocate<std::uint32_t>(count, stream());
  }

  static void fill(const gpu_ref<std::uint32_t>& ref, std::uint32_t value, native_stream* stream,
                   device& gpu) {
    gpu.fill(ref.data(), &value, sizeof value, ref.size(), stream);
  }
  static timeline_point write(const gpu_ref<std::uint32_t>& ref, std::uint32_t value,
                              stream_ref stream) {
    return launch_fill(ref, value, stream);
  }
  static timeline_point copy(const gpu_ref<std::uint32_t>& destination, const column& source,
                             stream_ref stream) {
    auto recorder = launch_recorder::strict(stream);
    recorder.read(source).write(destination);
    recorder.preflight();
    stream.device().copy(destination.data(), source.address(), destination.bytes(),
                         copy_direction::device_to_device, stream.native());
    return recorder.commit();
  }

  /// Makes one operation of each kind, some of them behind a closed gate.
  void work() {
    const auto value = random_word();
    gate closed;
    const auto other = runtime().create_stream();
    const auto high = runtime().create_stream(stream_priority::high);
    const auto seen = words();
    auto dropped = words();
    foreign_tensor tensor(theirs());
    // Before the gate closes, because this free waits for the device.
    runtime().device().deallocate_staging(
        runtime().device().allocate_staging(std::size_t{3} << 20U));
    closed.hold(producer_stream());
    (void)write(theirs(), value, producer_stream());
    {
      const auto imported = import_dlpack(
          runtime(), tensor.get(), {.stream = foreign_stream(producer_stream().ref().native())});
      (void)copy(seen, imported.as<std::uint32_t>(), other);
      (void)write(dropped, value, high);
      dropped = {};
    }
    runtime().reap_pending();
    EXPECT_EQ(tensor.returned(), 0);
    closed.open();
    EXPECT_EQ(download(seen, stream()), std::vector<std::uint32_t>(count, value));
    // More launches than a ring of events has slots.
    const auto a = words();
    timeline_point last;
    for (std::uint32_t i = 0; i < 200; ++i) last = write(a, i, i % 2 == 0 ? other : high);
    detail::runtime_core::of(runtime())->find(last.stream)->wait_until(last.ticket);
    EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(count, 199));
    await([&] {
      runtime().reap_pending();
      return tensor.returned() == 1;
    });
    (void)runtime().trim_memory();
    EXPECT_FALSE(runtime().device().lost());
  }

  void work_beside_a_capture(std::unique_ptr<memory_resource> resource) {
    open({.resource = std::move(resource)});
    work();  // everything has been loaded
    other_capture capture;
    capture.begin();
    work();
    EXPECT_EQ(capture.end(), cudaSuccess);
    EXPECT_TRUE(capture.graph_runs());
  }

  static constexpr std::size_t count = 1000;

 private:
  std::mt19937_64 generator_ = make_generator();
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  std::unique_ptr<device_runtime> producer_;
  sluice::stream producer_stream_;
  gpu_ref<std::uint32_t> theirs_;
};

// The control: the same calls without care end a capture.
TEST_F(cuda_capture, is_broken_by_careless_calls) {
  for (const bool asks : {false, true}) {
    cudaEvent_t event = nullptr;
    ASSERT_EQ(cudaEventCreate(&event), cudaSuccess);
    ASSERT_EQ(cudaEventRecord(event, other_capture().stream()), cudaSuccess);
    other_capture capture;
    capture.begin();
    void* memory = nullptr;
    EXPECT_EQ(asks ? cudaEventQuery(event) : cudaMalloc(&memory, 1 << 20),
              cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(capture.end(), cudaErrorStreamCaptureInvalidated);
    (void)cudaGetLastError();
    (void)cudaEventDestroy(event);
  }
}

TEST_F(cuda_capture, elsewhere_does_not_mind_a_runtime_at_work) {
  work_beside_a_capture(make_default_resource());
  work_beside_a_capture(make_async_resource());
  work_beside_a_capture(make_guard_resource(make_pool_resource(make_async_resource())));
}

TEST_F(cuda_capture, elsewhere_does_not_mind_direct_memory_that_is_freed) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(
      "cudaFree waits there for all streams, with a lock that other threads' launches need, and "
      "one "
      "of the streams for a gate that is opened after such a launch");
  work_beside_a_capture(make_direct_resource({.tracked = true}));
}

TEST_F(cuda_capture, elsewhere_does_not_mind_a_runtime_that_begins_and_ends) {
  other_capture capture;
  capture.begin();
  for (int round = 0; round < 3; ++round) {
    open({});
    const auto a = words();
    (void)write(a, 7, stream());
    EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(count, 7));
    (void)open_device("cuda")->info();
  }
  EXPECT_EQ(capture.end(), cudaSuccess);
  EXPECT_TRUE(capture.graph_runs());
}

TEST_F(cuda_capture, of_the_calling_thread_is_left_alone) {
  cudaStream_t mine = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking), cudaSuccess);
  for (const auto mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal}) {
    work();
    ASSERT_EQ(cudaStreamBeginCapture(mine, mode), cudaSuccess);
    work();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(mine, &graph), cudaSuccess);
    (void)cudaGraphDestroy(graph);
  }
  // The capture mode of the thread is unchanged.
  auto now = cudaStreamCaptureModeGlobal;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&now), cudaSuccess);
  EXPECT_EQ(now, cudaStreamCaptureModeGlobal);
  (void)cudaStreamDestroy(mine);
}

TEST_F(cuda_capture, of_a_stream_refuses_what_would_be_ordered_with_it) {
  const auto a = words();
  (void)write(a, 1, stream());
  const auto seen = words();
  other_capture capture;
  const auto adopted = runtime().adopt_stream(native(capture.stream()));
  capture.begin();
  const foreign_stream captured(native(capture.stream()));
  foreign_tensor tensor(theirs());
  EXPECT_TRUE(throws(errc::invalid_argument, "stream: the stream is being captured",
                     [&] { (void)import_dlpack(runtime(), tensor.get(), {.stream = captured}); }));
  EXPECT_EQ(tensor.returned(), 0) << "nothing was taken";
  EXPECT_TRUE(throws(errc::invalid_argument, "stream: the stream is being captured",
                     [&] { (void)export_dlpack(runtime(), a, {.stream = captured}); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "stream: the stream is being captured",
                     [&] { (void)export_arrow(runtime(), a, captured); }));
  EXPECT_EQ(runtime().statistics().exports, 0u);
  EXPECT_TRUE(throws(errc::invalid_argument, "being captured",
                     [&] { (void)runtime().adopt_stream(native(capture.stream())); }));
  // A stream that was adopted before the capture.
  EXPECT_TRUE(throws(errc::stream_misuse, "being captured", [&] { (void)write(a, 2, adopted); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "being captured",
                     [&] { (void)runtime().allocate<std::uint32_t>(5'000'000, adopted); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "being captured", [&] { adopted.synchronize(); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "being captured", [&] {
    auto recorder = launch_recorder::strict(adopted);
    recorder.write(a);
    (void)recorder.commit();  // without preflight
  }));
  EXPECT_EQ(capture.end(), cudaSuccess);
  EXPECT_TRUE(capture.graph_runs());
  EXPECT_FALSE(runtime().device().lost());
  EXPECT_EQ(runtime().statistics().leases, 0u);
  // After the capture the stream is usable again.
  (void)write(a, 3, adopted);
  EXPECT_EQ(download(a, stream()), std::vector<std::uint32_t>(count, 3));
  {
    const auto imported = import_dlpack(runtime(), tensor.get(), {.stream = captured});
    (void)copy(seen, imported.as<std::uint32_t>(), stream());
  }
  EXPECT_EQ(download(seen, stream()), std::vector<std::uint32_t>(count, 1));
  // The reclaim thread returns the tensor, which must outlive that.
  await([&] {
    runtime().reap_pending();
    return tensor.returned() == 1;
  });
}

TEST_F(cuda_capture, of_a_stream_that_the_default_stream_waits_for_is_left_alone) {
  other_capture capture(cudaStreamDefault);
  capture.begin();
  foreign_tensor tensor(theirs());
  EXPECT_TRUE(throws(errc::invalid_argument, "stream: the stream is being captured", [&] {
    (void)import_dlpack(runtime(), tensor.get(), {.stream = foreign_stream(1)});
  }));
  work();
  EXPECT_EQ(capture.end(), cudaSuccess);
  EXPECT_TRUE(capture.graph_runs());
}

// CUDA forbids a query of such an event, and the query may end the capture. The runtime survives
// both.
TEST_F(cuda_capture, of_an_event_refuses_an_import_that_names_it) {
  other_capture capture;
  capture.begin();
  const void* buffers[] = {nullptr, theirs().data()};
  ArrowSchema schema{};
  schema.format = "I";
  schema.name = "";
  schema.release = [](ArrowSchema* self) {
    self->release = nullptr;
  };
  auto event = capture.inside();
  ArrowDeviceArray array{};
  array.array.length = count;
  array.array.n_buffers = 2;
  array.array.buffers = buffers;
  array.array.release = [](ArrowArray* self) {
    self->release = nullptr;
  };
  array.device_type = ARROW_DEVICE_CUDA;
  array.sync_event = &event;
  EXPECT_TRUE(throws(errc::invalid_argument, "sync_event",
                     [&] { (void)import_arrow(runtime(), schema, &array); }));
  EXPECT_NE(array.array.release, nullptr) << "nothing was taken";
  const auto ended = capture.end();
  RecordProperty("capture_survives", ended == cudaSuccess ? "yes" : "no");
  work();
  (void)cudaGetLastError();
}

// Work that the consumer queued before the capture is ordered before later uses, although no query
// can find it until the capture has ended.
TEST_F(cuda_capture, of_a_consumers_stream_defers_the_end_of_an_export) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it synchronises one stream while another one is held");
  const auto value = random_word();
  const auto a = words();
  const auto seen = words();
  (void)write(a, value + 1, stream());
  other_capture capture;
  gate closed;
  auto* out = export_dlpack(runtime(), a, {.stream = foreign_stream(native(capture.stream()))});
  {
    const auto consumer = producer().adopt_stream(native(capture.stream()));
    closed.hold(consumer);
  }
  fill(a, value, native(capture.stream()), producer().device());
  capture.begin();
  std::thread([out] { out->deleter(out); }).join();
  EXPECT_EQ(runtime().statistics().exports, 1u);
  EXPECT_TRUE(throws(errc::stream_misuse, "captured", [&] { (void)copy(seen, a, stream()); }));
  EXPECT_TRUE(throws(errc::stream_misuse, "captured",
                     [&] { (void)runtime().prepare_use(a.block(), stream(), access_kind::read); }));
  const auto unconcerned = words();
  (void)write(unconcerned, value, stream());
  EXPECT_EQ(download(unconcerned, stream()), std::vector<std::uint32_t>(count, value));
  EXPECT_EQ(capture.end(), cudaSuccess);
  await([&] { return runtime().statistics().exports == 0; });
  const auto copied = copy(seen, a, stream());
  runtime().reap_pending();
  EXPECT_FALSE(detail::runtime_core::of(runtime())->find(copied.stream)->completed(copied.ticket));
  closed.open();
  EXPECT_EQ(download(seen, stream()), std::vector<std::uint32_t>(count, value));
  EXPECT_TRUE(capture.graph_runs());
}

TEST_F(cuda_capture, of_a_consumers_stream_outlives_the_runtime) {
  other_capture capture;
  auto owned = std::make_unique<device_runtime>(open_device("cuda"));
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
  {
    const auto s = owned->create_stream();
    const auto a = owned->allocate<std::uint32_t>(count, s);
    auto* out = export_dlpack(*owned, a, {.stream = foreign_stream(native(capture.stream()))});
    capture.begin();
    out->deleter(out);
  }
  const collected_reports reports;
  owned.reset();
  EXPECT_EQ(reports.text(), "");
  EXPECT_FALSE(core.expired());
  EXPECT_EQ(capture.end(), cudaSuccess);
  await([&] { return core.expired(); });
  EXPECT_TRUE(capture.graph_runs());
}

}  // namespace
}  // namespace sluice::test
