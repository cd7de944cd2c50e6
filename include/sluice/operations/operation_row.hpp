// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

namespace detail {
class operation_request;
class program_step;
}  // namespace detail

/// The size that a plan may have, in bytes.
struct plan_limits {
  std::size_t host_bytes = 0;    ///< of the process
  std::size_t device_bytes = 0;  ///< with the workspace
};

/// What a plan costs, as far as it is known before the plan is made.
struct plan_price {
  /// The work of a plan whose operation states none: about a millisecond.
  static constexpr double usual_work = 1 << 20U;
  std::size_t host_bytes = 0;  ///< its size in host memory; 0 if only the plan itself tells it
  double work = usual_work;    ///< of the planner, in nanoseconds of one core of a processor
};

/// What a library works out once for a launch key: an algorithm, tables, a handle.
///
/// It holds no operands. Launches keep the plans that they use. The runtime's reclaim thread
/// destroys the plans of an executor, because that may block in the driver.
class SLUICE_EXPORT operation_plan {
 public:
  operation_plan() = default;
  operation_plan(const operation_plan&) = delete;
  operation_plan& operator=(const operation_plan&) = delete;
  virtual ~operation_plan() = default;
  /// The size of the plan in host memory, in bytes, as far as it is known.
  [[nodiscard]] virtual std::size_t bytes() const noexcept { return 0; }
  /// The device memory that the plan itself holds, in bytes, as far as it is known. It is charged
  /// to the memory budget until the plan has been destroyed.
  [[nodiscard]] virtual std::size_t device_bytes() const noexcept { return 0; }
  /// The part of device memory that plans share which falls to this one, in bytes: an allocation
  /// divided by the number of its owners. It is charged as an allocation.
  [[nodiscard]] virtual std::size_t shared_device_bytes() const noexcept { return 0; }
  /// The scratch memory that each launch needs, in bytes. Launches of one lane share it.
  [[nodiscard]] virtual std::size_t workspace_bytes() const noexcept { return 0; }
  /// The most device commands that a launch enqueues because of the plan.
  [[nodiscard]] virtual std::size_t commands() const noexcept { return 1; }
  /// Adds what batches need beyond single launches, as far as the plan stays within `limits` and
  /// the memory budget. The planner calls it once, before the first launch.
  virtual void add_batches(lane_libraries& /*of_lane*/,
                           const plan_limits& /*limits*/) const noexcept {}
  /// The scratch memory that a batch of launches needs, in bytes.
  [[nodiscard]] virtual std::size_t batch_workspace_bytes() const noexcept {
    return workspace_bytes();
  }
  /// The most device commands that a batch of `count` launches enqueues because of the plan.
  [[nodiscard]] virtual std::size_t batch_commands(std::size_t count) const noexcept {
    return count * commands();
  }
  /// Whether no request can use the plan any more, because what it was made for is gone.
  [[nodiscard]] virtual bool obsolete() const noexcept { return false; }
  /// Whether `improve` shall be called now. True once. The owner of the lane asks after a launch.
  [[nodiscard]] virtual bool wants_improvement() const noexcept { return false; }
  /// Makes later launches of the plan faster. The planner calls it while the owner launches.
  virtual void improve(lane_libraries& /*of_lane*/) const noexcept {}
  /// Whether launches are one graph of the device; see `capture_policy`.
  [[nodiscard]] virtual bool captured() const noexcept { return false; }
  /// Whether they were to be one and cannot be.
  [[nodiscard]] virtual bool refuses_capture() const noexcept { return false; }
};

/// What one launch needs of its own, beside operands and plan: staging memory, for example. The
/// launch owns it.
class SLUICE_EXPORT operation_launch {
 public:
  operation_launch() = default;
  operation_launch(const operation_launch&) = delete;
  operation_launch& operator=(const operation_launch&) = delete;
  virtual ~operation_launch() = default;
  /// The most device commands that the launch enqueues because of it.
  [[nodiscard]] virtual std::size_t commands() const noexcept { return 0; }
  /// Whether the launch needs something before a batch that it is a member of.
  [[nodiscard]] virtual bool precedes_batch() const noexcept { return false; }
  /// Enqueues it. The operands of the launch are at `addresses`. Called if `precedes_batch()`.
  virtual void enqueue_before_batch(std::span<void* const> /*addresses*/) {}
  /// Whether the reply waits for the device in any case, and for `finish`.
  [[nodiscard]] virtual bool must_finish() const noexcept { return false; }
  /// Completes the launch, before a successful reply. Called if `must_finish()`, on the completion
  /// thread. Must not block.
  virtual void finish() noexcept {}
};

/// What is known of a launch before it is made.
struct launch_facts {
  std::array<std::int64_t, 4> sizes{};  ///< for traces, by operation: m, n, k for gemm
  std::size_t commands = 1;             ///< the most device commands, without those of the plan
  /// The work beyond one unit for each element of the operands; see `request_limits`.
  double work = 0;
};
/// The work of sums of products. Libraries compute about 32 products in the time of one element.
[[nodiscard]] constexpr double work_of_products(double count) noexcept {
  return count / 32;
}

/// The memory and the plan of one launch, without their types.
struct launch_memory {
  std::span<void* const> addresses{};  ///< of the operands, in the order of the members
  /// The element types of the operands; of a batch, those of its first launch. Empty: `launch_of`
  /// does not check the types.
  std::span<const element_type> types{};
  const operation_plan* plan = nullptr;  ///< nullptr if the operation makes none
  void* workspace = nullptr;             ///< `operation_plan::workspace_bytes`, aligned to 256
  operation_launch* own = nullptr;       ///< what `begin` has made; nullptr if there is no `begin`
  /// Of a batch, what `begin` has made for each of its launches.
  std::span<operation_launch* const> members{};
};

