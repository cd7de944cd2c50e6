// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/hostile/bench.hpp"

#include <sluice/operations/executor.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice::test {

/// The error that most mutations cause.
inline constexpr auto bad = errc::invalid_argument;

/// A tensor like an operand, but of another type.
[[nodiscard]] inline tensor retyped(bench& test_bench, const operand& model, element_type type) {
  return test_bench.make(type, model.value().shape());
}

/// One request that can be sent to an executor.
class any_request {
 public:
  any_request() = default;
  any_request(const any_request&) = delete;
  any_request& operator=(const any_request&) = delete;
  virtual ~any_request() = default;
  /// Sends a copy of the request.
  virtual void submit(executor& executor, reply_token<tensor> token) const = 0;
  /// The operands that are given.
  [[nodiscard]] virtual std::vector<tensor> operands() const = 0;
  /// The tensors in host memory that the request reads or writes.
  [[nodiscard]] virtual std::vector<host_tensor> host_tensors() const { return {}; }
};

/// A request for an operation.
template <class Operation>
class request_for final : public any_request {
 public:
  explicit request_for(Operation operation) : operation_(std::move(operation)) {}

  void submit(executor& executor, reply_token<tensor> token) const override {
    if constexpr (std::is_same_v<operation_result<Operation>, tensor>) {
      executor.submit(operation_, {}, std::move(token));
    } else {
      executor.submit(operation_, {},
                      reply_token<tensors>::from(
                          [token](const tensors& results) { token.succeed(results.front()); },
                          [token](const error& why) { token.fail(why); }));
    }
  }
  [[nodiscard]] std::vector<tensor> operands() const override {
    std::vector<tensor> all;
    auto copy = operation_;
    detail::for_each_operand(copy, [&](const operand& value, auto&&...) {
      if (value) all.push_back(value.value());
    });
    return all;
  }
  [[nodiscard]] std::vector<host_tensor> host_tensors() const override {
    std::vector<host_tensor> all;
    const auto add = [&](const auto& member) {
      const auto& value = operation_.*member.pointer;
      using type = std::decay_t<decltype(value)>;
      if constexpr (std::is_same_v<type, host_tensor>) {
        if (value) all.push_back(value);
      } else if constexpr (std::is_same_v<type, std::shared_ptr<host_tensor>>) {
        if (value && *value) all.push_back(*value);
      }
    };
    std::apply([&](const auto&... member) { (add(member), ...); }, Operation::members());
    return all;
  }

 private:
  Operation operation_;
};

/// Something wrong with a request, and the answer that the documentation promises.
struct mutation {
  std::string description;
  errc code;
  std::string argument;  ///< the name at the beginning of the error's text
  /// Draws a valid request and spoils it.
  std::function<std::unique_ptr<any_request>(bench&)> make;
};

/// The mutations of one operation.
struct operation_mutations {
  const operation_descriptor* descriptor =
      nullptr;  ///< the operation; nullptr for another spelling of one
  std::string name;
  std::vector<std::string> operands;  ///< the names of its operands
  std::vector<mutation> mutations;
  std::vector<const operation_descriptor*> functions{};  ///< of the functions of a family
};

/// Collects the mutations of one operation.
template <class Operation>
class mutations_of {
 public:
  /// `valid` draws a valid request. All of its operands are given, and every dimension of them has
  /// at least two elements.
  explicit mutations_of(std::function<Operation(bench&)> valid) : valid_(std::move(valid)) {}

  /// Adds a mutation: `spoil(operation, bench)` changes a valid request.
  void add(std::string description, errc code, std::string argument,
           std::function<void(Operation&, bench&)> spoil) {
    all_.push_back({std::move(description), code, std::move(argument),
                    [valid = valid_, spoil = std::move(spoil)](bench& test_bench) {
                      auto operation = valid(test_bench);
                      spoil(operation, test_bench);
                      return std::make_unique<request_for<Operation>>(std::move(operation));
                    }});
  }
  /// Adds a mutation of a member: `wrong(bench)` is its value.
  template <class T, class Wrong>
  void set(T Operation::*member, std::string description, errc code, std::string argument,
           Wrong wrong) {
    add(std::move(description), code, std::move(argument),
        [member, wrong](Operation& operation, bench& test_bench) {
          operation.*member = wrong(test_bench);
        });
  }
  /// Adds a mutation that sets a member to a value.
  template <class T>
  void value(T Operation::*member, std::string description, std::string argument,
             const std::type_identity_t<T>& wrong) {
    add(std::move(description), errc::invalid_argument, std::move(argument),
        [member, wrong](Operation& operation, bench&) { operation.*member = wrong; });
  }

