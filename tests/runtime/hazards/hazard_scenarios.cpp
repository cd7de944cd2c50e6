// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/hazards/hazard_scenarios.hpp"

#include "runtime/core/runtime_core.hpp"
#include "tests/runtime/hazards/hazard_run.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

using detail::hazard;
using words = std::vector<hazard_word>;
using word_ref = gpu_ref<hazard_word>;

hazard class_of(scenario_kind kind) noexcept {
  switch (kind) {
    case scenario_kind::read_after_write:
      return hazard::read_after_write;
    case scenario_kind::write_after_read:
      return hazard::write_after_read;
    case scenario_kind::write_after_write:
      return hazard::write_after_write;
    case scenario_kind::allocation_ready:
      return hazard::allocation_ready;
    case scenario_kind::free_after_use:
    case scenario_kind::reclaim:
      return hazard::free_after_use;
    case scenario_kind::unfenced_use:
    case scenario_kind::reuse:
      break;
  }
  return hazard::inherited;
}

std::unique_ptr<memory_resource> resource_for(scenario_kind kind) {
  if (kind == scenario_kind::reclaim) return make_direct_resource({.tracked = true});
  if (kind != scenario_kind::reuse) return make_async_resource();
  return make_pool_resource(make_async_resource(), {.prefer_unfinished = true});
}

/// A host device that reuses freed memory, the newest first. Addresses are therefore predictable,
/// and no access leaves the process's memory.
class keeping_device final : public forwarding_device {
 public:
  explicit keeping_device(std::shared_ptr<device> real) : forwarding_device(real->id(), real) {}
  ~keeping_device() override {
    for (auto* address : freed_) real().deallocate(address);
  }

  void* allocate(std::size_t bytes) override {
    {
      const std::lock_guard lock(mutex_);
      if (!freed_.empty()) {
        auto* const newest = freed_.back();
        freed_.pop_back();
        return newest;
      }
      freed_.reserve(++allocated_);
    }
    return real().allocate(bytes);
  }
  void deallocate(void* address) noexcept override {
    const std::lock_guard lock(mutex_);
    freed_.push_back(address);
  }
  [[nodiscard]] bool keeps(const void* address) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(freed_, address) != freed_.end();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<void*> freed_;  // all of one size
  std::size_t allocated_ = 0;
};

std::shared_ptr<device> device_for(scenario_kind kind, const std::shared_ptr<device>& device) {
  if (kind == scenario_kind::reclaim) return std::make_shared<keeping_device>(device);
  return device;
}

/// A runtime, a gated stream `earlier_`, and a stream `later_` whose launch overtakes it.
class scenario {
 public:
  scenario(scenario_kind kind, const std::shared_ptr<device>& device, scenario_mode mode,
           std::mt19937_64& random)
      : kind_(kind),
        mode_(mode),
        runtime_(device_for(kind, device), {.resource = resource_for(kind)}) {
    detail::runtime_core::of(runtime_)->leave_out(
        [this](hazard candidate) { return candidate == class_of(kind_) && leaving_; });
    earlier_ = runtime_.create_stream();
    later_ = runtime_.create_stream();
    third_ = runtime_.create_stream();
    // ThreadSanitizer misses two accesses at the same moment; with this many words, some accesses
    // are apart.
    count_ = 2 * (24 + random() % 200);
    first_ = random();
    second_ = first_ + 1 + random() % 1000;
  }

  bool run() {
    switch (kind_) {
      case scenario_kind::read_after_write:
        return read_after_write();
      case scenario_kind::write_after_read:
        return write_after_read();
      case scenario_kind::write_after_write:
        return write_after_write();
      case scenario_kind::allocation_ready:
        return allocation_ready();
      case scenario_kind::unfenced_use:
        return unfenced_use();
      case scenario_kind::reuse:
        return reuse();
      case scenario_kind::free_after_use:
        return free_after_use();
      case scenario_kind::reclaim:
        return reclaim();
    }
    return false;
  }

