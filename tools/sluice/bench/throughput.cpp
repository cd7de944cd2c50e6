// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/arrays.hpp"
#include "tools/sluice/bench/batch_sizes.hpp"
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/by_hand_on_gpu.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/plain_calls.hpp"
#include "tools/sluice/bench/products.hpp"

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

/// Clients that send messages of `size` operations. They count operations.
class bulk_clients {
 public:
  template <class... Arguments>
  explicit bulk_clients(std::size_t size, Arguments&&... arguments)
      : size_(static_cast<std::int64_t>(size)), clients_(std::forward<Arguments>(arguments)...) {}
  void send(std::int64_t count) { clients_.send(count / size_); }

 private:
  std::int64_t size_;
  load_clients<bulk_results> clients_;
};

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
  const auto load_on = [&](const fft_actor& target, result_bits bits) {
    return std::make_shared<load_clients<tensor>>(
        current.system(), clients, bench_in_flight, target,
        [&rows, bits](std::size_t client, std::size_t i) {
          return std::tuple(rfft{.x = rows[client * bench_in_flight + i % bench_in_flight]},
                            request_options{.bits = bits});
        });
  };
  const auto fft = current.device().fft();
  paired_rounds all(settings);
  all.add("library calls, one thread", [&](std::int64_t n) {
    plain.call(n);
    plain.synchronize();
  });
  const auto together = load_on(fft, result_bits::any);
  const auto way = all.add("4 clients", [together](std::int64_t n) { together->send(n); });
  all.show_batch(way, [&] {
    return mean_batch(current, spawn_fft, [&](const fft_actor& target) {
      load_on(target, result_bits::any)->send(4096);
    });
  });
  const auto alone = load_on(fft, result_bits::as_if_alone);
  all.add("4 clients, no batches", [alone](std::int64_t n) { alone->send(n); });
  all.measure();
  plain.call(static_cast<std::int64_t>(rows.size()));
  plain.synchronize();
  check_sample<tensor>(
      current, fft, expected, [&rows](std::size_t i) { return rfft{.x = rows[i]}; }, "a transform");
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
  // Adds a way whose requests gather. `load_on(actor)` makes its clients.
  const auto add = [&](paired_rounds& to, const std::string& name, const auto& load_on) {
    const auto way = to.add(name, [load = load_on(blas)](std::int64_t n) { load->send(n); });
    to.show_batch(way, [&current, load_on] {
      return mean_batch(current, spawn_blas,
                        [&](const blas_actor& target) { load_on(target)->send(4096); });
    });
    return way;
  };
  const auto clients_of = [&](const products& of, std::size_t clients, bool gives_output) {
    return [&current, &of, clients, gives_output](const blas_actor& target) {
      return make_clients(current, of, clients, bench_in_flight, target, gives_output);
    };
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
  const auto four = add(same_shape, "4 clients", clients_of(equal, 4, true));
  compare_with_batches(four, 64);
  same_shape.add(
      "4 clients with a trace",
      [load = clients_of(equal, 4, true)(traced)](std::int64_t n) { load->send(n); }, four);
  add(same_shape, "4 clients, outputs allocated", clients_of(equal, 4, false));
  add(same_shape, "1 client", clients_of(equal, 1, true));
  const auto alone = make_clients(current, equal, 4, bench_in_flight, blas, true,
                                  request_options{.bits = result_bits::as_if_alone});
  same_shape.add("4 clients, no batches", [alone](std::int64_t n) { alone->send(n); });
  for (const std::size_t size : {64, 256}) {
    static constexpr std::size_t clients = 4;
    static constexpr auto share = count / clients;
    const auto load_on = [&current, &equal, size](const blas_actor& target) {
      return std::make_shared<bulk_clients>(
          size, current.system(), clients, share / size, target,
          [&equal, size](std::size_t client, std::size_t i) {
            return std::tuple(equal.bulk_of(client * share + i * size % share, size));
          });
    };
    const auto way =
        add(same_shape, fmt::format("4 clients, messages of {}, 256 in flight", size), load_on);
    compare_with_batches(way, size);
  }
  const auto echoed = make_clients(current, equal, 4, bench_in_flight, echo, true);
  same_shape.add("4 clients of an actor that answers at once",
                 [echoed](std::int64_t n) { echoed->send(n); });
  same_shape.measure();

  paired_rounds mixed_shapes(settings);
  mixed_shapes.add("library calls, one thread", [&](auto n) { mixed_by_hand.one_by_one(n); });
  add(mixed_shapes, "4 clients", clients_of(mixed, 4, true));
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
