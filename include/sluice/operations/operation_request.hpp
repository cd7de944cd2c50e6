// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/host_bytes.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/owner_memory.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sluice::detail {

/// A call that does not refer to its request.
struct shared_call {
  call_storage call{};
  std::shared_ptr<const void> owner{};  ///< of what the call refers to; nullptr if that is nothing
};

/// Host memory that several requests may keep alive together.
struct shared_memory {
  const void* identity = nullptr;  ///< nullptr: there is none
  std::size_t bytes = 0;
};

/// One request to an executor, without the type of its operation.
class operation_request {
 public:
  operation_request(const launch_descriptor& d, request_options&& o, request_sender s,
                    failure_token t) noexcept
      : descriptor(d), options(std::move(o)), sender(s), token(std::move(t)) {}
  operation_request(const operation_request&) = delete;
  operation_request& operator=(const operation_request&) = delete;
  virtual ~operation_request() = default;

  [[nodiscard]] virtual const void* operation() const noexcept = 0;
  /// Works out the call and the uses of the operands. Returns an error if no device can compute the
  /// operation.
  [[nodiscard]] virtual std::optional<error> infer() noexcept = 0;
  [[nodiscard]] virtual std::span<const inference::use> uses() const noexcept = 0;
  /// The call for a thread that may need it after the end of the request.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] virtual shared_call share_call() const { return {call, nullptr}; }
  /// The device memory of inputs and outputs that are only described, once it is inferred.
  [[nodiscard]] virtual std::size_t described_bytes() const noexcept { return 0; }
  /// The device memory that plans of the call share, in bytes; see
  /// `operation_plan::shared_device_bytes`.
  [[nodiscard]] virtual std::size_t shared_device_bytes() const noexcept { return 0; }
  /// Takes note of an operand of the launch, which is empty if it is not given and not made. Called
  /// for each of `uses` in order, before `launch`.
  virtual void add_operand(const tensor& value, bool is_output) = 0;
  /// The element type by which traces name the launch. After `add_operand`.
  [[nodiscard]] virtual element_type type() const noexcept = 0;
  /// The most device commands that move operands between the device and host memory.
  [[nodiscard]] virtual std::size_t transfer_commands() const noexcept { return 0; }
  /// Whether `other`, which has the same descriptor, may be launched together with this request, if
  /// `most_in_batch` of both is not 0.
  [[nodiscard]] virtual bool shares_batch(const operation_request& /*other*/) const noexcept {
    return false;
  }
  /// Whether it is launched once its plan has all that batches need; see `batch_growth`.
  [[nodiscard]] virtual bool needs_batches() const noexcept { return false; }
  /// The names of the steps of a program, for traces; nullptr if the request runs none.
  [[nodiscard]] virtual std::shared_ptr<const std::string> steps() const noexcept {
    return nullptr;
  }
  /// The launch of the request on `lane`; see `kernel_envelope::run`. If `finisher` is not null, it
  /// completes the launch before a successful reply. nullptr if the request has been answered.
  [[nodiscard]] virtual std::unique_ptr<launch_continuation> launch(
      const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
      std::shared_ptr<operation_launch> finisher) noexcept = 0;
  /// Its size in host memory, without what it shares.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Memory that other requests may keep alive, too. Constant once the request is inferred.
  [[nodiscard]] virtual std::array<shared_memory, 2> shared() const noexcept { return {}; }
  /// Drops the operands, then answers with an error: the client that gets it shares its memory with
  /// nobody.
  void fail(const error& why) noexcept {
    drop_operands();
    token.fail(why);
  }

  const launch_descriptor& descriptor;
  request_options options;
  request_sender sender;
  failure_token token;
  call_storage call;  // set by `operation_descriptor::infer`
  std::shared_ptr<const operation_plan> plan{};
  std::shared_ptr<const void> plan_job{};  // the job that makes its plan
  std::size_t most_in_batch = 0;           // with itself; 0: it is launched alone
  std::uint64_t number = 0;                // in the order of arrival
  std::size_t counted_bytes = 0;           // while it waits; a parameter may grow meanwhile
  timer::time_point arrived{};

