// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Measures sgemm(64) as requests to the blas actor and as plain calls of the same library on
/// another stream.
class sgemm_bench {
 public:
  static constexpr std::int64_t side = 64;  // of the square matrices

  explicit sgemm_bench(session& current)
      : system_(current.system()),
        runtime_(current.device().service().runtime()),
        actor_(current.device().blas()),
        stream_(runtime_.create_stream()),
        libraries_(runtime_, stream_.ref()),
        a_(upload_values(current, numbers())),
        b_(upload_values(current, numbers())) {
    for (std::size_t i = 0; i < bench_in_flight; ++i)
      c_.push_back(upload_values(current, numbers()));
    raw_c_ = upload_values(current, numbers());
    row_.prepare(libraries_);
    auto operation = to_operation(request(0));
    inference_of<detail::operand_count<gemm>()> inferred(detail::operands_of(operation));
    row_.infer(&operation, inferred, call_);
  }
  sgemm_bench(const sgemm_bench&) = delete;
  sgemm_bench& operator=(const sgemm_bench&) = delete;
  ~sgemm_bench() = default;

  /// Makes one call and waits for its end, `count` times.
  void raw_calls(int count, times& into) {
    for (int i = 0; i < count; ++i) {
      const auto begun = clock::now();
      call_library();
      stream_.synchronize();
      into.add(microseconds_since(begun));
    }
  }
  /// Sends one request and waits for its reply, `count` times.
  void round_trips(int count, times& into) {
    caf::scoped_actor self{system_};
    for (int i = 0; i < count; ++i) {
      const auto begun = clock::now();
      receive(sluice::request(self, actor_, caf::infinite, request(0)));
      into.add(microseconds_since(begun));
    }
  }

  /// Makes `count` calls, then waits for the last.
  void raw_loop(int count, times& into) {
    const auto begun = clock::now();
    for (int i = 0; i < count; ++i) call_library();
    stream_.synchronize();
    into.add(microseconds_since(begun) / count);
  }
  /// Sends `count` requests from one client, at most `bench_in_flight` at a time; `more` follows
  /// each operation in its message.
  template <class... More>
  void pipelined(int count, times& into, const More&... more) {
    caf::scoped_actor self{system_};
    const auto send = [&](std::size_t i) {
      return sluice::request(self, actor_, caf::infinite, request(i % bench_in_flight), more...);
    };
    std::deque<decltype(send(0))> pending;
    const auto begun = clock::now();
    for (int sent = 0; sent < count; ++sent) {
      if (pending.size() == bench_in_flight) {
        receive(std::move(pending.front()));
        pending.pop_front();
      }
      pending.push_back(send(static_cast<std::size_t>(sent)));
    }
    for (; !pending.empty(); pending.pop_front()) receive(std::move(pending.front()));
    into.add(microseconds_since(begun) / count);
  }

  /// Runs preflight and commit of a launch that reads two blocks and writes one, `count` times.
  void recorders(int count, times& into) {
    const auto begun = clock::now();
    for (int i = 0; i < count; ++i) {
      auto recorder = launch_recorder::strict(stream_.ref());
      recorder.read(a_).read(b_).write(raw_c_);
      recorder.preflight();
      recorder.commit();
    }
    into.add(microseconds_since(begun) / count);
    stream_.synchronize();
  }

 private:
  std::vector<float> numbers() {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(side * side);
    for (float& value : values) value = uniform(random_);
    return values;
  }
  /// Enqueues a call of the library, as a request does, without everything around it.
  void call_library() {
    const std::array<void*, 3> addresses{a_.data(), b_.data(), raw_c_.data()};
    row_.enqueue(libraries_, call_, {.addresses = addresses});
  }
  [[nodiscard]] sgemm request(std::size_t i) const {
    return {.m = side, .n = side, .k = side, .a = a_, .b = b_, .c = c_[i]};
  }
  template <class Pending>
  void receive(Pending pending) {
    std::optional<error> failure;
    std::move(pending).receive([](const gpu_ref<float>&) {},
                               [&](const caf::error& why) {
                                 failure = from_caf_error(why);
                                 if (!failure)
                                   failure.emplace(errc::library_failure, describe(system_, why));
                               });
    if (failure) throw *failure;
  }

  caf::actor_system& system_;
  device_runtime& runtime_;
  blas_actor actor_;
  stream stream_;
  const operation_row& row_ = row_of(operation_type<gemm>{});
  lane_libraries libraries_;
  std::mt19937_64 random_{std::random_device()()};
  gpu_ref<float> a_;
  gpu_ref<float> b_;
  gpu_ref<float> raw_c_;
  std::vector<gpu_ref<float>> c_;
  operation_row::call_storage call_;
};

}  // namespace sluice::cli
