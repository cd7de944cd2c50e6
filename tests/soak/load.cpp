// SPDX-License-Identifier: Apache-2.0
#include "tests/soak/load.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sluice::test {
namespace {

using words = gpu_ref<std::uint32_t>;

constexpr std::size_t largest = std::size_t{1} << 14U;      // words
constexpr std::size_t large_size = std::size_t{1} << 20U;   // words
constexpr std::size_t absurd_size = std::size_t{1} << 50U;  // words
constexpr std::size_t shared_blocks = 8;
constexpr std::size_t shared_size = 1024;  // words

/// Draws a size; each power of two is equally likely.
std::size_t random_size(std::mt19937_64& random) {
  const auto bits = std::uniform_int_distribution<unsigned>(1, 14)(random);
  return std::min(largest, std::uniform_int_distribution<std::size_t>(1, 1ULL << bits)(random));
}

void enqueue_fill(const launch_context& context, std::uint32_t* target, std::size_t count) {
  const std::uint32_t value = 7;
  context.stream.device().fill(target, &value, sizeof value, count, context.native());
}

}  // namespace

lane_thread::lane_thread(std::shared_ptr<device_service> service) : lane_(std::move(service)) {
  lane_.on_room([this] {
    {
      const std::lock_guard lock(mutex_);
      has_room_ = true;
    }
    changed_.notify_one();
  });
  thread_ = std::thread([this] { run(); });
}

lane_thread::~lane_thread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
  // The function of `on_room` refers to this object.
  while (lane_.in_flight() != 0) std::this_thread::yield();
}

void lane_thread::post(request r) {
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(r));
  }
  changed_.notify_one();
}

void lane_thread::run() {
  for (;;) {
    request next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return has_room_ && (ending_ || !requests_.empty()); });
      if (requests_.empty()) return;
      if (lane_.full()) {
        has_room_ = false;
        lock.unlock();
        const bool called = lane_.want_room();
        lock.lock();
        if (!called) has_room_ = true;
        continue;
      }
      next = std::move(requests_.front());
      requests_.pop_front();
    }
    next(lane_);
  }
}

load::load(device_service& service, std::vector<std::unique_ptr<lane_thread>>& lanes, options o)
    : service_(service),
      lanes_(lanes),
      options_(std::move(o)),
      stream_(service.runtime().create_stream()) {
  for (std::size_t i = 0; i < shared_blocks; ++i) {
    shared_.push_back(
        service_.runtime().allocate<std::uint32_t>(shared_size, stream_.ref(), "shared"));
  }
  std::mt19937_64 seeds(options_.seed);
  for (std::size_t i = 0; i < options_.senders; ++i) {
    threads_.emplace_back([this, seed = seeds()] { send(seed); });
  }
}

load::~load() {
  stopping_ = true;
  for (auto& t : threads_) t.join();
}

void load::send(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto room = std::make_shared<std::counting_semaphore<>>(options_.in_flight);
  while (!stopping_.load(std::memory_order_relaxed)) {
    room->acquire();
    const auto kind = options_.kinds[random() % options_.kinds.size()];
    totals_.sent[static_cast<std::size_t>(kind)].fetch_add(1, std::memory_order_relaxed);
    send_one(kind, random, room);
  }
  for (std::ptrdiff_t i = 0; i < options_.in_flight; ++i) room->acquire();
}

void load::send_one(request_kind kind, std::mt19937_64& random,
                    const std::shared_ptr<std::counting_semaphore<>>& room) {
  auto token = reply_token<words>::from(
      [this, room](const words&) {
        totals_.succeeded.fetch_add(1, std::memory_order_relaxed);
        room->release();
      },
      [this, room](const error&) {
        totals_.failed.fetch_add(1, std::memory_order_relaxed);
        room->release();
      });
  auto& runtime = service_.runtime();
  auto& target_lane = *lanes_[random() % lanes_.size()];
  const auto size = kind == request_kind::large    ? large_size
                    : kind == request_kind::absurd ? absurd_size
                                                   : random_size(random);
  const auto first = random() % shared_blocks;
  const auto second = (first + 1 + random() % (shared_blocks - 1)) % shared_blocks;
  try {
    target_lane.post([=, this, &runtime, token = std::move(token)](lane& lane) {
      try {
        operands uses;
        words target;
        switch (kind) {
          case request_kind::shared: {
            target = shared_[second];
            uses = access_all(runtime, read(shared_[first], "source"), write(target, "target"));
            run_kernel(lane, std::move(uses), token, target,
                       [source = shared_[first].data(),
                        destination = target.data()](const launch_context& context) {
                         context.stream.device().copy(
                             destination, source, shared_size * sizeof(std::uint32_t),
                             copy_direction::device_to_device, context.native());
                       });
            return;
          }
          case request_kind::many:
            for (int i = 0; i < 40; ++i) {
              target = runtime.allocate<std::uint32_t>(16, lane.stream(), "many");
              uses.add({target.block(), access_kind::write, true});
            }
            run_kernel(lane, std::move(uses), token, target, [](const launch_context&) {});
            return;
          default:
            break;
        }
        target = runtime.allocate<std::uint32_t>(size, lane.stream(), "target");
        uses = access_all(runtime,
                          write(target, "target", kind == request_kind::refused ? size + 1 : size));
        auto* const address = target.data();
        auto output = kind == request_kind::departed ? words{} : target;
        target = {};
        run_kernel(lane, std::move(uses), token, std::move(output),
                   [kind, address, size](const launch_context& context) {
                     if (kind == request_kind::failing) throw std::runtime_error("a closure's");
                     enqueue_fill(context, address, size);
                     if (kind == request_kind::late &&
                         context.stream.device().id().kind == device_kind::host) {
                       context.submit_host([] { throw std::runtime_error("a task's"); });
                     }
                   });
      } catch (...) {
        token.fail(current_error());
      }
    });
  } catch (...) {
    // The token answers when it is destroyed.
  }
}

}  // namespace sluice::test
