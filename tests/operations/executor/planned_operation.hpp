// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/operation.hpp>
#include <sluice/runtime/error.hpp>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <tuple>

namespace sluice::test {

/// What the planner does for `planned` operations: a test holds plans back, counts them and lets
/// them fail. One at a time.
class plan_script {
 public:
  plan_script() { current() = this; }
  plan_script(const plan_script&) = delete;
  plan_script& operator=(const plan_script&) = delete;
  ~plan_script() { current() = nullptr; }

  /// Plans with `key` are made from now on only after `open(key)`.
  void hold(std::int64_t key) { set(key, true); }
  void open(std::int64_t key) { set(key, false); }
  /// The next plan with `key` fails with `code`.
  void fail(std::int64_t key, errc code) {
    const std::lock_guard lock(mutex_);
    failures_.emplace(key, code);
  }
  /// How often the planner began to make a plan with `key`.
  [[nodiscard]] int begun(std::int64_t key) {
    const std::lock_guard lock(mutex_);
    return begun_[key];
  }
  void await_begun(std::int64_t key) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return begun_[key] > 0; });
  }

  /// Called by the planner.
  void make(std::int64_t key) {
    std::unique_lock lock(mutex_);
    ++begun_[key];
    changed_.notify_all();
    changed_.wait(lock, [&] { return !held_[key]; });
    if (const auto found = failures_.find(key); found != failures_.end()) {
      const auto code = found->second;
      failures_.erase(found);
      throw error(code, "scripted");
    }
  }
  static plan_script*& current() {
    static plan_script* script = nullptr;
    return script;
  }

 private:
  void set(std::int64_t key, bool held) {
    const std::lock_guard lock(mutex_);
    held_[key] = held;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::int64_t, bool> held_;
  std::map<std::int64_t, int> begun_;
  std::map<std::int64_t, errc> failures_;
};

/// y = 2 · y + x + added, for u32 on the host device, with a plan for each key. A new y counts as
/// 0.
struct planned {
  operand x{};
  operand y{};
  std::int64_t key = 0;
  std::uint32_t added = 0;
  std::size_t plan_bytes = 0;
  std::size_t device_bytes = 0;     ///< of the plan
  std::size_t workspace_bytes = 0;  ///< of each launch
  double work = 0;                  ///< of each launch, beyond its elements
  std::size_t known_bytes = 0;      ///< of the plan, before it is made
  double planning_work = plan_price::usual_work;

  static constexpr auto members() {
    return std::make_tuple(
        input("x", &planned::x), output("y", &planned::y), parameter("key", &planned::key),
        parameter("added", &planned::added), parameter("plan_bytes", &planned::plan_bytes),
        parameter("device_bytes", &planned::device_bytes),
        parameter("workspace_bytes", &planned::workspace_bytes), parameter("work", &planned::work),
        parameter("known_bytes", &planned::known_bytes),
        parameter("planning_work", &planned::planning_work));
  }
};

struct planned_call {
  struct plan_key {
    std::int64_t key;
    std::size_t bytes;
    std::size_t device_bytes;
    std::size_t workspace_bytes;
  } key;
  std::size_t count;
  std::uint32_t added;
  std::uint32_t factor;  // of the previous y
  double work;
  plan_price price;
  [[nodiscard]] launch_facts facts() const noexcept { return {.work = work}; }
};

class scripted_plan final : public operation_plan {
 public:
  explicit scripted_plan(const planned_call::plan_key& key) noexcept : key_(key) { ++alive(); }
  ~scripted_plan() override { --alive(); }
  std::size_t bytes() const noexcept override { return key_.bytes; }
  std::size_t device_bytes() const noexcept override { return key_.device_bytes; }
  std::size_t workspace_bytes() const noexcept override { return key_.workspace_bytes; }

  /// The plans that have not been destroyed.
  static std::atomic<int>& alive() {
    static std::atomic<int> count{0};
    return count;
  }

 private:
  planned_call::plan_key key_;
};

inline const operation_descriptor& descriptor_of(operation_type<planned>) {
  static const typed_operation_descriptor<planned, planned_call> descriptor(
      {.name = "planned",
       .infer = [](const planned& op, inference& inference) -> planned_call {
         const auto& x = inference.require(op.x);
         const bool has_output = static_cast<bool>(op.y);
         if (has_output) inference.update(op.y);
         (void)inference.result(op.y, element_type::u32, x.shape);
         return {{op.key, op.plan_bytes, op.device_bytes, op.workspace_bytes},
                 x.size(),
                 op.added,
                 has_output ? 2U : 0U,
                 op.work,
                 {op.known_bytes, op.planning_work}};
       },
       .host = {.library = "test",
                .price = [](const planned_call& call) { return call.price; },
                .make_plan = [](lane_libraries&,
                                const planned_call& call) -> std::shared_ptr<const operation_plan> {
                  plan_script::current()->make(call.key.key);
                  return std::make_shared<scripted_plan>(call.key);
                }},
       .compute =
           [](const planned_call& call, const launch_of<planned>& launch) {
             const auto* const x = launch.get<const std::uint32_t>(&planned::x);
             auto* const y = launch.get<std::uint32_t>(&planned::y);
             for (std::size_t i = 0; i < call.count; ++i) {
               y[i] = (call.factor != 0 ? call.factor * y[i] : 0) + x[i] + call.added;
             }
           }});
  return descriptor;
}

}  // namespace sluice::test
