// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench.hpp"
#include "tools/sluice/bench_steps.hpp"
#include "tools/sluice/load_client.hpp"
#include "tools/sluice/paired_rounds.hpp"
#include "tools/sluice/plain_calls.hpp"
#include "tools/sluice/products.hpp"
#include "tools/sluice/threads_by_hand.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/operations/run.hpp>
#include <sluice/operations/tensors.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

constexpr std::size_t operand_sets = 256;
constexpr std::size_t mel_in_flight = 32;

/// The threads of which one large product of OpenBLAS makes use; 0 if unknown.
int threads_of_openblas() {
  auto* const function =
      reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  return function != nullptr ? function() : 0;
}

/// Adds a loop of plain calls. Each thread computes on its own, as a stream of the host device
/// does.
void add_loop(paired_rounds& to, threads_by_hand<plain_calls>& plain) {
  to.add("plain loop of library calls", [&plain](std::int64_t n) {
    plain.run(n, [](plain_calls& one, std::int64_t share) { one.call(share); });
  });
}

/// The calls that thread `i` of `threads` makes: `add(calls, k)` adds those of the k-th set.
template <class Add>
std::unique_ptr<plain_calls> share_of_thread(session& current, std::size_t i, std::size_t threads,
                                             const Add& add) {
  auto made = std::make_unique<plain_calls>(current.device().service().runtime());
  const auto share = operand_sets / threads;
  for (std::size_t k = i * share; k < (i + 1) * share; ++k) {
    add(*made, k);
    made->end_set();
  }
  return made;
}

paired_rounds measure_products(session& current, std::size_t lanes,
                               const bench_settings& settings) {
  products of(current, operand_sets, {{256, 256, 256}});
  threads_by_hand<plain_calls> plain(lanes, [&](std::size_t i) {
    return share_of_thread(current, i, lanes, [&](plain_calls& to, std::size_t k) {
      (void)to.add("", to_operation(of[k].request(true)));
    });
  });
  const auto clients =
      make_clients(current, of, lanes, bench_in_flight, current.device().blas(), true);
  paired_rounds all(settings);
  add_loop(all, plain);
  all.add(fmt::format("requests of an actor, {} in flight", bench_in_flight),
          [clients](std::int64_t n) { clients->send(n); });
  all.measure();
  of.check();
  return all;
}

paired_rounds measure_mel(session& current, std::size_t lanes, const bench_settings& settings) {
  mel_steps steps(current);
  std::vector<tensor> clips;
  for (std::size_t i = 0; i < operand_sets; ++i) clips.push_back(steps.clips(1));
  threads_by_hand<plain_calls> plain(lanes, [&](std::size_t i) {
    return share_of_thread(current, i, lanes, [&](plain_calls& to, std::size_t k) {
      to.share_memory_except(mel_steps::result);
      (void)steps.add_to(to, clips[k]);
    });
  });
  program_builder builder;
  const auto mel = steps.add_to(builder, builder.input("clip", per_request));
  const auto spectrogram = std::move(builder).build({mel}, {.max_in_batch = bench_in_flight});
  const auto clients = std::make_shared<load_clients<tensors>>(
      current.system(), lanes, mel_in_flight, current.device().programs(),
      [&clips, spectrogram, share = operand_sets / lanes](std::size_t client, std::size_t i) {
        return std::tuple(run{spectrogram, {clips[client * share + i % share]}});
      });
  paired_rounds all(settings);
  add_loop(all, plain);
  all.add(fmt::format("runs of a program, {} in flight", mel_in_flight),
          [clients](std::int64_t n) { clients->send(n); });
  all.measure();
  return all;
}

}  // namespace

bench_report bench_host(session& current, const bench_settings& settings) {
  const auto lanes = current.device().service().lanes_per_actor();
  const auto of_product = threads_of_openblas();
  const auto of_products = measure_products(current, lanes, settings);
  const auto of_mel = measure_mel(current, lanes, settings);
  return {.library = library_of(row_of(operation_type<gemm>{}), current) + ", " +
                     library_of(row_of(operation_type<rfft>{}), current),
          .json = {{"threads", {{"of_loop", lanes}, {"of_product", of_product}}},
                   {"sgemm_256", of_products.json()},
                   {"mel", of_mel.json()}},
          .table = fmt::format(
              "Threads of the loop, and lanes with a client each: {}; threads of OpenBLAS on both "
              "sides: {}\n\nsgemm(256)\n{}\n{}\n{}",
              lanes, of_product, of_products.table(), mel_steps::name, of_mel.table())};
}

}  // namespace sluice::cli
