// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/plain_calls.hpp"
#include "tools/sluice/bench/products.hpp"
#include "tools/sluice/bench/steps.hpp"
#include "tools/sluice/bench/steps_by_hand.hpp"
#include "tools/sluice/bench/threads_by_hand.hpp"

#include <sluice/operations/program.hpp>

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <dlfcn.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

constexpr std::size_t operand_sets = 256;
constexpr std::size_t mel_in_flight = 32;
constexpr auto name_of_loop = "plain loop of library calls";

/// The threads of which one large product of OpenBLAS makes use; 0 if unknown.
int threads_of_openblas() {
  auto* const function =
      reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
  return function != nullptr ? function() : 0;
}

paired_rounds measure_products(session& current, std::size_t lanes,
                               const bench_settings& settings) {
  products of(current, operand_sets, {{256, 256, 256}});
  const auto share = operand_sets / lanes;
  threads_by_hand<plain_calls> plain(lanes, [&](std::size_t i) {
    auto made = std::make_unique<plain_calls>(current.device().service().runtime());
    for (std::size_t k = i * share; k < (i + 1) * share; ++k) {
      (void)made->add("", to_operation(of[k].request(true)));
      made->end_set();
    }
    return made;
  });
  const auto clients =
      make_clients(current, of, lanes, bench_in_flight, current.device().blas(), true);
  paired_rounds all(settings);
  all.add(name_of_loop, [&](std::int64_t n) {
    plain.run(n, [](plain_calls& one, std::int64_t calls) { one.call(calls); });
  });
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
  const auto share = static_cast<std::ptrdiff_t>(operand_sets / lanes);
  threads_by_hand<steps_by_hand<mel_steps>> plain(lanes, [&](std::size_t i) {
    const auto first = clips.begin() + static_cast<std::ptrdiff_t>(i) * share;
    return std::make_unique<steps_by_hand<mel_steps>>(current, steps,
                                                      std::vector(first, first + share));
  });
  program_builder builder;
  const auto mel = steps.add_to(builder, builder.input("clip", per_request));
  const auto spectrogram = std::move(builder).build({mel}, {.max_in_batch = bench_in_flight});
  const auto clients = clients_of_runs(current, current.device().programs(), lanes, mel_in_flight,
                                       spectrogram, clips);
  paired_rounds all(settings);
  all.add(name_of_loop, [&](std::int64_t n) {
    plain.run(n, [](auto& one, std::int64_t calls) { one.run(calls); });
  });
  all.add(fmt::format("runs of a program, {} in flight", mel_in_flight),
          [clients](std::int64_t n) { clients->send(n); });
  all.measure();
  steps_by_hand<mel_steps> expected(current, steps, clips);
  check_runs(current, spectrogram, clips, expected);
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
