// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench.hpp"
#include "tools/sluice/request_times.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/runtime/launch_recorder.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
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
    time_round_trips<gpu_ref<float>>(system_, actor_, request(0), count, into);
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
    time_pipelined<gpu_ref<float>>(
        system_, actor_, [this](std::size_t i) { return request(i % bench_in_flight); }, count,
        into, more...);
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
