// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/latencies.hpp"
#include "tools/sluice/bench/products.hpp"

#include <sluice/actors/spawn_operations.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <stdexcept>
#include <tuple>

namespace sluice::cli {

/// An operation whose launch throws, after which its output has failed.
struct throwing {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &throwing::x), output("y", &throwing::y));
  }
};

}  // namespace sluice::cli

SLUICE_MESSAGES(sluice_bench, 1900, sluice::cli::throwing)

namespace sluice::cli {

struct no_call {};

static const operation_descriptor& descriptor_of(operation_type<throwing>) {
  static const typed_operation_descriptor<throwing, no_call> descriptor(
      {.name = "throwing",
       .infer = [](const throwing& op, inference& inferred) -> no_call {
         const auto& x = inferred.require(op.x);
         (void)inferred.result(op.y, x.type, x.shape);
         return {};
       },
       .host = {.library = "none"},
       .cuda = {.library = "none"},
       .enqueue_on_any =
           [](lane_libraries&, const no_call&, const launch_of<throwing>&) {
             throw std::runtime_error("thrown");
           }});
  return descriptor;
}

namespace {

/// For each kind of requests, the number of replies of each kind: "ok" or the code of the error.
using hostile_replies = std::map<std::string, std::map<std::string, std::uint64_t>>;

constexpr std::int64_t large_elements = std::int64_t{1} << 20;

/// The shape of a transform whose plan exceeds the default limits of an executor; `number` selects
/// one of many.
extents unplannable_shape(device_kind kind, std::int64_t number) {
  // An odd multiple of 101 has a factor for which butterflies would need quadratic time. The
  // transform by Bluestein's algorithm needs 5 GiB of tables for more than 2^24 elements.
  if (kind == device_kind::host) return {1, 101 * (166'113 + 2 * number)};
  // cuFFT pads each row of a prime length, for which it needs at least 64 GiB of workspace.
  return {(std::int64_t{1} << 20) + number, 8191};
}
constexpr std::int64_t unplannable_shapes = 1 << 14;
/// The elements of an operand for any of them. Its rows begin one element apart, so that it needs
/// memory for little more than one row.
constexpr std::int64_t unplannable_elements = 101 * (166'113 + 2 * unplannable_shapes);

/// A client that keeps `bench_in_flight` requests in flight, a quarter of each kind:
///
/// * refused: a `gemm` of matrices that do not fit, to the blas actor;
/// * failing: in turn an operation that throws when it is launched, and a `fill` of more memory
///   than any device has, to the device actor;
/// * unplannable: an `fft` whose plan exceeds the limits of an executor, each time another one, to
///   the fft actor;
/// * large: an `add` of 4 MiB, to the elementwise actor.
class hostile_client {
 public:
  explicit hostile_client(session& current)
      : system_(current.system()),
        device_(current.device().actor()),
        blas_(current.device().blas()),
        fft_(current.device().fft()),
        elementwise_(current.device().elementwise()),
        throwing_(spawn_operations<throwing>(system_, "sluice.bench.throwing",
                                             current.device().shared_service())),
        kind_(current.device().service().device().id().kind),
        large_(current.ask<tensor>(device_, fill{.value = 1, .shape = extents{large_elements}})),
        rows_(current.ask<tensor>(
            device_, allocate{.shape = {unplannable_elements}, .type = element_type::c64})) {}

  /// Calls `work` while the client sends requests, and waits for the replies. @throws what `work`
  /// throws
  template <class Work>
  void run_beside(const Work& work) {
    is_stopping_ = false;
    const auto previous_count = reply_count_;
    const auto start = clock::now();
    const auto client = system_.spawn<caf::detached>([this](caf::event_based_actor* self) {
      for (std::size_t i = 0; i < bench_in_flight; ++i) send(self, i % kinds.size());
    });
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    is_stopping_ = true;
    caf::scoped_actor(system_)->wait_for(client);
    if (failure) std::rethrow_exception(failure);
    rates_.push_back(static_cast<double>(reply_count_ - previous_count) * 1e6 /
                     microseconds_since(start));
  }

  /// The replies of all rounds.
  [[nodiscard]] const hostile_replies& replies() const { return replies_; }
  /// The median over the rounds of the replies per second.
  [[nodiscard]] double rate() const { return quantile(rates_, 0.5); }

 private:
  static constexpr std::array<const char*, 4> kinds{"refused", "failing", "unplannable", "large"};

  /// Sends a request of a kind, and another one after each reply.
  void send(caf::event_based_actor* self, std::size_t kind) {
    switch (kind) {
      case 0:
        return send(self, kind, blas_,
                    gemm{.a = large_.reshape({1024, 1024}), .b = large_.reshape({2048, 512})});
      case 1:
        throws_ = !throws_;
        if (throws_) return send(self, kind, throwing_, throwing{.x = large_});
        return send(self, kind, device_, fill{.value = 1, .shape = extents{std::int64_t{1} << 50}});
      case 2:
        return send(self, kind, fft_,
                    fft{.x = tensor(rows_.block(), rows_.type(),
                                    unplannable_shape(kind_, shape_number_++ % unplannable_shapes),
                                    {1, 1})});
      default:
        return send(self, kind, elementwise_, add(large_, large_));
    }
  }
  template <class Actor, class Operation>
  void send(caf::event_based_actor* self, std::size_t kind, const Actor& target,
            Operation operation) {
    ++in_flight_;
    sluice::request(self, target, caf::infinite, std::move(operation))
        .then([this, self, kind](const tensor&) { count(self, kind, "ok"); },
              [this, self, kind](const caf::error& why) {
                const auto known = from_caf_error(why);
                count(self, kind, known ? std::string(to_string(known->code())) : "other");
              });
  }
  void count(caf::event_based_actor* self, std::size_t kind, const std::string& reply) {
    ++replies_[kinds[kind]][reply];
    ++reply_count_;
    --in_flight_;
    if (!is_stopping_) {
      send(self, kind);
    } else if (in_flight_ == 0) {
      self->quit();
    }
  }

  caf::actor_system& system_;
  device_actor device_;
  blas_actor blas_;
  fft_actor fft_;
  elementwise_actor elementwise_;
  operation_actor<throwing> throwing_;
  device_kind kind_;
  tensor large_;
  tensor rows_;  // never read
  std::atomic<bool> is_stopping_{false};
  bool throws_ = false;
  std::int64_t shape_number_ = 0;
  std::size_t in_flight_ = 0;
  std::uint64_t reply_count_ = 0;  // in all rounds
  hostile_replies replies_;
  std::vector<double> rates_;
};

}  // namespace

void bench_hostile(bench_run& run) {
  auto& current = run.current;
  const auto products = make_products(current, 1, {{64, 64, 64}});
  const auto round_trip = [&, blas = current.device().blas()] {
    (void)current.ask<gpu_ref<float>>(blas, products.front());
  };
  hostile_client hostile(current);
  latency_comparison latencies;
  run.each_round([&] {
    latencies.add_round(round_trip, [&](const auto& work) { hostile.run_beside(work); });
  });
  check_products(run, products);

  auto& report = run.report;
  report.set_library(run.library_of<gemm>());
  report.add("sgemm_64", "sgemm(64), one at a time",
             {latencies.baseline.row("alone", "alone"),
              latencies.contention.row("beside", "beside a hostile client")});
  report.add_value("sgemm_64/ratio",
                   {{"median", latencies.median_ratio()}, {"p99", latencies.p99_ratio()}});
  report.add_value("hostile", {{"in_flight", bench_in_flight},
                               {"replies_per_second", hostile.rate()},
                               {"replies", hostile.replies()}});
  report.add_line(fmt::format(
      "\n  beside the client to alone: {:.2f} times the median, {:.2f} times the p99\n"
      "  the hostile client, {} in flight: {:.1f} thousand replies a second",
      latencies.median_ratio(), latencies.p99_ratio(), bench_in_flight, hostile.rate() / 1e3));
  for (const auto& [kind, codes] : hostile.replies()) {
    for (const auto& [code, count] : codes) {
      report.add_line(fmt::format("  {:<52}  {:>24}", kind + ": " + code, count));
    }
  }
}

}  // namespace sluice::cli
