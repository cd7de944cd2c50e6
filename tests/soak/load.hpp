// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

namespace sluice::test {

/// A lane with the thread that owns it.
///
/// The thread launches requests in the order of `post`, and they wait while the lane is full. The
/// destructor launches the remaining requests.
class lane_thread {
 public:
  using request = std::function<void(lane&)>;

  explicit lane_thread(std::shared_ptr<device_service> service);
  lane_thread(const lane_thread&) = delete;
  lane_thread& operator=(const lane_thread&) = delete;
  ~lane_thread();

  void post(request r);

 private:
  void run();

  lane lane_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<request> requests_;
  bool has_room_ = true;
  bool ending_ = false;
  std::thread thread_;
};

/// The kinds of requests.
enum class request_kind : std::uint8_t {
  fill,      ///< fills new memory of a random size
  shared,    ///< reads and writes memory that all senders share
  many,      ///< uses 40 blocks
  large,     ///< uses 4 MiB
  refused,   ///< has an operand that is too small
  absurd,    ///< needs 2^50 elements
  failing,   ///< has a closure that throws
  late,      ///< fails on the device; only on the host
  departed,  ///< the client drops its reply and its references at once
};
inline constexpr std::size_t request_kinds = 9;

struct load_totals {
  std::array<std::atomic<std::uint64_t>, request_kinds> sent{};
  std::atomic<std::uint64_t> succeeded{0};
  std::atomic<std::uint64_t> failed{0};

  [[nodiscard]] std::uint64_t requests() const noexcept {
    std::uint64_t sum = 0;
    for (const auto& n : sent) sum += n;
    return sum;
  }
};

/// Clients that send random requests to random lanes, each with a bounded number in flight.
class load {
 public:
  struct options {
    std::size_t senders = 16;
    std::ptrdiff_t in_flight = 64;  ///< for each sender
    std::uint64_t seed = 0;
    std::vector<request_kind> kinds;  ///< drawn with equal probability
  };

  load(device_service& service, std::vector<std::unique_ptr<lane_thread>>& lanes, options o);
  load(const load&) = delete;
  load& operator=(const load&) = delete;
  /// Waits for all answers.
  ~load();

  [[nodiscard]] const load_totals& totals() const noexcept { return totals_; }

 private:
  void send(std::uint64_t seed);
  void send_one(request_kind kind, std::mt19937_64& random,
                const std::shared_ptr<std::counting_semaphore<>>& room);

  device_service& service_;
  std::vector<std::unique_ptr<lane_thread>>& lanes_;
  options options_;
  stream stream_;
  std::vector<gpu_ref<std::uint32_t>> shared_;
  load_totals totals_;
  std::atomic<bool> stopping_{false};
  std::vector<std::thread> threads_;
};

}  // namespace sluice::test
