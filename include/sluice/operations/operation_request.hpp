// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/runtime/tensor.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

namespace sluice::detail {

/// One request to an executor, without the type of its operation.
class operation_request {
 public:
  operation_request(const operation_row& r, const request_options& o, request_sender s,
                    reply_token<tensor> t)
      : row(r), options(o), sender(s), token(std::move(t)) {}
  operation_request& operator=(const operation_request&) = delete;
  virtual ~operation_request() = default;

  /// Moves the request to the heap, where it can wait. Nothing is moved if this throws.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] virtual std::unique_ptr<operation_request> to_heap() && = 0;

  [[nodiscard]] virtual const void* operation() const noexcept = 0;
  /// Begins the inference of the operation, whose uses `uses` then returns.
  virtual inference& infer() noexcept = 0;
  [[nodiscard]] virtual std::span<const inference::use> uses() const noexcept = 0;
  /// Its size in host memory.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;
  /// Drops the operands, then answers with an error: the client that gets it shares its memory with
  /// nobody.
  void fail(const error& why) noexcept {
    drop_operands();
    token.fail(why);
  }

  const operation_row& row;
  request_options options;
  request_sender sender;
  reply_token<tensor> token;
  operation_row::call_storage call;  // set by `operation_row::infer`
  std::shared_ptr<const operation_plan> plan{};
  std::shared_ptr<const void> planned_by{};  // the job that makes its plan
  std::uint64_t number = 0;                  // in the order of arrival
  std::size_t counted_bytes = 0;             // while it waits; a parameter may grow meanwhile
  timer::time_point arrived{};

 protected:
  operation_request(operation_request&&) noexcept = default;

 private:
  virtual void drop_operands() noexcept = 0;
};

/// The host memory that a parameter of an operation holds beyond its own size.
template <class T>
[[nodiscard]] std::size_t host_bytes(const T& parameter) noexcept {
  if constexpr (requires { parameter.bytes(); }) {
    return parameter.bytes();
  } else if constexpr (requires { parameter->bytes(); }) {
    return parameter ? parameter->bytes() : 0;
  } else {
    return 0;
  }
}
template <class Operation>
[[nodiscard]] std::size_t host_bytes_of(const Operation& operation) noexcept {
  return std::apply(
      [&](const auto&... member) {
        return (std::size_t{0} + ... +
                (member.role == member_role::parameter ? host_bytes(operation.*member.pointer)
                                                       : std::size_t{0}));
      },
      Operation::members());
}

template <class Operation>
class typed_request final : public operation_request {
 public:
  typed_request(Operation&& asked, const request_options& o, request_sender s,
                reply_token<tensor> t)
      : operation_request(row_of(operation_type<Operation>{}), o, s, std::move(t)),
        asked_(std::move(asked)) {}
  typed_request(typed_request&& from) noexcept
      : operation_request(static_cast<operation_request&&>(from)), asked_(std::move(from.asked_)) {
    if (from.inferred_) inferred_.emplace(*from.inferred_, operands_of(asked_));
  }

  [[nodiscard]] std::unique_ptr<operation_request> to_heap() && override {
    return std::make_unique<typed_request>(std::move(*this));
  }
  [[nodiscard]] const void* operation() const noexcept override { return &asked_; }
  inference& infer() noexcept override { return inferred_.emplace(operands_of(asked_)); }
  [[nodiscard]] std::span<const inference::use> uses() const noexcept override {
    return inferred_->uses();
  }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + options.tag.capacity() + host_bytes_of(asked_);
  }

 private:
  void drop_operands() noexcept override {
    for (const auto& o : operands_of(asked_)) *o.value = operand();
  }

  Operation asked_;
  std::optional<inference_of<operand_count<Operation>()>> inferred_;
};

}  // namespace sluice::detail