  /// Adds what is wrong with the memory of any operand.
  template <class Operand>
  void memory(const std::string& name, Operand Operation::*member) {
    add("stale " + name, errc::stale_ref, name, [member](Operation& operation, bench& test_bench) {
      operation.*member = test_bench.stale((operation.*member).value());
    });
    add("foreign " + name, errc::invalid_argument, name,
        [member](Operation& operation, bench& test_bench) {
          operation.*member = test_bench.foreign((operation.*member).value());
        });
  }
  /// Adds what is wrong with any required input.
  template <class Operand>
  void required(const std::string& name, Operand Operation::*member) {
    value(member, "no " + name, name, Operand());
    memory(name, member);
  }
  /// Adds what is wrong with any output. It cannot be of type `wrong`, whatever the inputs are.
  void output(const std::string& name, operand Operation::*member, element_type wrong) {
    memory(name, member);
    add(name + " of another type", bad, name,
        [member, wrong](Operation& operation, bench& test_bench) {
          operation.*member = test_bench.make(wrong, (operation.*member).value().shape());
        });
    add(name + " with another dimension", bad, name,
        [member](Operation& operation, bench& test_bench) {
          const auto& y = (operation.*member).value();
          auto shape = y.shape();
          shape.push_back(1);
          operation.*member = test_bench.make(y.type(), shape);
        });
    add(name + " with one more element", bad, name,
        [member](Operation& operation, bench& test_bench) {
          const auto& y = (operation.*member).value();
          auto shape = y.shape();
          ++shape[shape.size() - 1];
          operation.*member = test_bench.make(y.type(), shape);
        });
    add(name + " of 2^63 - 1 elements", bad, name,
        [member](Operation& operation, bench& test_bench) {
          const auto& y = (operation.*member).value();
          auto shape = y.shape();
          for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = 1;
          shape[0] = most / static_cast<std::int64_t>(size_of(y.type()));
          operation.*member = test_bench.repeated(y.type(), shape);
        });
    add(name + " repeats one element", bad, name,
        [member](Operation& operation, bench& test_bench) {
          const auto& y = (operation.*member).value();
          operation.*member = test_bench.repeated(y.type(), y.shape());
        });
    add(name + " repeats its rows", bad, name, [member](Operation& operation, bench& test_bench) {
      const auto& y = (operation.*member).value();
      auto row = y.shape();
      row[0] = 1;
      operation.*member = test_bench.make(y.type(), row).broadcast_to(y.shape());
    });
    add(name + " overlaps itself", bad, name, [member](Operation& operation, bench& test_bench) {
      const auto& y = (operation.*member).value();
      auto strides = y.shape();
      for (std::size_t d = 0; d < strides.size(); ++d) strides[d] = 1;
      if (strides.size() == 1) strides[0] = 0;
      operation.*member = test_bench.strided(y.type(), y.shape(), strides);
    });
  }
  /// Adds an output that begins within an input.
  template <class Operand>
  void aliasing(const std::string& name, operand Operation::*output, const std::string& input_name,
                Operand Operation::*input) {
    add(name + " shares memory with " + input_name, errc::invalid_argument, name,
        [output, input](Operation& operation, bench& test_bench) {
          const auto x = (operation.*input).value();
          const auto y = (operation.*output).value();
          const auto step = std::max(size_of(x.type()), size_of(y.type()));
          const auto memory = test_bench.memory(x.bytes() + y.bytes() + step);
          operation.*input = bench::view(memory, x, 0);
          operation.*output = bench::view(memory, y, x.bytes() > step ? step : 0);
        });
  }

  [[nodiscard]] operation_mutations take(
      std::vector<const operation_descriptor*> functions = {}) && {
    const auto& descriptor = descriptor_of(operation_type<Operation>{});
    operation_mutations result{
        &descriptor, std::string(descriptor.name()), {}, std::move(all_), std::move(functions)};
    Operation any;
    for (const auto& o : detail::operands_of(any)) result.operands.emplace_back(o.name);
    return result;
  }

 private:
  std::function<Operation(bench&)> valid_;
  std::vector<mutation> all_;
};

}  // namespace sluice::test
