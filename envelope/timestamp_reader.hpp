// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/seam.hpp"

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/recycled_memory.hpp>
#include <sluice/runtime/device.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace sluice::detail {

class timestamp_reader;

/// The two timestamps around the work of a launch, or of a batch of launches.
struct timestamp_pair {
  native_timestamp* begin = nullptr;
  native_timestamp* end = nullptr;
  std::atomic<std::uint64_t>* free = nullptr;  // the word of its chunk
  std::uint64_t bit = 0;                       // its bit in that word
  std::atomic<std::size_t> users{0};           // launches
  std::atomic<std::uint64_t> times_taken{0};
};

/// The state that the timestamp thread needs of one launch. Taking a pair of timestamps does not
/// order a launch after earlier ones.
struct timed_launch {
  timed_launch() = default;
  explicit timed_launch(recycled_memory& owner) noexcept : memory(&owner) {}
  timed_launch(const timed_launch&) = delete;
  timed_launch& operator=(const timed_launch&) = delete;
  ~timed_launch();
  /// It lies in recycled memory.
  ///@{
  static void* operator new(std::size_t bytes, recycled_memory& owner) { return owner.take(bytes); }
  static void operator delete(void* block, recycled_memory& owner) noexcept {
    owner.give_back(block);
  }
  static void operator delete(timed_launch* launch, std::destroying_delete_t) noexcept {
    auto& owner = *launch->memory;
    launch->~timed_launch();
    owner.give_back(launch);
  }
  ///@}
  /// Takes a pair of timestamps, if there is a free one.
  void take_pair() noexcept;
  /// Gives up the timestamps. They become available to others when nobody shares them any more.
  void give_back() noexcept;
  /// Takes part in the timestamps of another launch.
  void share(const timed_launch& other) noexcept;

  // Until the reader stops, completion threads use the members before `memory` only.
  std::shared_ptr<timestamp_reader> reader;
  std::shared_ptr<kernel_trace> trace;  // keeps the strings of `info` alive
  timed_launch* next = nullptr;
  kernel_times times;
  recycled_memory* memory = nullptr;
  timestamp_pair* pair = nullptr;
  std::uint64_t use_of_pair = 0;
  bool begun = false;  // the first timestamp has been recorded
  bool ended = false;  // the second timestamp has been recorded
  kernel_info info;
};

/// Reads the timestamps of completed launches on a thread of its own.
class timestamp_reader : public std::enable_shared_from_this<timestamp_reader> {
 public:
  explicit timestamp_reader(std::shared_ptr<sluice::device> device) : device_(std::move(device)) {}
  timestamp_reader(const timestamp_reader&) = delete;
  timestamp_reader& operator=(const timestamp_reader&) = delete;
  ~timestamp_reader();

  /// Makes the state of a launch in a block of `memory`, and starts the thread.
  /// @throws error `device_lost` if the device is lost; in a child of `fork` without locking
  /// @throws std::bad_alloc if there is no memory
  /// @throws std::system_error if the thread cannot be started
  [[nodiscard]] std::unique_ptr<timed_launch> make(recycled_memory& memory);
  [[nodiscard]] sluice::device& device() const noexcept { return *device_; }
  /// Passes a completed launch to the thread. Takes no lock and makes no driver call.
  void hand_over(std::unique_ptr<timed_launch> launch) noexcept;
  /// Returns when all launches handed over so far have been delivered.
  ///
  /// Launches handed over later are delivered at once by the calling thread, without timestamps.
  void stop() noexcept;

 private:
  static constexpr std::size_t pairs_in_chunk = 64;
  static constexpr std::size_t max_chunks = 64;
  /// A group of 64 pairs that are created together. Bit i of `free` stands for pair i.
  struct chunk {
    std::array<timestamp_pair, pairs_in_chunk> pairs{};
    std::atomic<std::uint64_t> free{~std::uint64_t{0}};
  };

  friend struct timed_launch;

  void start();
  /// A free pair; nullptr if the device has no timestamps, or if too many are in use.
  [[nodiscard]] timestamp_pair* take() noexcept;
  [[nodiscard]] bool grow(std::size_t chunk_count) noexcept;
  void destroy(const chunk& c) noexcept;
  void run() noexcept;
  /// Reads and delivers the launches in the inbox. Returns whether there was one.
  bool read_inbox() noexcept;
  /// Closes the inbox if it is empty. Returns whether it did.
  [[nodiscard]] bool close() noexcept;
  void read(timed_launch& launch) noexcept;
  static void deliver(std::unique_ptr<timed_launch> launch) noexcept;
  [[nodiscard]] timed_launch* closed() noexcept { return &closed_; }

  const std::shared_ptr<sluice::device> device_;
  std::mutex starting_;  // only launching threads and `stop` take it
  std::thread thread_;
  std::atomic<bool> started_{false};
  std::atomic<bool> stopping_{false};
  std::atomic<std::size_t> outstanding_{0};  // launches that were made and have not been destroyed
  std::array<std::unique_ptr<chunk>, max_chunks> chunks_;
  std::atomic<std::size_t> chunk_count_{0};

  std::atomic<timed_launch*> inbox_{nullptr};  // newest first
  timed_launch closed_;                        // the inbox holds it after `close`
  one_way_signal changed_;

  // Only the timestamp thread uses these:
  std::unique_ptr<timestamp_clock> clock_;
  std::chrono::steady_clock::time_point anchored_{};
  struct {
    const timestamp_pair* pair = nullptr;
    std::uint64_t use = 0;
    std::optional<std::chrono::steady_clock::time_point> begun{};
    std::optional<std::chrono::steady_clock::time_point> ended{};
  } last_read_;  // the launches of a batch share it
};

}  // namespace sluice::detail