/// What the executor knows of an operation: its functions without their types. Thread-safe.
class SLUICE_EXPORT operation_row {
 public:
  operation_row() = default;
  operation_row(const operation_row&) = delete;
  operation_row& operator=(const operation_row&) = delete;
  virtual ~operation_row() = default;

  /// The largest size of a call, in bytes.
  static constexpr std::size_t max_call_bytes = 512;
  /// Memory for a call of any operation.
  struct call_storage {
    alignas(std::max_align_t) std::array<std::byte, max_call_bytes> bytes;  ///< of the call
  };

  /// The name of the operation.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The name of the library that computes it on devices of this kind.
  [[nodiscard]] virtual std::string_view library(device_kind kind) const noexcept = 0;
  /// The version of this library, as it tells it at run time; empty if it tells none.
  [[nodiscard]] virtual std::string version(device_kind kind) const = 0;
  /// Works out the call of an operation; see `operation_functions`.
  virtual void infer(const void* operation, inference& to, call_storage& call) const = 0;
  /// Likewise, but returns the error. An exception costs time for each function that it leaves.
  [[nodiscard]] virtual std::optional<error> try_infer(const void* operation, inference& to,
                                                       call_storage& call) const noexcept = 0;
  /// Refuses a call that the device cannot compute.
  virtual void check(device_kind kind, const call_storage& call) const = 0;
  /// What is known of the launch of a call.
  [[nodiscard]] virtual launch_facts facts(const call_storage& call) const noexcept = 0;
  /// Whether launches on devices of this kind need library objects, which `prepare` makes.
  [[nodiscard]] virtual bool has_libraries(device_kind kind) const noexcept = 0;
  /// Whether launches on devices of this kind need a plan.
  [[nodiscard]] virtual bool makes_plans(device_kind kind) const noexcept = 0;
  /// What the plan of a call depends on, on devices of this kind. It refers to `call`.
  [[nodiscard]] virtual std::span<const std::byte> key(device_kind kind,
                                                       const call_storage& call) const noexcept = 0;
  /// What the plan of a call costs on devices of this kind.
  [[nodiscard]] virtual plan_price price_of_plan(device_kind kind,
                                                 const call_storage& call) const = 0;
  /// Makes the library objects of a lane.
  virtual void prepare(lane_libraries& libraries) const = 0;
  /// Makes the plan of a call.
  [[nodiscard]] virtual std::shared_ptr<const operation_plan> make_plan(
      lane_libraries& libraries, const call_storage& call) const = 0;
  /// Makes what one launch needs of its own; nullptr if that is nothing.
  [[nodiscard]] virtual std::shared_ptr<operation_launch> begin(lane_libraries& libraries,
                                                                const void* operation,
                                                                const call_storage& call) const = 0;
  /// Enqueues a call on the lane's stream.
  virtual void enqueue(lane_libraries& libraries, const call_storage& call,
                       const launch_memory& memory) const = 0;
  /// The largest number of launches with this call in a batch; at most 1: none.
  [[nodiscard]] virtual std::size_t most_in_batch(const call_storage&) const noexcept { return 0; }
  /// Whether launches with these calls, which may be in batches, may be in the same one.
  [[nodiscard]] virtual bool share_batch(const call_storage&, const call_storage&) const noexcept {
    return false;
  }
  /// The alignment of operands of launches in a batch, in bytes.
  [[nodiscard]] virtual std::size_t batch_alignment() const noexcept { return 1; }
  /// Makes what a batch needs of its own; see `batch_functions`.
  [[nodiscard]] virtual std::shared_ptr<operation_launch> begin_batch(lane_libraries&,
                                                                      std::size_t /*count*/) const {
    return nullptr;
  }
  /// Enqueues a batch on a GPU. The addresses are those of the operands of one launch after the
  /// other.
  virtual void enqueue_batch(lane_libraries&, const call_storage&, const launch_memory&) const {}
  /// Whether the operation can be a step of a program: it has functions for the device alone.
  [[nodiscard]] virtual bool composes() const noexcept = 0;
  /// Whether a graph of a GPU may repeat a launch.
  [[nodiscard]] virtual bool can_be_captured() const noexcept { return false; }
  /// Computes a call in the thread of a host stream. Only if `composes()`.
  virtual void compute(const call_storage& call, const launch_memory& memory) const = 0;

  /// Makes a request of an operation in `memory`, and moves the operation and the other arguments
  /// into it.
  /// @throws std::bad_alloc if there is no memory; the arguments are as before
  [[nodiscard]] virtual detail::owner_pointer<detail::operation_request> make_request(
      detail::owner_memory& memory, void* operation, request_options&& options,
      request_sender sender, reply_token<tensor>&& token) const = 0;
  /// Makes a step of a program of an operation, which is moved into it.
  [[nodiscard]] virtual std::shared_ptr<detail::program_step> make_step(void* operation) const = 0;
  /// Drops the operands of an operation.
  virtual void drop_operands(void* operation) const noexcept = 0;

 protected:
  /// The kind of device of a lane.
  [[nodiscard]] static device_kind kind_of(const lane_libraries& libraries) noexcept {
    return libraries.runtime().device().id().kind;
  }
};

}  // namespace sluice
