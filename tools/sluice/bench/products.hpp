// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/check_results.hpp"
#include "tools/sluice/bench/load_client.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/lane_libraries.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

/// The operands of one product.
struct product {
  std::int64_t m, n, k;
  std::vector<float> a_values{}, b_values{};
  gpu_ref<float> a{}, b{}, c{};

  [[nodiscard]] sgemm request(bool gives_output) const {
    sgemm made{.m = m, .n = n, .k = k, .a = a, .b = b};
    if (gives_output) made.c = c;
    return made;
  }
  [[nodiscard]] std::array<void*, 3> addresses() const { return {a.data(), b.data(), c.data()}; }
};

/// Products of random matrices.
class products {
 public:
  /// `count` products of these sizes.
  products(session& current, std::size_t count,
           const std::vector<std::array<std::int64_t, 3>>& sizes)
      : session_(current) {
    for (std::size_t i = 0; i < count; ++i) {
      const auto [m, n, k] = sizes[i % sizes.size()];
      product made{.m = m, .n = n, .k = k, .a_values = numbers(m * k), .b_values = numbers(k * n)};
      made.a = upload_values(session_, made.a_values);
      made.b = upload_values(session_, made.b_values);
      made.c = upload_values(session_, std::vector<float>(static_cast<std::size_t>(m * n)));
      all_.push_back(std::move(made));
    }
  }
  [[nodiscard]] const product& operator[](std::size_t i) const { return all_[i % all_.size()]; }
  [[nodiscard]] std::size_t count() const { return all_.size(); }
  /// `size` products in one message.
  [[nodiscard]] bulk bulk_of(std::size_t first, std::size_t size) const {
    bulk many;
    for (std::size_t i = 0; i < size; ++i) many.add((*this)[first + i].request(true));
    return many;
  }

  /// Checks the results of a few random products. @throws error `library_failure` if one is wrong
  void check() {
    std::uniform_int_distribution<std::size_t> pick(0, all_.size() - 1);
    for (int i = 0; i < 8; ++i) check(all_[pick(random_)]);
  }

 private:
  /// Checks a thousand random elements.
  void check(const product& p) {
    const auto found = download_values(session_, p.c);
    relative_difference difference;
    for (int element = 0; element < 1000; ++element) {
      const auto row = std::uniform_int_distribution<std::int64_t>(0, p.m - 1)(random_);
      const auto column = std::uniform_int_distribution<std::int64_t>(0, p.n - 1)(random_);
      double sum = 0;
      for (std::int64_t i = 0; i < p.k; ++i) {
        sum += static_cast<double>(p.a_values[static_cast<std::size_t>(row * p.k + i)]) *
               static_cast<double>(p.b_values[static_cast<std::size_t>(i * p.n + column)]);
      }
      difference.add(found[static_cast<std::size_t>(row * p.n + column)], sum);
    }
    difference.require_small(fmt::format("a product of {} x {} x {}", p.m, p.n, p.k));
  }
  std::vector<float> numbers(std::int64_t count_of_one) {
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(static_cast<std::size_t>(count_of_one));
    for (float& value : values) value = uniform(random_);
    return values;
  }

  session& session_;
  std::mt19937_64 random_{std::random_device()()};
  std::vector<product> all_;
};

/// The same products as calls of the library on one stream, by one thread, with nothing around
/// them.
class by_hand {
 public:
  by_hand(session& current, const products& of)
      : runtime_(current.device().service().runtime()),
        of_(of),
        stream_(runtime_.create_stream()),
        libraries_(runtime_, stream_.ref()) {
    row_.prepare(libraries_);
    for (std::size_t i = 0; i < of.count(); ++i) {
      auto operation = to_operation(of[i].request(true));
      inference_of<detail::operand_count<gemm>()> inferred(detail::operands_of(operation));
      row_.infer(&operation, inferred, calls_.emplace_back());
    }
  }

  /// One call, and a wait for its end, after each other.
  void one_at_a_time(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      call(static_cast<std::size_t>(i) % of_.count());
      stream_.synchronize();
    }
  }
  /// One call for each product, then one wait.
  void one_by_one(std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      call(static_cast<std::size_t>(i) % of_.count());
    }
    stream_.synchronize();
  }

 private:
  void call(std::size_t which) {
    const auto addresses = of_[which].addresses();
    row_.enqueue(libraries_, calls_[which], {.addresses = addresses});
  }

  device_runtime& runtime_;
  const products& of_;
  stream stream_;
  lane_libraries libraries_;
  const operation_row& row_ = row_of(operation_type<gemm>{});
  std::deque<operation_row::call_storage> calls_;
};

using clients_of_sgemm = load_clients<gpu_ref<float>>;

/// Requests for `of`, by `clients` clients, each of which has products of its own and `in_flight`
/// requests in flight. `options` follow each request. Each product has been computed once.
template <class Handle, class... Options>
std::shared_ptr<clients_of_sgemm> make_clients(session& current, const products& of,
                                               std::size_t clients, std::size_t in_flight,
                                               const Handle& target, bool gives_output,
                                               const Options&... options) {
  auto made = std::make_shared<clients_of_sgemm>(
      current.system(), clients, in_flight, target,
      [&of, gives_output, share = of.count() / clients, options...](std::size_t client,
                                                                    std::size_t i) {
        return std::tuple(of[client * share + i % share].request(gives_output), options...);
      });
  made->send(static_cast<std::int64_t>(of.count()));
  return made;
}

}  // namespace sluice::cli
