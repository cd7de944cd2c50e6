// SPDX-License-Identifier: Apache-2.0
#include "runtime/devices/open_devices.hpp"
#include "runtime/host/annotations.hpp"
#include "runtime/host/host_rendezvous.hpp"
#include "runtime/host/host_stream.hpp"
#include "runtime/host/host_threads.hpp"
#include "runtime/host/host_timestamp.hpp"
#include "runtime/host/stream_ordered_pool.hpp"
#include "runtime/reports/slow_wait.hpp"

#include <sluice/runtime/host_device.hpp>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <fstream>
#include <new>
#include <string>
#include <thread>
#include <unistd.h>
#include <unordered_set>

namespace sluice {

namespace host {
namespace {

/// Copies bytes. For the thread of a stream, which helpers of the device help with many bytes.
void copy_bytes(std::byte* destination, const std::byte* source, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  constexpr double nanoseconds_of_page = 400;  // 10 GB/s
  const work_chunks chunks(static_cast<std::int64_t>((bytes + page - 1) / page),
                           nanoseconds_of_page);
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    const auto [first_page, last_page] = chunks[chunk];
    const auto begin = static_cast<std::size_t>(first_page) * page;
    const auto end = std::min(static_cast<std::size_t>(last_page) * page, bytes);
    std::memcpy(destination + begin, source + begin, end - begin);
  });
}

class record_task final : public host_task {
 public:
  record_task(host_event& event, std::uint64_t value, bool takes_failure) noexcept
      : host_task(kind::marker), event_(event), value_(value), takes_failure_(takes_failure) {
    event_.hold();
  }
  ~record_task() override { event_.let_go(); }
  void run(host_stream& stream) override {
    // After a loss no record is reached.
    if (stream.owner().lost()) return;
    event_.reach(value_, takes_failure_ ? stream.take_failure() : std::nullopt);
  }

 private:
  host_event& event_;
  std::uint64_t value_;
  bool takes_failure_;
};

class wait_task final : public host_task {
 public:
  wait_task(host_event& event, std::uint64_t value) noexcept
      : host_task(kind::marker), event_(event), value_(value) {
    event_.hold();
  }
  ~wait_task() override { event_.let_go(); }
  void run(host_stream& stream) override {
    stream.set_computing(false);
    event_.wait(value_, stream.owner());
  }

 private:
  host_event& event_;
  std::uint64_t value_;
};

class timestamp_task final : public host_task {
 public:
  explicit timestamp_task(host_timestamp& stamp) noexcept
      : host_task(kind::marker), stamp_(stamp), record_(stamp.queue_record()) {
    stamp_.hold();
  }
  ~timestamp_task() override { stamp_.let_go(); }
  void run(host_stream& stream) override { stream.take(stamp_, record_); }

 private:
  host_timestamp& stamp_;
  const std::uint32_t record_;
};

class join_task final : public host_task {
 public:
  using function = void (host_rendezvous::*)(host_stream&) noexcept;
  join_task(host_rendezvous& rendezvous, function part) noexcept
      : host_task(kind::marker), rendezvous_(rendezvous), part_(part) {}
  void run(host_stream& stream) override { (rendezvous_.*part_)(stream); }

 private:
  host_rendezvous& rendezvous_;
  function part_;
};

host_stream& as_stream(native_stream* stream) noexcept {
  return *reinterpret_cast<host_stream*>(stream);
}
host_event& as_event(native_event* event) noexcept {
  return *reinterpret_cast<host_event*>(event);
}

host_timestamp& as_timestamp(native_timestamp* stamp) noexcept {
  return *reinterpret_cast<host_timestamp*>(stamp);
}

/// Host timestamps need no conversion: stream threads read the steady clock.
class host_timestamp_clock final : public timestamp_clock {
 public:
  bool anchor() noexcept override { return true; }
  std::optional<std::chrono::steady_clock::time_point> time_of(
      native_timestamp* stamp) noexcept override {
    return as_timestamp(stamp).time();
  }
  std::size_t copy_marks(native_timestamp* stamp,
                         std::span<std::chrono::steady_clock::time_point> times) noexcept override {
    return as_timestamp(stamp).copy_marks(times);
  }
};

const std::string& processor_name() {
  static const auto name = []() -> std::string {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "CPU";
  }();
  return name;
}

/// The host device.
///
/// In a child of `fork` a thread of the parent may have held a lock of the device. Every function
/// therefore checks for the loss, or for a device of the parent, before it locks.
class host_device final : public device {
 public:
  explicit host_device(const host_device_options& options)
      : device({device_kind::host, options.ordinal}),
        options_(options),
        threads_(number_of_threads(options)) {}