 private:
  bool read_after_write() {
    const auto x = new_block(first_);
    const auto y = runtime_.allocate<hazard_word>(count_, later_, "y");
    close(earlier_);
    mix(earlier_, x, {}, second_);
    overtake(later_, [&] { mix(later_, y, x, first_); });
    return holds(y, mixed_from(mixed_from({}, second_), first_));
  }

  bool write_after_read() {
    const auto x = new_block(first_);
    const auto y = runtime_.allocate<hazard_word>(count_, earlier_, "y");
    close(earlier_);
    mix(earlier_, y, x, second_);
    overtake(later_, [&] { mix(later_, x, {}, second_); });
    return holds(y, mixed_from(mixed_from({}, first_), second_));
  }

  bool write_after_write() {
    const auto x = new_block(0);
    close(earlier_);
    mix(earlier_, x, {}, first_);
    overtake(later_, [&] { mix(later_, x, {}, second_); });
    return holds(x, mixed_from({}, second_));
  }

  /// A use on the allocating stream has not run when the memory is allocated again.
  bool allocation_ready() {
    auto x = runtime_.allocate<hazard_word>(count_, earlier_, "x");
    const auto* const address = x.data();
    close(earlier_);
    mix(earlier_, x, {}, first_);
    x = {};
    const auto y = allocated_at(address, earlier_);
    if (!y) throw std::runtime_error("the address was not handed out again");
    overtake(later_, [&] { mix(later_, y, {}, second_); });
    return holds(y, mixed_from({}, second_));
  }

  /// A use published without a fence adds to the earlier uses, and the next use waits for all of
  /// them.
  bool unfenced_use() {
    const auto x = new_block(0);
    const auto y = runtime_.allocate<hazard_word>(count_, later_, "y");
    close(earlier_);
    mix(earlier_, x.subspan(0, count_ / 2), {}, first_);
    const auto rest = x.subspan(count_ / 2, count_ / 2);
    enqueue_mix(third_, {.out = rest.data(), .count = rest.size(), .constant = first_});
    (void)runtime_.record_use(x.block(), third_, access_kind::write);
    overtake(later_, [&] { mix(later_, y, x, second_); });
    auto expected = mixed_from({}, first_, count_ / 2);
    expected.insert(expected.end(), expected.begin(), expected.end());
    return holds(y, mixed_from(expected, second_));
  }

  /// A use on another stream has not run when the pool grants its memory again.
  bool reuse() {
    auto x = new_block(0);
    const auto* const address = x.data();
    close(earlier_);
    mix(earlier_, x, {}, first_);
    x = {};
    const auto y = runtime_.allocate<hazard_word>(count_, later_, "y");
    if (y.data() != address) throw std::runtime_error("the address was not handed out again");
    overtake(later_, [&] { mix(later_, y, {}, second_); });
    return holds(y, mixed_from({}, second_));
  }

  /// A use on another stream has not run when the memory is freed.
  bool free_after_use() {
    auto x = runtime_.allocate<hazard_word>(count_, later_, "x");
    const auto* const address = x.data();
    rest(detail::runtime_core::of(runtime_)->reclaim_stream());
    rest(later_);
    close(earlier_);
    mix(earlier_, x, {}, first_);
    leaving_ = mode_ != scenario_mode::fenced;
    x = {};
    if (leaving_) rest(detail::runtime_core::of(runtime_)->reclaim_stream());
    auto y = allocated_at(address, later_);
    if (y && !leaving_) throw std::runtime_error("memory in use was handed out");
    if (!y && leaving_) throw std::runtime_error("the address was not handed out again");
    if (!y) y = runtime_.allocate<hazard_word>(count_, later_, "y");
    overtake(later_, [&] { mix(later_, y, {}, second_); });
    return holds(y, mixed_from({}, second_));
  }

