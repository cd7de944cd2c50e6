// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/cuda_device.hpp"

#include "runtime/cuda/check.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/cuda_timestamp_clock.hpp"
#include "runtime/cuda/fill.hpp"
#include "runtime/cuda/green_context.hpp"
#include "runtime/cuda/native.hpp"
#include "runtime/devices/library_call.hpp"
#include "runtime/devices/open_devices.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cuda {
namespace {

// Constructed in advance, for when the host has no memory for a text.
const error& failed_without_words =
    *new error(errc::library_failure, "the GPU failed");  // never destroyed

class cuda_device final : public device {
 public:
  explicit cuda_device(int ordinal)
      : device({device_kind::cuda, ordinal}), context_(primary_context(ordinal)) {
    const current_device_scope scope(*this);
    check(static_cast<cudaError_t>(load_fill()));
    std::size_t unused = 0;
    check(cudaMemGetInfo(&unused, &memory_));
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    check(cudaMemPoolCreate(&pool_, &properties));
    // Keeps freed memory, so that a steady state makes no system call and reuses addresses.
    auto threshold = ~std::uint64_t{0};
    auto status = cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &threshold);
    // The driver must not order streams after each other itself, because a free must not delay a
    // lane.
    int disabled = 0;
    if (status == cudaSuccess) {
      status = cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &disabled);
    }
    if (status != cudaSuccess) (void)cudaMemPoolDestroy(pool_);
    check(status);
  }

  ~cuda_device() override {
    const current_device_scope scope(*this);
    if (pool_ != nullptr && !lost()) (void)cudaMemPoolDestroy(pool_);
    if (lost()) (void)captures_.release();  // the driver may abort
  }

  device_info info() const override { return describe(id().ordinal); }

  native_stream* create_stream(stream_priority priority) override {
    require_usable();
    const current_device_scope scope(*this);
    int least = 0;
    int greatest = 0;
    checked(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    cudaStream_t stream = nullptr;
    checked(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                         priority == stream_priority::high ? greatest : least));
    return reinterpret_cast<native_stream*>(stream);
  }
  void require_adoptable(native_stream* stream) override {
    require_usable();
    const auto native = as_stream(stream);
    if (native == nullptr || native == cudaStreamLegacy || native == cudaStreamPerThread) {
      throw error(
          errc::invalid_argument,
          "stream: default streams cannot be adopted, because their order depends on other streams "
          "or on the calling thread");
    }
    const current_device_scope scope(*this);
    refuse_capturing(stream);
    require_own(native);
  }
  void destroy_stream(native_stream* stream) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) (void)cudaStreamDestroy(as_stream(stream));
  }
  bool capturing(native_stream* stream) noexcept override {
    if (lost()) return false;
    // A default stream is that of the current device.
    const launch_scope scope(context_);
    auto status = cudaStreamCaptureStatusNone;
    const auto answer = cudaStreamIsCapturing(as_stream(stream), &status);
    if (answer == cudaSuccess) return status != cudaStreamCaptureStatusNone;
    (void)cudaGetLastError();
    // The legacy default stream answers this while a stream that it waits for is being captured.
    return answer == cudaErrorStreamCaptureImplicit;
  }
  bool captured(native_event* event) noexcept override {
    if (lost()) return false;
    const current_device_scope scope(*this);
    const auto status = cudaEventQuery(as_event(event));
    if (status != cudaSuccess) (void)cudaGetLastError();
    return status == cudaErrorCapturedEvent;
  }
  void synchronize(native_stream* stream) override {
    require_usable();
    // The driver would refuse the call and end the capture.
    if (capturing(stream)) throw error(errc::stream_misuse, "the stream is being captured");
    // A default stream is that of the current device.
    const current_device_scope scope(*this);
    checked(cudaStreamSynchronize(as_stream(stream)));
  }

  native_event* create_event() override {
    require_usable();
    const current_device_scope scope(*this);
    cudaEvent_t event = nullptr;
    checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return reinterpret_cast<native_event*>(event);
  }
  void destroy_event(native_event* event) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) (void)cudaEventDestroy(as_event(event));
  }
  void record(native_event* event, std::uint64_t, native_stream* stream) override {
    require_usable();
    const launch_scope scope(context_);
    checked(cudaEventRecord(as_event(event), as_stream(stream)));
  }
  void wait(native_stream* stream, native_event* event, std::uint64_t) override {
    require_usable();
    const launch_scope scope(context_);
    checked(cudaStreamWaitEvent(as_stream(stream), as_event(event), 0));
  }
  void require_followable(native_stream* stream) override {
    require_usable();
    const current_device_scope scope(*this);
    refuse_capturing(stream);
    const auto native = as_stream(stream);
    // A default stream is that of the current device.
    if (native != cudaStreamLegacy && native != cudaStreamPerThread) require_own(native);
  }
  void follow(native_stream* stream, native_stream* source) override {
    require_usable();
    // A default stream is that of the current device.
    const current_device_scope scope(*this);
    // If only one is captured, the operation would join the other to the capture, or end it.
    refuse_capturing(source);
    refuse_capturing(stream);
    cudaEvent_t event = nullptr;
    checked(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    auto status = cudaEventRecord(event, as_stream(source));
    if (status == cudaSuccess) status = cudaStreamWaitEvent(as_stream(stream), event, 0);
    // The driver destroys the event once it has completed. The queued wait remains.
    if (!lost()) (void)cudaEventDestroy(event);
    checked(status);
  }
  event_state query(native_event* event, std::uint64_t) noexcept override {
    const detail::library_call call;
    if (lost()) return event_state::lost;
    const current_device_scope scope(*this);
    const auto status = cudaEventQuery(as_event(event));
    if (status == cudaSuccess) return event_state::complete;
    (void)cudaGetLastError();
    if (status == cudaErrorNotReady) return event_state::pending;
    // If an event of this device is unknown, its context has been destroyed.
    if (sticky(status) || status == cudaErrorInvalidResourceHandle ||
        status == cudaErrorCudartUnloading) {
      lose_for(status);
      return event_state::lost;
    }
    // Any other error, for example one of a capture, says nothing about the work.
    return event_state::pending;
  }
  native_timestamp* create_timestamp() override {
    require_usable();
    const current_device_scope scope(*this);
    cudaEvent_t event = nullptr;
    checked(cudaEventCreateWithFlags(&event, cudaEventDefault));
    return reinterpret_cast<native_timestamp*>(event);
  }
  void destroy_timestamp(native_timestamp* stamp) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) (void)cudaEventDestroy(as_event(stamp));
  }
  bool record_timestamp(native_timestamp* stamp, native_stream* stream) noexcept override {
    if (lost()) return false;
    const launch_scope scope(context_);
    const auto status = cudaEventRecord(as_event(stamp), as_stream(stream));
    if (status == cudaSuccess) return true;
    (void)cudaGetLastError();
    note(status);
    return false;
  }
  std::unique_ptr<timestamp_clock> make_timestamp_clock() override { return make_clock(*this); }
  void acquire(native_event*, std::uint64_t) noexcept override {}
  bool needs_acquire() const noexcept override { return false; }
  error failure_of(native_event*) override { return {errc::library_failure, "unknown failure"}; }
  bool reports_task_failures() const noexcept override { return false; }

  void* allocate(std::size_t bytes) override {
    require_usable();
    const current_device_scope scope(*this);
    void* address = nullptr;
    checked(cudaMalloc(&address, bytes), bytes);
    return address;
  }
  void deallocate(void* address) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) note(cudaFree(address));
  }
  void* allocate_async(std::size_t bytes, native_stream* stream) override {
    require_usable();
    // The driver would empty its pool before it fails.
    if (bytes > memory_) checked(cudaErrorMemoryAllocation, bytes);
    const current_device_scope scope(*this);
    void* address = nullptr;
    checked(cudaMallocFromPoolAsync(&address, bytes, pool_, as_stream(stream)), bytes);
    return address;
  }
  void deallocate_async(void* address, native_stream* stream) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) note(cudaFreeAsync(address, as_stream(stream)));
  }
  void deallocate_finished(void* address) noexcept override {
    const current_device_scope scope(*this);
    // For memory of a pool, the driver assumes that no work uses it: `cudaFree` synchronizes with
    // nothing, and a trim can return the memory at once.
    if (!lost()) note(cudaFree(address));
  }
  std::size_t trim_async() noexcept override {
    if (lost()) return 0;
    const current_device_scope scope(*this);
    const auto bytes_before = reserved();
    note(cudaMemPoolTrimTo(pool_, 0));
    const auto bytes_after = reserved();
    return bytes_before > bytes_after ? bytes_before - bytes_after : 0;
  }
  std::size_t pool_bytes() noexcept override {
    if (lost()) return 0;
    const current_device_scope scope(*this);
    return reserved();
  }
  void* allocate_staging(std::size_t bytes) override {
    require_usable();
    const current_device_scope scope(*this);
    void* address = nullptr;
    checked(cudaHostAlloc(&address, bytes, cudaHostAllocDefault), bytes);
    return address;
  }
  void deallocate_staging(void* address) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) note(cudaFreeHost(address));
  }

  void pin(void* address, std::size_t bytes) override {
    require_usable();
    const current_device_scope scope(*this);
    checked(cudaHostRegister(address, bytes, cudaHostRegisterDefault), bytes);
  }
  void unpin(void* address) noexcept override {
    const current_device_scope scope(*this);
    if (!lost()) note(cudaHostUnregister(address));
  }

  void copy(void* destination, const void* source, std::size_t bytes, copy_direction direction,
            native_stream* stream) override {
    require_usable();
    if (bytes == 0) return;
    const current_device_scope scope(*this);
    const auto kind = direction == copy_direction::device_to_device ? cudaMemcpyDeviceToDevice
                      : direction == copy_direction::host_to_device ? cudaMemcpyHostToDevice
                                                                    : cudaMemcpyDeviceToHost;
    checked(cudaMemcpyAsync(destination, source, bytes, kind, as_stream(stream)));
  }
  void copy_from_peer(void* destination, device& peer, const void* source, std::size_t bytes,
                      native_stream* stream) override {
    require_usable();
    if (bytes == 0) return;
    if (peer.id() == id()) {
      copy(destination, source, bytes, copy_direction::device_to_device, stream);
      return;
    }
    prepare_copies_from(peer);
    const current_device_scope scope(*this);
    checked(cudaMemcpyPeerAsync(destination, id().ordinal, source, peer.id().ordinal, bytes,
                                as_stream(stream)));
  }
  void prepare_copies_from(device& peer) override {
    if (peer.id() == id()) return;
    static_cast<cuda_device&>(peer).let_all_reach();
    let_all_reach();
  }
  bool supports_words() const noexcept override {
    return driver().stream_wait_value != nullptr && driver().stream_write_value != nullptr;
  }
  bool tells_completion_by_words() const noexcept override { return supports_words(); }
  void wait_for_word(native_stream* stream, const std::atomic<std::uint32_t>& word,
                     std::uint32_t value) override {
    static_assert(CU_STREAM_WAIT_VALUE_GEQ == 0);
    stream_memory_operation(driver().stream_wait_value, "cuStreamWaitValue32", stream, word, value);
  }
  void write_word(native_stream* stream, std::atomic<std::uint32_t>& word,
                  std::uint32_t value) override {
    static_assert(CU_STREAM_WRITE_VALUE_DEFAULT == 0);  // after a system-wide fence
    stream_memory_operation(driver().stream_write_value, "cuStreamWriteValue32", stream, word,
                            value);
  }
  void fill(void* destination, const void* pattern, std::size_t pattern_bytes, std::size_t count,
            native_stream* stream) override {
    require_usable();
    if (count == 0) return;
    const current_device_scope scope(*this);
    switch (pattern_bytes) {
      case 1:
        checked(cudaMemsetAsync(destination, *static_cast<const unsigned char*>(pattern), count,
                                as_stream(stream)));
        return;
      case 2:
      case 4:
      case 8:
      case 16:
        checked(static_cast<cudaError_t>(
            launch_fill(destination, pattern, pattern_bytes, count, stream)));
        return;
      default:
        throw error(errc::invalid_argument, "fill: pattern_bytes is " +
                                                std::to_string(pattern_bytes) +
                                                "; must be 1, 2, 4, 8 or 16");
    }
  }
  void notify(native_stream* stream, std::function<void()> function) override {
    require_usable();
    const current_device_scope scope(*this);
    auto owner = std::make_unique<std::function<void()>>(std::move(function));
    const auto call = [](void* data) {
      const std::unique_ptr<std::function<void()>> f(static_cast<std::function<void()>*>(data));
      (*f)();
    };
    checked(cudaLaunchHostFunc(as_stream(stream), call, owner.get()));
    // The driver owns it now. A fault leaks it, because the function then never runs.
    (void)owner.release();
  }

  // A device that was given up may be healthy and still run its work. After a fault nothing runs,
  // and the driver reports the fault.
  bool quiescent(native_stream* stream, native_event* last) noexcept override {
    const detail::library_call call;
    if (!lost() || detail::driver_ends()) return false;
    const current_device_scope scope(*this);
    auto status = cudaErrorNotReady;
    if (last != nullptr) {
      status = cudaEventQuery(as_event(last));
    } else {
      // Querying a stream that is being captured would end the capture.
      auto capture = cudaStreamCaptureStatusNone;
      status = cudaStreamIsCapturing(as_stream(stream), &capture);
      if (status == cudaSuccess && capture == cudaStreamCaptureStatusNone) {
        status = cudaStreamQuery(as_stream(stream));
      } else if (status == cudaSuccess) {
        return false;
      }
    }
    if (status == cudaSuccess) return true;
    (void)cudaGetLastError();
    return sticky(status) || status == cudaErrorInvalidResourceHandle;
  }

  void prepare_own_thread() noexcept override { keep_current(context_); }
  void* enter() noexcept override { return cuda::enter(context_); }
  void leave(void* previous) noexcept override { cuda::leave(previous); }
  bool enter_capture() noexcept override {
    if (lost()) return false;
    std::call_once(captures_once_, [this] {
      const current_device_scope scope(*this);
      captures_ = green_context::create(id().ordinal);
    });
    if (captures_ == nullptr) return false;
    begin_replacement(context_, captures_->get());
    return true;
  }
  void leave_capture() noexcept override { end_replacement(); }

 private:
  /// Calls a stream memory operation. Both take a stream, an address, a value and flags.
  /// @throws error `unsupported` if the driver has no stream memory operations
  /// @throws error `library_failure`
  /// @throws error `device_lost`
  void stream_memory_operation(decltype(driver_functions::stream_wait_value) operation,
                               const char* name, native_stream* stream,
                               const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    require_usable();
    if (operation == nullptr) {
      throw error(errc::unsupported, "the driver of " + to_string(id()) +
                                         " does not support stream memory operations");
    }
    const current_device_scope scope(*this);
    // Pinned memory has the same address on the device.
    const CUresult status =
        operation(as_stream(stream), reinterpret_cast<CUdeviceptr>(&word), value, 0);
    if (status != CUDA_SUCCESS) {
      throw error(errc::library_failure,
                  std::string(name) + " failed with status " + std::to_string(status),
                  {"CUDA driver", static_cast<long>(status)});
    }
  }
  /// Checks that `stream` belongs to this GPU, which only then accepts an event of it.
  /// @throws error `invalid_argument` if it belongs to another GPU
  /// @throws error `device_lost`
  void require_own(cudaStream_t stream) {
    auto* const event = create_event();
    const auto status = cudaEventRecord(as_event(event), stream);
    destroy_event(event);
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();
    note(status);
    require_usable();
    throw error(errc::invalid_argument, "stream: not a stream of " + to_string(id()),
                {"CUDA runtime", static_cast<long>(status)});
  }
  /// The bytes that the pool has taken from the GPU, which must be current.
  [[nodiscard]] std::size_t reserved() noexcept {
    std::uint64_t bytes = 0;
    (void)cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes);
    return bytes;
  }
  /// Checks a call that may reveal the loss of the device.
  void checked(cudaError_t status, std::size_t bytes = 0,
               source_location location = source_location::current()) {
    if (status == cudaSuccess) return;
    (void)cudaGetLastError();
    if (status == cudaErrorMemoryAllocation) {
      throw error(errc::out_of_memory,
                  to_string(id()) + ": out of memory" +
                      (bytes == 0 ? std::string() : ": " + std::to_string(bytes) + " bytes"),
                  {"CUDA runtime", static_cast<long>(status)}, location);
    }
    note(status);
    require_usable();
    throw error_of(status, location);
  }
  /// Declares the device lost if every later call fails after `status`.
  void note(cudaError_t status) noexcept {
    if (sticky(status)) lose_for(status);
  }
  void lose_for(cudaError_t status) noexcept {
    try {
      lose(error_of(status));
    } catch (...) {
      lose(failed_without_words);
    }
  }

  /// Refuses a stream that is being captured.
  /// @throws error `invalid_argument`
  void refuse_capturing(native_stream* stream) {
    if (!capturing(stream)) return;
    throw error(
        errc::invalid_argument,
        "stream: the stream is being captured; other work cannot be ordered with a capture");
  }

  /// Lets all other GPUs reach this pool, where the hardware can; otherwise copies pass through the
  /// host. Both devices of a copy do this before their first copy, because the driver chooses the
  /// GPU that copies, and a GPU may fault if access changes while it copies. See
  /// docs/concepts/devices_and_streams.md.
  void let_all_reach() {
    if (reachable_.load(std::memory_order_acquire)) return;
    const current_device_scope scope(*this);
    const std::lock_guard lock(reachable_mutex_);
    if (reachable_.load(std::memory_order_relaxed)) return;
    std::vector<cudaMemAccessDesc> peers;
    for (int other = 0; other < device_count(); ++other) {
      int accessible = 0;
      if (other == id().ordinal ||
          cudaDeviceCanAccessPeer(&accessible, other, id().ordinal) != cudaSuccess ||
          accessible == 0) {
        continue;
      }
      auto& access = peers.emplace_back();
      access.location.type = cudaMemLocationTypeDevice;
      access.location.id = other;
      access.flags = cudaMemAccessFlagsProtReadWrite;
    }
    if (!peers.empty() && cudaMemPoolSetAccess(pool_, peers.data(), peers.size()) != cudaSuccess) {
      // One by one: those that can.
      for (const auto& other : peers) (void)cudaMemPoolSetAccess(pool_, &other, 1);
    }
    (void)cudaGetLastError();
    reachable_.store(true, std::memory_order_release);
  }

  const CUcontext context_;
  std::once_flag captures_once_;
  std::unique_ptr<green_context> captures_;  // in which streams are captured
  std::size_t memory_ = 0;                   // of the GPU, in bytes
  cudaMemPool_t pool_ = nullptr;
  std::mutex reachable_mutex_;
  std::atomic<bool> reachable_{false};
};

}  // namespace

std::shared_ptr<device> open(int ordinal) {
  const auto close = [](cuda_device* device) {
    if (device->inherited()) return;  // the driver's state belongs to the parent
    detail::open_devices::instance().remove(*device);
    delete device;
  };
  std::shared_ptr<cuda_device> device(new cuda_device(ordinal), close);
  detail::open_devices::instance().add(*device);
  return device;
}

}  // namespace sluice::cuda
