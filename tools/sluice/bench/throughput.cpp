// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/envelope/chrome_trace.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/fft.hpp>

#include <fmt/format.h>

#include <map>
#include <tuple>

namespace sluice::cli {
namespace {

constexpr std::size_t product_count = 1024;

/// Clients that send messages of `size` products. They count products.
class bulk_clients {
 public:
  bulk_clients(session& current, const std::vector<sgemm>& products, std::size_t size,
               const blas_actor& target)
      : size_(static_cast<std::int64_t>(size)),
        clients_(current.system(), bench_clients, share / size, target,
                 [&products, size](std::size_t client, std::size_t i) {
                   const auto first = client * share + i * size % share;
                   bulk message;
                   for (std::size_t k = 0; k < size; ++k) message.add(products[first + k]);
                   return std::tuple(std::move(message));
                 }) {}
  void send(std::int64_t products) { clients_.send(products / size_); }

 private:
  static constexpr std::size_t share = product_count / bench_clients;

  std::int64_t size_;
  load_clients<bulk_results> clients_;
};

std::string title_of(const char* work) {
  return fmt::format("{}, {} requests of each client in flight", work, bench_in_flight);
}

/// The requests of clients for products, which are launched together.
way_of_work batched_products(bench_run& run, std::string name, const std::vector<sgemm>& products,
                             std::size_t clients = bench_clients) {
  return batched_load(run.current, std::move(name), run.current.device().blas(), spawn_blas, 4096,
                      [&current = run.current, &products, clients](const auto& target) {
                        return product_load(current, target, products, clients);
                      });
}

void measure_equal_products(bench_run& run) {
  auto& current = run.current;
  const auto products = make_products(current, product_count, {{64, 64, 64}});
  auto without_outputs = products;
  for (auto& product : without_outputs) product.c = {};
  const auto plain = plain_products(run.runtime(), products);
  const auto blas = current.device().blas();

  paired_rounds ways(run, "sgemm_64", title_of("sgemm(64)"));
  ways.add("library calls, one thread", [&](std::int64_t n) { plain->run(n); });
  std::map<std::size_t, std::vector<std::size_t>> batch_rows;  // by the size of a batch
  if (const auto batches = make_batches_by_hand(run.runtime(), products)) {
    for (const std::size_t size : {64, 256}) {
      batch_rows[size] = {ways.add(fmt::format("library calls, batches of {}", size),
                                   [batches, size](std::int64_t n) { batches(size, n); })};
    }
  }
  auto four_clients = batched_products(run, "4 clients", products);
  four_clients.comparisons = batch_rows[64];
  const auto four_clients_row = ways.add(std::move(four_clients));
  const auto traced = spawn_blas(
      current.system(), current.device().shared_service(),
      std::make_shared<chrome_trace>(chrome_trace_options{.full = when_full::overwrite_oldest}));
  ways.add("4 clients with a trace",
           sending(product_load(current, traced, products, bench_clients)), four_clients_row);
  ways.add(batched_products(run, "4 clients, outputs allocated", without_outputs));
  ways.add(batched_products(run, "1 client", products, 1));
  ways.add("4 clients, no batches",
           sending(product_load(current, blas, products, bench_clients, bench_in_flight,
                                request_options{.bits = result_bits::as_if_alone})));
  for (const std::size_t size : {64, 256}) {
    auto messages =
        batched_load(current, fmt::format("4 clients, messages of {}, 256 in flight", size), blas,
                     spawn_blas, 4096, [&current, &products, size](const blas_actor& target) {
                       return std::make_shared<bulk_clients>(current, products, size, target);
                     });
    messages.comparisons = batch_rows[size];
    ways.add(std::move(messages));
  }
  ways.measure();
  check_products(run, products);
}

void measure_mixed_products(bench_run& run) {
  const auto products = make_products(run.current, product_count,
                                      {{64, 64, 64},
                                       {32, 32, 32},
                                       {128, 128, 128},
                                       {64, 32, 128},
                                       {16, 64, 64},
                                       {128, 16, 32},
                                       {96, 96, 96},
                                       {48, 48, 48},
                                       {128, 64, 128},
                                       {64, 128, 64},
                                       {32, 128, 64},
                                       {8, 128, 128},
                                       {100, 60, 20},
                                       {33, 65, 127},
                                       {120, 40, 80},
                                       {128, 128, 16}});
  const auto plain = plain_products(run.runtime(), products);
  paired_rounds ways(run, "sgemm_16_shapes", title_of("sgemm of 16 shapes up to 128"));
  ways.add("library calls, one thread", [&](std::int64_t n) { plain->run(n); });
  ways.add(batched_products(run, "4 clients", products));
  ways.measure();
  check_products(run, products);
}

/// Transforms of rows of 1024 real numbers.
void measure_transforms(bench_run& run) {
  auto& current = run.current;
  const auto transforms = several(bench_clients * bench_in_flight,
                                  [&] { return rfft{.x = random_tensor(current, {1024})}; });
  const auto add_plain = [](plain_calls& calls, const rfft& transform) {
    return calls.add("", transform);
  };
  const auto plain = plain_sets(run.runtime(), transforms, add_plain);
  const auto fft = current.device().fft();
  const auto make_clients = [&current, &transforms](const fft_actor& target,
                                                    const request_options& options) {
    return make_load<tensor>(current, target, transforms, bench_clients, bench_in_flight, options);
  };
  paired_rounds ways(run, "rfft_1024", title_of("rfft(1024)"));
  ways.add("library calls, one thread", [&](std::int64_t n) { plain->run(n); });
  ways.add(
      batched_load(current, "4 clients", fft, spawn_fft, 4096,
                   [make_clients](const fft_actor& target) { return make_clients(target, {}); }));
  ways.add("4 clients, no batches", sending(make_clients(fft, {.bits = result_bits::as_if_alone})));
  ways.measure();
  check_sample<tensor>(run, fft, transforms, add_plain, "a transform");
}

}  // namespace

void bench_throughput(bench_run& run) {
  measure_equal_products(run);
  measure_mixed_products(run);
  measure_transforms(run);
  run.report.set_library(run.library_of<gemm>());
}

}  // namespace sluice::cli
