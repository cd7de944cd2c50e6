// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/processors.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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
  /// Calls on the stream `on` of `runtime`.
  plain_calls(device_runtime& runtime, stream on)
      : runtime_(runtime), stream_(std::move(on)), libraries_(runtime, stream_.ref()) {}

  /// From now on, operations with the same name write their results to the same memory, except
  /// those called `result`.
  void share_memory_except(std::string result) { own_memory_ = std::move(result); }

  /// Adds a call of `operation` to the current set, and returns its result. An output that is not
  /// given is allocated. The operands need no packing. @throws error what the operation refuses
  template <class Operation>
  tensor add(std::string_view name, Operation operation) {
    const auto& descriptor = descriptor_of(operation_type<Operation>{});
    auto& made = calls_.emplace_back(&descriptor);
    const auto operands = detail::operands_of(operation);
    inference_of<detail::operand_count<Operation>()> inferred(operands);
    descriptor.infer(&operation, inferred, made.call);
    descriptor.prepare(libraries_);
    if (descriptor.makes_plans(kind())) made.plan = plan_of(descriptor, made.call);
    tensor result;
    for (const auto& u : inferred.uses()) {
      auto value = u.operand.value->value();
      if (u.operand.role == member_role::output) {
        if (!value) {
          value =
              tensor(memory(name, u.spec->bytes()), u.spec->type, u.spec->shape, u.spec->strides);
        }
        result = value;
      }
      made.operands.push_back(value);
      made.addresses.push_back(value.address());
    }
    return result;
  }
  /// Adds a copy of `values` to the device to the current set, and returns the copy.
  tensor add_copy(const host_tensor& values) {
    auto& made = calls_.emplace_back(nullptr);
    tensor result(runtime_.allocate_bytes(values.bytes(), stream_.ref()), values.type(),
                  values.shape());
    made.source = values;
    made.operands.push_back(result);
    made.addresses.push_back(result.address());
    return result;
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
    for (auto at = set == 0 ? 0 : ends_[set - 1]; at < ends_[set]; ++at) call(calls_[at]);
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
  struct planned {
    explicit planned(const operation_descriptor* of) : descriptor(of) {}
    const operation_descriptor* descriptor;  // nullptr: a copy of `source`
    call_storage call;
    host_tensor source{};
    std::vector<tensor> operands{};  // owners of the addresses
    std::vector<void*> addresses{};
    const shared_plan* plan = nullptr;
  };

  [[nodiscard]] device_kind kind() const { return runtime_.device().id().kind; }
  [[nodiscard]] const shared_plan* plan_of(const operation_descriptor& descriptor,
                                           const call_storage& call) {
    const auto key = descriptor.key(kind(), call);
    auto& shared =
        plans_[{&descriptor, std::string(reinterpret_cast<const char*>(key.data()), key.size())}];
    if (!shared.plan) {
      shared.plan = descriptor.make_plan(libraries_, call);
      if (const auto bytes = shared.plan->workspace_bytes(); bytes != 0) {
        shared.workspace = runtime_.allocate_bytes(bytes, stream_.ref());
      }
    }
    return &shared;
  }
  [[nodiscard]] block_ref memory(std::string_view name, std::size_t bytes) {
    if (own_memory_.empty() || name == own_memory_) {
      return runtime_.allocate_bytes(bytes, stream_.ref());
    }
    auto& shared = memory_[std::string(name)];
    if (!shared || shared.bytes() < bytes) shared = runtime_.allocate_bytes(bytes, stream_.ref());
    return shared;
  }
  void call(const planned& one) {
    const bool on_host = kind() == device_kind::host;
    if (one.descriptor == nullptr) {
      const auto source = one.source.data();
      if (on_host) {
        std::memcpy(one.addresses[0], source.get(), one.source.bytes());
      } else {
        runtime_.device().copy(one.addresses[0], source.get(), one.source.bytes(),
                               copy_direction::host_to_device, stream_.ref().native());
      }
      return;
    }
    launch_memory memory{.addresses = one.addresses};
    if (one.plan != nullptr) {
      memory.plan = one.plan->plan.get();
      memory.workspace = one.plan->workspace ? one.plan->workspace.address() : nullptr;
    }
    if (on_host) {
      one.descriptor->compute(one.call, memory);
    } else {
      one.descriptor->enqueue(libraries_, one.call, memory);
    }
  }

  device_runtime& runtime_;
  stream stream_;
  lane_libraries libraries_;
  std::string own_memory_;
  std::map<std::string, block_ref> memory_;
  std::map<std::pair<const operation_descriptor*, std::string>, shared_plan> plans_;
  std::deque<planned> calls_;
  std::vector<std::size_t> ends_;
};

/// Calls by several threads, each on a stream of its own.
class plain_threads {
 public:
  /// `make(i)` makes the calls of thread `i`, as a `std::unique_ptr`.
  template <class Make>
  plain_threads(std::size_t count, const Make& make) {
    for (std::size_t i = 0; i < count; ++i) all_.push_back(make(i));
  }
  /// Makes the calls of `count` sets, which the threads share equally, and waits for them.
  void run(std::int64_t count) {
    on_threads(all_.size(), [&, share = count / static_cast<std::int64_t>(all_.size())](auto i) {
      const pinned_client here(i);
      all_[i]->run(share);
    });
  }

 private:
  std::vector<std::unique_ptr<plain_calls>> all_;
};

}  // namespace sluice::cli
