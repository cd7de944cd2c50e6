// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/operations/inference.hpp>
#include <sluice/operations/lane_libraries.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

namespace sluice::cli {

/// Operations that are called by hand, one after the other on one stream, with nothing around them:
/// no checks, no owners and no fences. The host device computes them on the calling thread. Not
/// thread-safe.
class plain_calls {
 public:
  explicit plain_calls(device_runtime& runtime)
      : runtime_(runtime), stream_(runtime.create_stream()), libraries_(runtime, stream_.ref()) {}

  /// Adds a call of `operation`, and returns its result. An output that is not given is allocated.
  /// The operands need no packing. @throws error what the operation refuses
  template <class Operation>
  tensor add(std::string_view, Operation operation) {
    const auto& row = row_of(operation_type<Operation>{});
    auto& made = calls_.emplace_back(row);
    const auto operands = detail::operands_of(operation);
    inference_of<detail::operand_count<Operation>()> inferred(operands);
    row.infer(&operation, inferred, made.call);
    row.prepare(libraries_);
    if (row.makes_plans(runtime_.device().id().kind)) {
      made.plan = row.make_plan(libraries_, made.call);
      if (const auto bytes = made.plan->workspace_bytes(); bytes != 0) {
        made.workspace = runtime_.allocate_bytes(bytes, stream_.ref());
      }
    }
    tensor result;
    for (const auto& u : inferred.uses()) {
      auto value = u.of.value->value();
      if (u.of.role == member_role::output) {
        if (!value) {
          value = tensor(runtime_.allocate_bytes(u.spec->bytes(), stream_.ref()), u.spec->type,
                         u.spec->shape, u.spec->strides);
        }
        result = value;
      }
      made.operands.push_back(value);
      made.addresses.push_back(value.address());
    }
    return result;
  }

  /// Makes all calls.
  void call() { call(static_cast<std::int64_t>(calls_.size())); }
  /// Makes the first `count` calls.
  void call(std::int64_t count) {
    const bool on_host = runtime_.device().id().kind == device_kind::host;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto& one = calls_[static_cast<std::size_t>(i)];
      const launch_memory memory{.addresses = one.addresses,
                                 .plan = one.plan.get(),
                                 .workspace = one.workspace ? one.workspace.address() : nullptr};
      if (on_host) {
        one.row.compute(one.call, memory);
      } else {
        one.row.enqueue(libraries_, one.call, memory);
      }
    }
  }
  /// Waits for the calls.
  void synchronize() { stream_.synchronize(); }

 private:
  struct planned {
    explicit planned(const operation_row& of) : row(of) {}
    const operation_row& row;
    operation_row::call_storage call;
    std::vector<tensor> operands{};  // owners of the addresses
    std::vector<void*> addresses{};
    std::shared_ptr<const operation_plan> plan{};
    block_ref workspace{};
  };

  device_runtime& runtime_;
  stream stream_;
  lane_libraries libraries_;
  std::deque<planned> calls_;
};

}  // namespace sluice::cli