 private:
  virtual void drop_operands() noexcept = 0;
};

/// The launch of a request whose result is `output`.
template <class Reply>
[[nodiscard]] std::unique_ptr<launch_continuation> launch_request(
    reply_token<Reply>&& token, std::type_identity_t<Reply>&& output,
    const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
    std::shared_ptr<operation_launch> finisher) noexcept {
  try {
    if (finisher) {
      token = reply_token<Reply>::from(
          [token, finisher](Reply result) {
            finisher->finish();
            token.succeed(std::move(result));
          },
          [token](const error& why) { token.fail(why); });
    }
  } catch (...) {
    const auto why = current_error();
    // The client that gets the error shares its memory with nobody.
    (void)operands(std::move(uses));
    (void)Reply(std::move(output));
    token.fail(why);
    return nullptr;
  }
  return envelope.prepare(lane, std::move(uses), std::move(token), std::move(output), settings);
}

template <class Operation>
class typed_request final : public operation_request {
 public:
  using result = operation_result<Operation>;

  typed_request(const operation_descriptor& d, Operation&& operation, request_options&& o,
                request_sender s, reply_token<result>&& t) noexcept
      : operation_request(d, std::move(o), s, t.failures()),
        reply_(std::move(t)),
        operation_(std::move(operation)) {}

  [[nodiscard]] const void* operation() const noexcept override { return &operation_; }
  [[nodiscard]] std::optional<error> infer() noexcept override {
    if constexpr (has_operand_list<Operation>()) {
      std::optional<error> failure;
      const auto thrown = failure_of([&] { failure = infer(operands_of(operation_)); });
      return thrown ? thrown : failure;
    } else {
      return infer(operands_of(operation_));
    }
  }
  [[nodiscard]] bool shares_batch(const operation_request& other) const noexcept override {
    return typed_descriptor().share_batch(call, other.call);
  }
  [[nodiscard]] std::span<const inference::use> uses() const noexcept override {
    return inferred_->uses();
  }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    const auto list_uses =
        has_operand_list<Operation>() ? operand_bytes<inference::use>(operation_) : 0;
    return sizeof(*this) + options.tag.capacity() + host_bytes_of(operation_) + list_uses;
  }
  void add_operand(const tensor& value, bool is_output) override {
    if constexpr (has_several_results<Operation>()) {
      if (is_output) result_.push_back(value);
    } else {
      // Without an output, the reply is the first operand.
      if (value && (is_output || !result_)) result_ = value;
    }
  }
  [[nodiscard]] element_type type() const noexcept override {
    if constexpr (has_several_results<Operation>()) {
      return result_.empty() ? element_type() : result_.front().type();
    } else {
      return result_.type();
    }
  }
  [[nodiscard]] std::unique_ptr<launch_continuation> launch(
      const kernel_envelope& envelope, lane& lane, operands&& uses, const launch_options& settings,
      std::shared_ptr<operation_launch> finisher) noexcept override {
    return launch_request(std::move(reply_), std::move(result_), envelope, lane, std::move(uses),
                          settings, std::move(finisher));
  }

 private:
  [[nodiscard]] const operation_descriptor& typed_descriptor() const noexcept {
    return static_cast<const operation_descriptor&>(descriptor);
  }
  template <class Operands>
  [[nodiscard]] std::optional<error> infer(const Operands& operands) {
    for (const auto& o : operands) {
      if (o.value->reference().program != 0) {
        return failure_of([&] { throw invalid_argument(o.name, "is a value of a program"); });
      }
    }
    return typed_descriptor().try_infer(&operation_, inferred_.emplace(operands), call);
  }

  void drop_operands() noexcept override {
    for_each_operand(operation_, [](operand& value, auto&&...) { value = operand(); });
    result_ = result();
  }

  reply_token<result> reply_;
  Operation operation_;
  result result_;
  std::optional<inference_for<Operation>> inferred_;
};

}  // namespace sluice::detail
