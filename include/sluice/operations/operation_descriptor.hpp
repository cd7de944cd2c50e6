// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/launch_descriptor.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor.hpp>

#include <memory>
#include <optional>
#include <string>

namespace sluice {

namespace detail {
class operation_request;
class program_step;
}  // namespace detail

/// What is known of an operation: its functions without their types. Thread-safe.
class SLUICE_EXPORT operation_descriptor : public launch_descriptor {
 public:
  /// The version of the library, as it tells it at run time; empty if it tells none.
  [[nodiscard]] virtual std::string version(device_kind kind) const = 0;
  /// Works out the call of an operation; see `operation_functions`.
  virtual void infer(const void* operation, inference& inference, call_storage& call) const = 0;
  /// Likewise, but returns the error. An exception costs time for each function that it leaves.
  [[nodiscard]] virtual std::optional<error> try_infer(const void* operation, inference& inference,
                                                       call_storage& call) const noexcept = 0;

  /// The name of operand `number`, counted without those of a list, as an `index_report` has it.
  [[nodiscard]] virtual std::string_view operand_name(std::size_t number) const noexcept = 0;

  /// Whether launches with these calls, which may be in batches, may be in the same one.
  [[nodiscard]] virtual bool share_batch(const call_storage& a,
                                         const call_storage& b) const noexcept = 0;
  /// Whether the operation can be a step of a program: it has functions for the device alone.
  [[nodiscard]] virtual bool composes() const noexcept = 0;
  /// Whether a graph of a GPU may repeat a launch.
  [[nodiscard]] virtual bool can_be_captured() const noexcept = 0;
  /// Computes a call in the thread of a host stream. Only if `composes()`.
  virtual void compute(const call_storage& call, const launch_memory& memory) const = 0;
  /// The layout of the prepacked copy of operand `number` with which launches are faster, if it is
  /// a constant of a program. `plan` is that of the call.
  [[nodiscard]] virtual prepacked_layout prepacked(device_kind kind, const call_storage& call,
                                                   const operation_plan* plan,
                                                   std::size_t number) const = 0;
  /// Makes a prepacked copy: in the thread of a host stream, or on the stream of `libraries`, which
  /// are not those of the lane. Only of an operand whose layout has bytes.
  virtual void prepack(lane_libraries& libraries, const call_storage& call,
                       const prepacking_memory& memory) const = 0;

  /// Makes a request of an operation in `memory`, and moves the operation and the other arguments
  /// into it. The token is a `reply_token` for the `operation_result` of the operation.
  /// @throws std::bad_alloc if there is no memory; the arguments are as before
  [[nodiscard]] virtual detail::owner_pointer<detail::operation_request> make_request(
      detail::owner_memory& memory, void* operation, request_options&& options,
      request_sender sender, void* token) const = 0;
  /// Makes a step of a program of an operation, which is moved into it.
  [[nodiscard]] virtual std::shared_ptr<detail::program_step> make_step(void* operation) const = 0;
  /// Drops the operands of an operation that `make_request` has not taken, and answers its token
  /// with `failure`.
  virtual void refuse(void* operation, void* token, const error& failure) const noexcept = 0;
};

}  // namespace sluice