  /// The reclaim thread frees memory although a use has not completed.
  bool reclaim() {
    const auto& memory = static_cast<const keeping_device&>(runtime_.device());
    auto x = runtime_.allocate<hazard_word>(count_, earlier_, "x");
    const auto* const address = x.data();
    close(earlier_);
    mix(earlier_, x, {}, first_);
    leaving_ = mode_ != scenario_mode::fenced;
    x = {};
    if (leaving_) {
      await([&] { return memory.keeps(address); });
    } else {
      detail::runtime_core::of(runtime_)->finish_reclaiming();
    }
    const auto y = runtime_.allocate<hazard_word>(count_, later_, "y");
    if ((y.data() == address) != leaving_) {
      throw std::runtime_error(leaving_ ? "the address was not handed out again"
                                        : "memory in use was handed out");
    }
    overtake(later_, [&] { mix(later_, y, {}, second_); });
    if (mode_ == scenario_mode::fenced) await([&] { return memory.keeps(address); });
    return holds(y, mixed_from({}, second_));
  }

  /// A block with contents that all streams may already read.
  word_ref new_block(hazard_word constant) {
    auto x = runtime_.allocate<hazard_word>(count_, earlier_, "x");
    mix(earlier_, x, {}, constant);
    earlier_.synchronize();
    return x;
  }

  /// Allocates the memory at `address` on `stream`. Empty if that is not possible.
  word_ref allocated_at(const void* address, const stream& stream) {
    std::vector<word_ref> others;
    while (others.size() < 64) {
      auto next = runtime_.allocate<hazard_word>(count_, stream, "y");
      if (next.data() == address) return next;
      others.push_back(std::move(next));
    }
    return {};
  }

  void close(const stream& s) { gate_.hold(s); }

  void mix(const stream& stream, const word_ref& out, const word_ref& a, hazard_word constant) {
    auto recorder = launch_recorder::strict(stream);
    recorder.write(out);
    if (a) recorder.read(a);
    recorder.preflight();
    enqueue_mix(stream, {.out = out.data(),
                         .count = out.size(),
                         .a = a.data(),
                         .a_count = a.size(),
                         .constant = constant});
    (void)recorder.commit();
  }

  /// Makes the later launch, then lets the earlier one run.
  template <class Launch>
  void overtake(const stream& stream, Launch launch) {
    leaving_ = mode_ != scenario_mode::fenced;
    launch();
    leaving_ = false;
    if (mode_ == scenario_mode::left_out) rest(stream);
    gate_.open();
    for (const auto* s : {&earlier_, &later_, &third_}) s->synchronize();
  }

  words mixed_from(const words& a, hazard_word constant) const {
    return mixed_from(a, constant, count_);
  }
  static words mixed_from(const words& a, hazard_word constant, std::size_t count) {
    words out(count);
    mix_on_host({.out = out.data(),
                 .count = count,
                 .a = a.empty() ? nullptr : a.data(),
                 .a_count = a.size(),
                 .constant = constant});
    return out;
  }

  bool holds(const word_ref& ref, const words& expected) const {
    return download(ref, later_) == expected;
  }

  const scenario_kind kind_;
  const scenario_mode mode_;
  // Only the submitting thread reads it.
  bool leaving_ = false;
  device_runtime runtime_;
  stream earlier_;
  stream later_;
  stream third_;
  gate gate_;
  std::size_t count_ = 0;
  hazard_word first_ = 0;
  hazard_word second_ = 0;
};

}  // namespace

bool run_scenario(scenario_kind kind, const std::shared_ptr<device>& device, scenario_mode mode,
                  std::mt19937_64& random) {
  return scenario(kind, device, mode, random).run();
}

std::string_view name_of(scenario_kind kind) noexcept {
  switch (kind) {
    case scenario_kind::unfenced_use:
      return "unfenced_use";
    case scenario_kind::reuse:
      return "reuse";
    case scenario_kind::reclaim:
      return "reclaim";
    default:
      return name_of(class_of(kind));
  }
}

std::string_view name_of(hazard kind) noexcept {
  switch (kind) {
    case hazard::read_after_write:
      return "read_after_write";
    case hazard::write_after_read:
      return "write_after_read";
    case hazard::write_after_write:
      return "write_after_write";
    case hazard::allocation_ready:
      return "allocation_ready";
    case hazard::inherited:
      return "inherited";
    case hazard::free_after_use:
      return "free_after_use";
  }
  return "unknown";
}

}  // namespace sluice::test
