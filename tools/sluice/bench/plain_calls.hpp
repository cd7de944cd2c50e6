// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/load_client.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/tensors.hpp>
#include <sluice/operations/transfer.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/tensor.hpp>

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <type_traits>

namespace sluice::cli {

/// Operations that are called by hand, one after the other on one stream, with nothing around them:
/// no checks, no owners and no fences. The host device computes them on the calling thread. Not
/// thread-safe.
///
/// The calls form sets: the steps of a program for one input, for example. Calls that need equal
/// plans share one.
class plain_calls {
 public:
  explicit plain_calls(device_runtime& runtime) : plain_calls(runtime, runtime.create_stream()) {}
  /// Calls on `calls_stream`, a stream of `runtime`.
  plain_calls(device_runtime& runtime, stream calls_stream)
      : runtime_(runtime), stream_(std::move(calls_stream)), libraries_(runtime, stream_.ref()) {}

  /// From now on, operations with the same name write their results to the same memory, except
  /// those called `result`.
  void share_memory_except(std::string result) { result_name_ = std::move(result); }

  /// Adds a call of `operation` to the current set, and returns its result. Allocates an output
  /// that the operation does not name. The operands need no packing. @throws error the refusal of
  /// the operation
  template <class Operation>
  tensor add(std::string_view name, Operation operation) {
    const auto& descriptor = descriptor_of(operation_type<Operation>{});
    auto& call = calls_.emplace_back(&descriptor);
    const auto operands = detail::operands_of(operation);
    inference_for<Operation> inferred(operands);
    descriptor.infer(&operation, inferred, call.storage);
    descriptor.prepare(libraries_);
    if (descriptor.makes_plans(kind())) add_plan(call);
    tensor result;
    for (const auto& use : inferred.uses()) {
      auto operand = use.operand.value->value();
      if (use.operand.role == member_role::output) {
        if (!operand) {
          operand = tensor(memory(name, use.spec->bytes()), use.spec->type, use.spec->shape,
                           use.spec->strides);
        }
        result = operand;
      }
      call.add(std::move(operand));
    }
    return result;
  }
  /// Adds a copy of `values` to the device to the current set, and returns the copy.
  tensor add_copy(const host_tensor& values) {
    tensor copy(runtime_.allocate_bytes(values.bytes(), stream_.ref()), values.type(),
                values.shape());
    auto& call = calls_.emplace_back(nullptr);
    call.source = values;
    call.add(copy);
    return copy;
  }
  /// Ends the current set.
  void end_set() { ends_.push_back(calls_.size()); }

  /// Makes the calls of the first `count` sets; after the last one comes the first.
  void call(std::int64_t count = 1) {
    for (std::int64_t i = 0; i < count; ++i) call_set(i);
  }
  /// Makes the calls of set `i`; after the last one comes the first.
  void call_set(std::int64_t i) {
    const auto set = static_cast<std::size_t>(i) % ends_.size();
    for (auto k = set == 0 ? 0 : ends_[set - 1]; k < ends_[set]; ++k) make(calls_[k]);
  }
  /// Waits for the calls.
  void synchronize() { stream_.synchronize(); }
  /// Makes the calls of `count` sets, and waits for them.
  void run(std::int64_t count) {
    call(count);
    synchronize();
  }
  /// The same, with a wait after each set.
  void run_one_at_a_time(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      call_set(i);
      synchronize();
    }
  }

 private:
  struct shared_plan {
    std::shared_ptr<const operation_plan> plan;
    block_ref workspace{};
  };
  struct prepared_call {
    explicit prepared_call(const operation_descriptor* operation) : descriptor(operation) {}
    void add(tensor operand) {
      addresses.push_back(operand.address());
      operands.push_back(std::move(operand));
      memory.addresses = addresses;
    }
    const operation_descriptor* descriptor;  // nullptr: a copy of `source`
    call_storage storage;
    host_tensor source{};
    std::vector<tensor> operands{};  // owners of the addresses
    std::vector<void*> addresses{};
    launch_memory memory{};
  };