  ~host_device() override {
    for (auto& stream : streams_) stream->stop();
    auto pause = std::chrono::microseconds(1);
    detail::slow_wait wait;
    for (;;) {
      const auto busy =
          std::ranges::count_if(streams_, [](const auto& stream) { return !stream->stopped(); });
      if (busy == 0) break;
      wait.look([&] {
        return "closing " + to_string(id()) + ": waiting for tasks on " + std::to_string(busy) +
               (busy == 1 ? " stream" : " streams");
      });
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::microseconds(1000));
    }
    streams_.clear();
    for (auto* event : events_) event->let_go();
    for (auto* address : allocated_) deallocate_aligned(address);
  }

  device_info info() const override {
    const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    return {id(), processor_name(), pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), 0,
            static_cast<int>(std::max(1U, std::thread::hardware_concurrency()))};
  }

  void require_adoptable(native_stream* stream) override {
    require_usable();
    const std::lock_guard lock(mutex_);
    const auto* const address = reinterpret_cast<const host_stream*>(stream);
    const auto known =
        std::ranges::any_of(streams_, [&](const auto& s) { return s.get() == address; });
    if (!known || address->ending()) {
      throw error(errc::invalid_argument, "stream: not a stream of this host device");
    }
  }

  native_stream* create_stream(stream_priority) override {
    require_usable();
    const std::lock_guard lock(mutex_);
    require_usable();  // under the lock: a stream that a loss misses would never be quiescent
    join_stopped();
    // The element first: a stream whose thread runs could not be dropped if this allocation failed.
    auto& place = streams_.emplace_back();
    try {
      place = std::make_unique<host_stream>(*this, ++stream_count_, options_, threads_);
    } catch (...) {
      streams_.pop_back();
      throw;
    }
    return reinterpret_cast<native_stream*>(place.get());
  }

  void destroy_stream(native_stream* stream) noexcept override {
    if (inherited()) return;
    const std::lock_guard lock(mutex_);
    as_stream(stream).stop();
  }

  void synchronize(native_stream* stream) override {
    require_usable();
    auto point = take_meeting();
    struct back {
      host_device& device;
      meeting& point;
      ~back() {
        const std::lock_guard lock(device.mutex_);
        device.meetings_.push_back(point);  // has capacity
      }
    } const giving_back{*this, point};
    // Earlier failures belong to tickets, not to this meeting.
    auto* const task = new record_task(as_event(point.event), ++point.value, false);
    as_event(point.event).mark_recorded(point.value);
    as_stream(stream).submit(task);
    as_event(point.event).wait(point.value, *this);
    require_usable();
  }

  native_event* create_event() override {
    require_usable();
    const std::lock_guard lock(mutex_);
    auto event = std::make_unique<host_event>();
    events_.insert(event.get());
    return reinterpret_cast<native_event*>(event.release());
  }

  void destroy_event(native_event* event) noexcept override {
    if (inherited()) return;
    const std::lock_guard lock(mutex_);
    // A pending event must be woken by a loss, so it stays as long as the device.
    if (as_event(event).pending()) return;
    events_.erase(&as_event(event));
    as_event(event).let_go();
  }

  void record(native_event* event, std::uint64_t value, native_stream* stream) override {
    require_usable();
    auto* const task = new record_task(as_event(event), value, true);
    as_event(event).mark_recorded(value);
    as_stream(stream).submit(task);
  }

  void wait(native_stream* stream, native_event* event, std::uint64_t value) override {
    require_usable();
    if (!as_event(event).was_recorded(value)) {
      throw error(errc::stream_misuse, "event: the event has not been recorded");
    }
    as_stream(stream).submit(new wait_task(as_event(event), value));
  }

  void require_followable(native_stream* stream) override {
    require_usable();
    // Values up to 2 are CUDA's default streams, not addresses.
    if (reinterpret_cast<std::uintptr_t>(stream) <= 2) {
      throw error(errc::invalid_argument, "stream: a host device has no default streams");
    }
  }

  void follow(native_stream* stream, native_stream* source) override {
    require_usable();
    auto rendezvous = std::make_unique<host_rendezvous>();
    auto reach = std::make_unique<join_task>(*rendezvous, &host_rendezvous::reach);
    auto wait = std::make_unique<join_task>(*rendezvous, &host_rendezvous::wait);
    (void)rendezvous.release();  // the tasks own it now
    as_stream(source).submit(reach.release());
    as_stream(stream).submit(wait.release());
  }

  event_state query(native_event* event, std::uint64_t value) noexcept override {
    const auto state = as_event(event).state(value);
    return state == event_state::pending && lost() ? event_state::lost : state;
  }

  void acquire(native_event* event, std::uint64_t) noexcept override { as_event(event).acquire(); }
  error failure_of(native_event* event) override { return as_event(event).failure(); }
  bool reports_task_failures() const noexcept override { return true; }
  bool quiescent(native_stream* stream, native_event*) noexcept override {
    if (!lost()) return false;
    if (inherited()) return true;  // no thread of this process runs its work
    const std::lock_guard lock(mutex_);
    const auto position = std::find_if(streams_.begin(), streams_.end(), [&](const auto& s) {
      return s.get() == &as_stream(stream);
    });
    // A destroyed one has been joined.
    return position == streams_.end() || (*position)->quiescent();
  }

  native_timestamp* create_timestamp() override {
    return reinterpret_cast<native_timestamp*>(new host_timestamp);
  }
  void destroy_timestamp(native_timestamp* stamp) noexcept override {
    as_timestamp(stamp).let_go();
  }
  bool record_timestamp(native_timestamp* stamp, native_stream* stream) noexcept override {
    if (lost()) return false;
    auto* const task = new (std::nothrow) timestamp_task(as_timestamp(stamp));
    if (task == nullptr) return false;
    as_stream(stream).submit(task);
    return true;
  }
  std::unique_ptr<timestamp_clock> make_timestamp_clock() override {
    return std::make_unique<host_timestamp_clock>();
  }

  void* allocate(std::size_t bytes) override {
    count_allocation(bytes);
    auto* address = allocate_aligned(bytes);
    const std::lock_guard lock(mutex_);
    try {
      allocated_.insert(address);
    } catch (...) {
      deallocate_aligned(address);
      throw;
    }
    return address;
  }
  void deallocate(void* address) noexcept override {
    if (inherited()) return;
    {
      const std::lock_guard lock(mutex_);
      if (allocated_.erase(address) == 0) return;
    }
    deallocate_aligned(address);
  }

  void* allocate_async(std::size_t bytes, native_stream* stream) override {
    count_allocation(bytes);
    return pool_.allocate(bytes, as_stream(stream));
  }
  void deallocate_async(void* address, native_stream* stream) noexcept override {
    if (!lost()) pool_.deallocate(address, as_stream(stream));
  }

  void deallocate_finished(void* address) noexcept override {
    if (!lost()) pool_.deallocate_finished(address);
  }
  std::size_t trim_async() noexcept override { return inherited() ? 0 : pool_.trim(); }
  std::size_t pool_bytes() noexcept override { return inherited() ? 0 : pool_.bytes(); }

  void* allocate_staging(std::size_t bytes) override { return allocate_aligned(bytes); }
  void deallocate_staging(void* address) noexcept override { deallocate_aligned(address); }

  void copy(void* destination, const void* source, std::size_t bytes, copy_direction,
            native_stream* stream) override {
    require_usable();
    if (bytes == 0) return;
    auto task = [destination, source, bytes] {
      copy_bytes(static_cast<std::byte*>(destination), static_cast<const std::byte*>(source),
                 bytes);
    };
    as_stream(stream).submit_counted(new function_task<decltype(task)>(std::move(task)),
                                     fault_target::copy);
  }

  void copy_from_peer(void*, sluice::device&, const void*, std::size_t, native_stream*) override {
    throw error(errc::unsupported, "a host device does not support copies from peers");
  }

  void wait_for_word(native_stream* stream, const std::atomic<std::uint32_t>& word,
                     std::uint32_t value) override {
    require_usable();
    auto task = [this, &word, value] {
      host_stream::of_this_thread()->set_computing(false);
      const auto reached = [&] {
        return static_cast<std::int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
      };
      for (auto pause = std::chrono::microseconds(1); !reached() && !lost();
           pause = std::min(pause * 2, std::chrono::microseconds(500))) {
        std::this_thread::sleep_for(pause);
      }
    };
    as_stream(stream).submit(new function_task<decltype(task)>(std::move(task)));
  }

  void write_word(native_stream* stream, std::atomic<std::uint32_t>& word,
                  std::uint32_t value) override {
    require_usable();
    auto task = [&word, value] {
      word.store(value, std::memory_order_release);
    };
    as_stream(stream).submit(new function_task<decltype(task)>(std::move(task)));
  }

  void fill(void* destination, const void* pattern, std::size_t pattern_bytes, std::size_t count,
            native_stream* stream) override {
    require_usable();
    std::array<std::byte, 16> value{};
    if (!std::has_single_bit(pattern_bytes) || pattern_bytes > value.size()) {
      throw error(
          errc::invalid_argument,
          "fill: pattern_bytes is " + std::to_string(pattern_bytes) + "; must be 1, 2, 4, 8 or 16");
    }
    std::memcpy(value.data(), pattern, pattern_bytes);
    auto task = [destination, value, pattern_bytes, count] {
      auto* bytes = static_cast<std::byte*>(destination);
      if (pattern_bytes == 1) {
        std::memset(bytes, std::to_integer<int>(value[0]), count);
        return;
      }
      for (std::size_t i = 0; i < count; ++i)
        std::memcpy(bytes + i * pattern_bytes, value.data(), pattern_bytes);
    };
    as_stream(stream).submit_counted(new function_task<decltype(task)>(std::move(task)),
                                     fault_target::copy);
  }

  void notify(native_stream* stream, std::function<void()> function) override {
    require_usable();
    as_stream(stream).submit(new function_task<std::function<void()>>(std::move(function)));
  }

 protected:
  activity running() noexcept override {
    const std::lock_guard lock(mutex_);
    auto busiest = activity::none;
    for (const auto& stream : streams_) {
      if (stream->quiescent() || stream.get() == host_stream::of_this_thread()) continue;
      busiest = std::max(busiest, stream->in_library() ? activity::library_call : activity::task);
    }
    return busiest;
  }
  void on_loss() noexcept override {
    const std::lock_guard lock(mutex_);
    for (auto* event : events_) event->wake();
    for (auto& stream : streams_) stream->submit_quiescence();
  }

 private:
  /// An event at which a synchronizing thread meets a stream, and the value last recorded in it.
  struct meeting {
    native_event* event = nullptr;
    std::uint64_t value = 0;
  };
  meeting take_meeting() {
    {
      const std::lock_guard lock(mutex_);
      if (!meetings_.empty()) {
        const auto last = meetings_.back();
        meetings_.pop_back();
        return last;
      }
      meetings_.reserve(++meeting_count_);
    }
    return {create_event(), 0};
  }

  void count_allocation(std::size_t bytes) {
    require_usable();
    if (options_.faults && options_.faults->strikes(fault_target::allocation)) {
      throw error(errc::out_of_memory,
                  "scripted failure to allocate " + std::to_string(bytes) + " bytes");
    }
  }

  void join_stopped() {
    std::erase_if(streams_, [](const auto& stream) { return stream->stopped(); });
  }

  /// One if ThreadSanitizer judges the order of streams, which helpers would add to.
  static int number_of_threads(const host_device_options& options) noexcept {
    if (thread_sanitizer_on) return 1;
    return options.threads == 0 ? host_threads::available_processors() : options.threads;
  }

  host_device_options options_;
  host_threads threads_;
  std::mutex mutex_;
  stream_ordered_pool pool_;
  std::unordered_set<host_event*> events_;
  std::vector<meeting> meetings_;
  std::size_t meeting_count_ = 0;
  std::unordered_set<void*> allocated_;
  std::vector<std::unique_ptr<host_stream>>
      streams_;  // last: their threads exit before other members are destroyed
  std::uint64_t stream_count_ = 0;
};

}  // namespace
}  // namespace host

std::shared_ptr<device> open_host_device(const host_device_options& options) {
  if (options.ordinal < 0) {
    throw error(errc::invalid_argument,
                "ordinal is " + std::to_string(options.ordinal) + "; must not be negative");
  }
  if (options.threads < 0) {
    throw error(errc::invalid_argument,
                "threads is " + std::to_string(options.threads) + "; must not be negative");
  }
  if (options.jitter && options.jitter->longest.count() < 0) {
    throw error(errc::invalid_argument, "jitter.longest is " +
                                            std::to_string(options.jitter->longest.count()) +
                                            " us; must not be negative");
  }
  const auto close = [](host::host_device* device) {
    if (device->inherited()) return;  // the streams' threads belong to the parent
    // The exit of the process must not reach a device that is being destroyed.
    detail::open_devices::instance().remove(*device);
    // A task of the device may have held the last reference, and its thread cannot join itself.
    if (host::host_stream::of_this_thread() != nullptr) {
      std::thread([device] { delete device; }).detach();
    } else {
      delete device;
    }
  };
  std::shared_ptr<host::host_device> device(new host::host_device(options), close);
  detail::open_devices::instance().add(*device);
  return device;
}

}  // namespace sluice
