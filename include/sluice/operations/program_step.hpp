// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/host_bytes.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_descriptor.hpp>
#include <sluice/operations/scalar.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::detail {

/// Calls `work(name, scalar)` for each number of `operation` that a run of a program gives.
template <class Operation, class Work>
void for_each_scalar_of_program(Operation& operation, const Work& work) {
  const auto visit = [&](const auto& member) {
    using type = std::remove_cvref_t<decltype(operation.*member.pointer)>;
    if constexpr (std::is_same_v<type, scalar>) {
      auto& value = operation.*member.pointer;
      if (value.is_of_program()) work(member.name, value);
    } else if constexpr (std::is_same_v<type, std::optional<scalar>>) {
      auto& value = operation.*member.pointer;
      if (value && value->is_of_program()) work(member.name, *value);
    } else if constexpr (std::is_same_v<type, operand_or_number>) {
      auto& value = (operation.*member.pointer).number();
      if (value && value->is_of_program()) work(member.name, *value);
    }
  };
  std::apply([&](const auto&... member) { (visit(member), ...); }, Operation::members());
}

/// One operation of a program, without its type. Immutable once it has been added; programs that
/// contain each other share it.
class program_step {
 public:
  struct named_scalar {
    std::string_view name;
    scalar value;
  };

  explicit program_step(const operation_descriptor& descriptor) noexcept
      : descriptor_(descriptor) {}
  program_step(const program_step&) = delete;
  program_step& operator=(const program_step&) = delete;
  virtual ~program_step() = default;

  [[nodiscard]] const operation_descriptor& descriptor() const noexcept { return descriptor_; }
  /// The operands, in the order of the members.
  [[nodiscard]] virtual std::span<const named_operand> operands() const noexcept = 0;
  /// The parameters that a run gives, in the order of the members.
  [[nodiscard]] virtual std::vector<named_scalar> scalars() const = 0;
  /// The number that stands for an operand, in words; empty if there is none or a run gives it.
  [[nodiscard]] virtual std::string number_of(std::size_t operand) const = 0;
  /// Works out the call and the uses for operands with the properties `specs` and the numbers
  /// `scalars`. Thread-safe.
  virtual void infer(std::span<const std::optional<tensor_spec>> specs,
                     std::span<const scalar> scalars, call_storage& call,
                     std::span<inference::use> uses) const = 0;
  /// Its size in host memory.
  [[nodiscard]] virtual std::size_t bytes() const noexcept = 0;

 private:
  const operation_descriptor& descriptor_;
};

template <class Operation>
class typed_program_step final : public program_step {
 public:
  typed_program_step(const operation_descriptor& descriptor, Operation&& operation)
      : program_step(descriptor), operation_(std::move(operation)) {}

  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }
  [[nodiscard]] std::span<const named_operand> operands() const noexcept override {
    return operands_;
  }
  [[nodiscard]] std::vector<named_scalar> scalars() const override {
    std::vector<named_scalar> scalars;
    for_each_scalar_of_program(operation_, [&](std::string_view name, const scalar& value) {
      scalars.push_back({name, value});
    });
    return scalars;
  }
  [[nodiscard]] std::string number_of(std::size_t number) const override {
    std::string text;
    for_each_operand(operation_, [&](const auto& value, auto&&...) {
      if constexpr (std::is_same_v<decltype(value), const operand_or_number&>) {
        const bool is_it = &value == operands_[number].value && value.number();
        if (is_it && !value.number()->is_of_program()) text = value.number()->text();
      }
    });
    return text;
  }
  void infer(std::span<const std::optional<tensor_spec>> specs, std::span<const scalar> scalars,
             call_storage& call, std::span<inference::use> uses) const override {
    inference_for<Operation> inferred(operands_, specs);
    if (scalars.empty()) {
      descriptor().infer(&operation_, inferred, call);
      std::copy(inferred.uses().begin(), inferred.uses().end(), uses.begin());
      return;
    }
    auto operation = operation_;
    std::size_t number = 0;
    for_each_scalar_of_program(operation,
                               [&](std::string_view, scalar& value) { value = scalars[number++]; });
    inference_for<Operation> inference(inferred, operands_of(operation));
    descriptor().infer(&operation, inference, call);
    const inference_for<Operation> result(inference, operands_);
    std::copy(result.uses().begin(), result.uses().end(), uses.begin());
  }
  [[nodiscard]] std::size_t bytes() const noexcept override {
    return sizeof(*this) + host_bytes_of(operation_) +
           (has_operand_list<Operation>() ? operand_bytes<named_operand>(operation_) : 0);
  }

 private:
  Operation operation_;
  decltype(operands_of(std::declval<Operation&>())) operands_ = operands_of(operation_);
};

}  // namespace sluice::detail
