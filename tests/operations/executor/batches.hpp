// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/executing.hpp"
#include "tests/operations/gathering_executor.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/runtime/host_device.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace sluice::test {

inline constexpr std::int64_t side = 8;

/// A permutation as a matrix. The product of two is exact, and depends on their order.
using permutation = std::vector<std::uint8_t>;

inline permutation any_permutation(std::mt19937_64& random, std::int64_t size = side) {
  permutation p(static_cast<std::size_t>(size));
  std::iota(p.begin(), p.end(), std::uint8_t{0});
  std::shuffle(p.begin(), p.end(), random);
  return p;
}
/// The permutation of the product of the matrices of `a` and `b`.
inline permutation product(const permutation& a, const permutation& b) {
  permutation c(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) c[i] = b[a[i]];
  return c;
}
inline std::vector<float> matrix_of(const permutation& p) {
  std::vector<float> values(p.size() * p.size());
  for (std::size_t i = 0; i < p.size(); ++i) values[i * p.size() + p[i]] = 1;
  return values;
}

using sizes = std::vector<std::size_t>;

/// An executor whose requests are gathered into batches.
class batches : public executor_test {
 protected:
  void SetUp() override {
    executor_test::SetUp();
    if (IsSkipped()) return;
    traced_ = std::make_unique<gathering_executor>(service(), waking());
    // Nothing may be loaded behind a closed gate.
    (void)run(traced(), product_of(any(), any()));
    traced_->begin();
  }
  void TearDown() override {
    traced_.reset();
    executor_test::TearDown();
  }
  std::shared_ptr<device> opened_device() override {
    if (GetParam() != "host") return open_device(GetParam());
    return open_host_device(
        {.jitter = host_jitter{process_seed(), std::chrono::microseconds(20)}, .faults = faults_});
  }

  [[nodiscard]] executor& traced() { return traced_->get(); }
  void gather() { traced_->gather(); }
  void launch_gathered() { traced_->launch_gathered(); }
  [[nodiscard]] fault_script& faults() { return *faults_; }
  [[nodiscard]] bool on_host() { return GetParam() == "host"; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  [[nodiscard]] const batch_trace& trace() const { return traced_->trace(); }
  /// The sizes of the batches of the test.
  [[nodiscard]] sizes launched() const { return traced_->launched(); }

  tensor values(const permutation& p) {
    const auto extent = static_cast<std::int64_t>(p.size());
    return tensor(upload(runtime(), stream(), matrix_of(p))).reshape({extent, extent});
  }
  tensor any() { return values(any_permutation(random_)); }
  /// Two matrices, and the elements of their product.
  struct known_product {
    tensor a;
    tensor b;
    std::vector<float> elements;
  };
  known_product any_product() {
    const auto p = any_permutation(random_);
    const auto q = any_permutation(random_);
    return {values(p), values(q), matrix_of(product(p, q))};
  }
  static gemm product_of(tensor a, tensor b, tensor c = {}) {
    return {.a = std::move(a), .b = std::move(b), .c = std::move(c)};
  }
  pending_answer send(gemm operation, const request_options& options = {},
                      request_sender sender = {}) {
    return submit(traced(), std::move(operation), options, sender);
  }
  tensor answer_of(pending_answer& answer) { return wait(traced(), answer); }
  std::vector<float> elements(const tensor& t) {
    return download(t.reshape({-1}).as<float>(), stream());
  }

 private:
  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
  std::unique_ptr<gathering_executor> traced_;
  std::mt19937_64 random_ = make_generator();
};

}  // namespace sluice::test
