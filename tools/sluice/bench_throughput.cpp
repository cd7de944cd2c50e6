// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench.hpp"
#include "tools/sluice/by_hand_on_gpu.hpp"
#include "tools/sluice/load_client.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/plain_calls.hpp"
#include "tools/sluice/products.hpp"

#include <sluice/envelope/chrome_trace.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/bulk.hpp>
#include <sluice/operations/fft.hpp>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

/// Answers a request at once, with its output.
using echo_actor = caf::typed_actor<takes<gpu_ref<float>(sgemm)>>;

echo_actor spawn_echo(caf::actor_system& system) {
  return system.spawn<caf::detached>([](echo_actor::pointer) {
    return echo_actor::behavior_type{[](sgemm& request) {
      return std::move(request.c);
    }};
  });
}

/// Transforms of rows of `length` real numbers.
paired_rounds measure_transforms(session& current, std::int64_t length,
                                 const bench_settings& settings) {
  constexpr std::size_t clients = 4;
  std::mt19937_64 random{std::random_device()()};
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<tensor> rows;
  for (std::size_t i = 0; i < clients * bench_in_flight; ++i) {
    std::vector<float> values(static_cast<std::size_t>(length));
    for (float& value : values) value = uniform(random);
    rows.emplace_back(upload_values(current, values));
  }
  plain_calls plain(current.device().service().runtime());
  std::vector<tensor> expected;
  for (const auto& row : rows) {
    expected.push_back(plain.add("", rfft{.x = row}));
    plain.end_set();
  }
  const auto load_with = [&](result_bits bits) {
    return std::make_shared<load_clients<tensor>>(
        current.system(), clients, bench_in_flight, current.device().fft(),
        [&rows, bits](std::size_t client, std::size_t i) {
          return std::tuple(rfft{.x = rows[client * bench_in_flight + i % bench_in_flight]},
                            request_options{.bits = bits});
        });
  };
  paired_rounds all(settings);
  all.add("library calls, one thread", [&](std::int64_t n) {
    plain.call(n);
    plain.synchronize();
  });
  const auto together = load_with(result_bits::any);
  all.add("4 clients", [together](std::int64_t n) { together->send(n); });
  const auto alone = load_with(result_bits::as_if_alone);
  all.add("4 clients, no batches", [alone](std::int64_t n) { alone->send(n); });
  all.measure();
  plain.call(static_cast<std::int64_t>(rows.size()));
  plain.synchronize();
  check_sample<tensor>(
      current, current.device().fft(), expected,
      [&rows](std::size_t i) { return rfft{.x = rows[i]}; }, "a transform");
  return all;
}

}  // namespace

bench_report bench_throughput(session& current, const bench_settings& settings) {
  constexpr std::size_t count = 1024;
  products equal(current, count, {{64, 64, 64}});
  products mixed(current, count,
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
  by_hand equal_by_hand(current, equal);
  by_hand mixed_by_hand(current, mixed);
  const auto blas = current.device().blas();
  const auto traced = spawn_blas(
      current.system(), current.device().shared_service(),
      std::make_shared<chrome_trace>(chrome_trace_options{.full = when_full::overwrite_oldest}));
  const auto echo = spawn_echo(current.system());

  paired_rounds same_shape(settings);
  const auto add = [&](paired_rounds& to, const std::string& name, const products& of,
                       std::size_t clients, bool gives_output, const blas_actor& target,
                       std::size_t reference = 0) {
    const auto load = make_clients(current, of, clients, bench_in_flight, target, gives_output);
    return to.add(
        name, [load](std::int64_t n) { load->send(n); }, reference);
  };
  same_shape.add("library calls, one thread", [&](auto n) { equal_by_hand.one_by_one(n); });
  std::map<std::size_t, std::size_t> ways_of_batches;  // by hand, by their sizes
  if (const auto batches = make_batches_by_hand(current, equal)) {
    for (const std::size_t size : {64, 256}) {
      ways_of_batches[size] = same_shape.add(fmt::format("library calls, batches of {}", size),
                                             [batches, size](std::int64_t n) { batches(size, n); });
    }
  }
  const auto compare_with_batches = [&](std::size_t way, std::size_t size) {
    const auto found = ways_of_batches.find(size);
    if (found != ways_of_batches.end()) same_shape.compare(way, found->second);
  };
  const auto four = add(same_shape, "4 clients", equal, 4, true, blas);
  compare_with_batches(four, 64);
  add(same_shape, "  the same with a trace, beside the row above", equal, 4, true, traced, four);
  add(same_shape, "4 clients, outputs allocated", equal, 4, false, blas);
  add(same_shape, "1 client", equal, 1, true, blas);
  const auto alone = make_clients(current, equal, 4, bench_in_flight, blas, true,
                                  request_options{.bits = result_bits::as_if_alone});
  same_shape.add("4 clients, no batches", [alone](std::int64_t n) { alone->send(n); });
  for (const std::size_t size : {64, 256}) {
    constexpr std::size_t clients = 4;
    constexpr auto share = count / clients;
    const auto load = std::make_shared<load_clients<bulk_results>>(
        current.system(), clients, share / size, blas,
        [&equal, size](std::size_t client, std::size_t i) {
          return std::tuple(equal.bulk_of(client * share + i * size % share, size));
        });
    const auto way = same_shape.add(
        fmt::format("4 clients, messages of {}, 256 in flight", size),
        [load, size](std::int64_t n) { load->send(n / static_cast<std::int64_t>(size)); });
    compare_with_batches(way, size);
  }
  const auto echoed = make_clients(current, equal, 4, bench_in_flight, echo, true);
  same_shape.add("4 clients of an actor that answers at once",
                 [echoed](std::int64_t n) { echoed->send(n); });
  same_shape.measure();

  paired_rounds mixed_shapes(settings);
  mixed_shapes.add("library calls, one thread", [&](auto n) { mixed_by_hand.one_by_one(n); });
  add(mixed_shapes, "4 clients", mixed, 4, true, blas);
  mixed_shapes.measure();
  equal.check();
  mixed.check();
  const auto transforms = measure_transforms(current, 1024, settings);

  const auto line = [](const char* what) {
    return fmt::format("{}, {} requests of each client in flight\n", what, bench_in_flight);
  };
  return {.library = library_of(row_of(operation_type<gemm>{}), current),
          .json = {{"sgemm_64", same_shape.json()},
                   {"sgemm_16_shapes", mixed_shapes.json()},
                   {"rfft_1024", transforms.json()}},
          .table = line("sgemm(64)") + same_shape.table() + '\n' +
                   line("sgemm of 16 shapes up to 128") + mixed_shapes.table() + '\n' +
                   line("rfft(1024)") + transforms.table()};
}

}  // namespace sluice::cli
