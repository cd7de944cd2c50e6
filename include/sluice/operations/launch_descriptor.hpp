// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation_plan.hpp>
#include <sluice/operations/out_of_range_policy.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/launch_errors.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sluice {

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
  /// Whether the launch needs something after a batch that it is a member of.
  [[nodiscard]] virtual bool follows_batch() const noexcept { return false; }
  /// Enqueues it, likewise. Called if `follows_batch()`.
  virtual void enqueue_after_batch(std::span<void* const> /*addresses*/) {}
  /// Whether the reply waits for the device in any case, and for `finish`.
  [[nodiscard]] virtual bool must_finish() const noexcept { return false; }
  /// Completes the launch, before a successful reply. Called if `must_finish()`, on the completion
  /// thread. Must not block.
  virtual void finish() noexcept {}

  error_word* errors = nullptr;  ///< the error word of the launch; nullptr: it has none
};

/// The kinds of devices on which a launch may find an error while it runs, such as an index that is
/// out of range. There it has an `error_word`.
enum class error_detection : std::uint8_t { none, on_host, everywhere };

/// Whether launches on devices of this kind have an error word.
[[nodiscard]] constexpr bool detects_errors(error_detection detection, device_kind kind) noexcept {
  return detection == error_detection::everywhere ||
         (detection == error_detection::on_host && kind == device_kind::host);
}
/// The devices on which indices that are out of range are errors.
[[nodiscard]] constexpr error_detection detection_of(out_of_range_policy policy) noexcept {
  if (policy == out_of_range_policy::clamp) return error_detection::none;
  return policy == out_of_range_policy::error ? error_detection::everywhere
                                              : error_detection::on_host;
}

/// What is known of a launch before it is made.
struct launch_facts {
  std::array<std::int64_t, 4> sizes{};  ///< for traces, by operation: m, n, k for gemm
  std::size_t commands = 1;             ///< the most device commands, without those of the plan
  /// The work beyond one unit for each element of the operands; see `request_limits`.
  double work = 0;
  /// Where the launch needs an error word, because it may find an error; see
  /// `launch_of::index_errors`. Such launches are in no batch of `batch_functions`.
  error_detection errors = error_detection::none;
};
/// The work of sums of products. Libraries compute about 32 products in the time of one element.
[[nodiscard]] constexpr double work_of_products(double count) noexcept {
  return count / 32;
}

/// The work of each product, row, image or window of a launch beside that of its elements, which is
/// all that counts if it is small.
inline constexpr double work_of_parts = 50;

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
  error_word* errors = nullptr;  ///< nullptr if the launch looks for no errors
  std::uint32_t step = 0;        ///< of a program, for errors
  /// Bit i: operand i is a prepacked copy; see `prepacked_layout`.
  std::uint64_t prepacked = 0;
};

/// The layout of a prepacked copy of an operand: the order in which a library computes with it. A
/// program makes such copies of its constants, once.
struct prepacked_layout {
  std::size_t bytes = 0;  ///< of the copy; 0: launches take the operand as it is
  /// States all that the copy depends on beside the elements of the operand: the library, types,
  /// shapes and orders. Steps share a copy of a constant if the identities are equal.
  std::string identity{};
};

/// The memory of a prepacked copy while it is made.
struct prepacking_memory {
  std::size_t number = 0;                ///< of the operand
  const void* source = nullptr;          ///< the first element of the operand
  void* copy = nullptr;                  ///< `prepacked_layout::bytes`, aligned to 256
  const operation_plan* plan = nullptr;  ///< nullptr if the operation makes none
};

/// Memory for the call of anything that can be launched.
struct call_storage {
  /// The largest size of a call, in bytes.
  static constexpr std::size_t max_bytes = 1024;
  alignas(std::max_align_t) std::array<std::byte, max_bytes> bytes;  ///< of the call
};

/// How launches of one kind are made together, as a batch. Thread-safe.
class SLUICE_EXPORT batch_descriptor {
 public:
  batch_descriptor() = default;
  batch_descriptor(const batch_descriptor&) = delete;
  batch_descriptor& operator=(const batch_descriptor&) = delete;

  /// The largest number of launches with this call in a batch; at most 1: none.
  [[nodiscard]] virtual std::size_t most_in_batch(const call_storage& call) const noexcept = 0;
  /// The alignment of operands of launches in a batch, in bytes.
  [[nodiscard]] virtual std::size_t batch_alignment() const noexcept { return 1; }
  /// Makes what a batch needs of its own; see `batch_functions`.
  [[nodiscard]] virtual std::shared_ptr<operation_launch> begin_batch(lane_libraries&,
                                                                      std::size_t /*count*/) const {
    return nullptr;
  }
  /// Enqueues a batch on a GPU. The addresses are those of the operands of one launch after the
  /// other.
  virtual void enqueue_batch(lane_libraries& libraries, const call_storage& call,
                             const launch_memory& memory) const = 0;

 protected:
  ~batch_descriptor() = default;
};

/// What the executor knows of what it launches, an operation or a program: its functions without
/// their types. Thread-safe.
class SLUICE_EXPORT launch_descriptor {
 public:
  launch_descriptor() = default;
  launch_descriptor(const launch_descriptor&) = delete;
  launch_descriptor& operator=(const launch_descriptor&) = delete;
  virtual ~launch_descriptor() = default;

  /// The name of the operation; `program` for programs.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The name of the library that computes it on devices of this kind.
  [[nodiscard]] virtual std::string_view library(device_kind kind) const noexcept = 0;
  /// Refuses a call that the device cannot compute.
  virtual void check(device_kind kind, const call_storage& call) const = 0;
  /// What is known of the launch of a call.
  [[nodiscard]] virtual launch_facts facts(const call_storage& call) const noexcept = 0;
  /// Whether launches on devices of this kind need library objects, which `prepare` makes.
  [[nodiscard]] virtual bool has_libraries(device_kind kind) const noexcept = 0;
  /// Makes the library objects of a lane.
  virtual void prepare(lane_libraries& libraries) const = 0;
  /// Whether launches on devices of this kind need a plan.
  [[nodiscard]] virtual bool makes_plans(device_kind kind) const noexcept = 0;
  /// What the plan of a call depends on, on devices of this kind. It refers to `call`.
  [[nodiscard]] virtual std::span<const std::byte> key(device_kind kind,
                                                       const call_storage& call) const noexcept = 0;
  /// What the plan of a call costs on devices of this kind.
  [[nodiscard]] virtual plan_price price_of_plan(device_kind kind,
                                                 const call_storage& call) const = 0;
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
  /// The names by which errors of a launch with this plan refer to operands.
  [[nodiscard]] virtual std::shared_ptr<const detail::error_names> names_of_errors(
      const operation_plan* /*plan*/) const {
    return nullptr;
  }
  /// How its launches are made together; nullptr if they never are.
  [[nodiscard]] virtual const batch_descriptor* batches() const noexcept { return nullptr; }

 protected:
  /// The kind of device of a lane.
  [[nodiscard]] static device_kind kind_of(const lane_libraries& libraries) noexcept {
    return libraries.runtime().device().id().kind;
  }
};

}  // namespace sluice