  [[nodiscard]] device_kind kind() const { return runtime_.device().id().kind; }
  /// Gives `call` the plan of all calls with the same key.
  void add_plan(prepared_call& call) {
    const auto key = call.descriptor->key(kind(), call.storage);
    auto& [plan, workspace] = plans_[{
        call.descriptor, std::string(reinterpret_cast<const char*>(key.data()), key.size())}];
    if (!plan) {
      plan = call.descriptor->make_plan(libraries_, call.storage);
      if (const auto bytes = plan->workspace_bytes(); bytes != 0) {
        workspace = runtime_.allocate_bytes(bytes, stream_.ref());
      }
    }
    call.memory.plan = plan.get();
    if (workspace) call.memory.workspace = workspace.address();
  }
  [[nodiscard]] block_ref memory(std::string_view name, std::size_t bytes) {
    if (result_name_.empty() || name == result_name_) {
      return runtime_.allocate_bytes(bytes, stream_.ref());
    }
    auto& shared = memory_[std::string(name)];
    if (!shared || shared.bytes() < bytes) shared = runtime_.allocate_bytes(bytes, stream_.ref());
    return shared;
  }
  void make(const prepared_call& call) {
    const bool on_host = kind() == device_kind::host;
    if (call.descriptor != nullptr) {
      if (on_host) return call.descriptor->compute(call.storage, call.memory);
      return call.descriptor->enqueue(libraries_, call.storage, call.memory);
    }
    const auto source = call.source.data();
    if (on_host) {
      std::memcpy(call.addresses[0], source.get(), call.source.bytes());
    } else {
      runtime_.device().copy(call.addresses[0], source.get(), call.source.bytes(),
                             copy_direction::host_to_device, stream_.ref().native());
    }
  }

  device_runtime& runtime_;
  stream stream_;
  lane_libraries libraries_;
  std::string result_name_;
  std::map<std::string, block_ref> memory_;
  std::map<std::pair<const operation_descriptor*, std::string>, shared_plan> plans_;
  std::deque<prepared_call> calls_;
  std::vector<std::size_t> ends_;
};

/// Plain calls with a set for each of `inputs`. `add(calls, input)` adds the calls of its set.
template <class Inputs, class Add>
std::unique_ptr<plain_calls> plain_sets(device_runtime& runtime, const Inputs& inputs,
                                        const Add& add) {
  auto calls = std::make_unique<plain_calls>(runtime);
  for (const auto& input : inputs) {
    (void)add(*calls, input);
    calls->end_set();
  }
  return calls;
}

/// Plain calls by several threads, each on a stream of its own.
class plain_threads {
 public:
  /// `make(i)` makes the calls of thread `i`, as a `std::unique_ptr`.
  template <class Make>
  plain_threads(std::size_t count, const Make& make) {
    for (std::size_t i = 0; i < count; ++i) calls_.push_back(make(i));
  }
  /// Makes the calls of `count` sets, which the threads share equally, and waits for them.
  void run(std::int64_t count) {
    const auto share = count / static_cast<std::int64_t>(calls_.size());
    on_threads(calls_.size(), [&](std::size_t i) { calls_[i]->run(share); });
  }

 private:
  std::vector<std::unique_ptr<plain_calls>> calls_;
};

/// Compares two tensors of real or complex f32 numbers. `name` names the result.
/// @throws error `library_failure` if their relative difference in the 2-norm exceeds rounding
inline void require_equal(session& current, const tensor& result, const tensor& expected,
                          const std::string& name) {
  const auto copy = [&](const tensor& x) {
    return current.ask<host_tensor>(current.device().actor(), download{.x = x});
  };
  const auto numbers = [](const host_tensor& x) {
    return std::span(static_cast<const float*>(x.data().get()), x.bytes() / sizeof(float));
  };
  const auto left = copy(result);
  const auto right = copy(expected);
  if (left.type() != right.type() || left.shape() != right.shape()) {
    throw error(errc::library_failure, name + " has a wrong type or shape");
  }
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < numbers(left).size(); ++i) {
    difference += std::pow(numbers(left)[i] - numbers(right)[i], 2.0);
    size += std::pow(numbers(right)[i], 2.0);
  }
  if (std::sqrt(difference) <= 1e-5 * std::sqrt(size)) return;
  throw error(errc::library_failure,
              fmt::format("{} is wrong by {:.2g}", name, std::sqrt(difference / size)));
}

/// Sends all `requests` at once, as the clients that were measured do, and compares a random sample
/// of the results with those of plain calls. `add_plain(calls, request)` adds the calls for a
/// request and returns their result. `name` names a result.
/// @throws error `library_failure` if one is wrong
/// @throws error the error of a reply
template <class Reply, class Handle, class Request, class AddPlain>
void check_sample(bench_run& run, const Handle& target, const std::vector<Request>& requests,
                  const AddPlain& add_plain, const std::string& name) {
  const auto replies =
      replies_to<Reply>(run.current.system(), requests.size(), [&](auto& self, std::size_t i) {
        return sluice::request(self, target, caf::infinite, requests[i]);
      });
  std::uniform_int_distribution<std::size_t> sample(0, requests.size() - 1);
  for (int check = 0; check < 8; ++check) {
    const auto i = sample(random_source());
    plain_calls calls(run.runtime());
    const tensor expected = add_plain(calls, requests[i]);
    calls.end_set();
    calls.run(1);
    if constexpr (std::is_same_v<Reply, tensors>) {
      require_equal(run.current, replies[i].front(), expected, name);
    } else {
      require_equal(run.current, replies[i], expected, name);
    }
  }
}

}  // namespace sluice::cli
