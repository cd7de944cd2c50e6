// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/hostile_client.hpp"

#include "tools/sluice/bench/bench.hpp"

#include <sluice/actors/spawn_operations.hpp>
#include <sluice/runtime/error.hpp>

#include <array>
#include <atomic>
#include <exception>
#include <memory>
#include <random>
#include <stdexcept>
#include <tuple>
#include <utility>

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
       .infer = [](const throwing& op, inference& inference) -> no_call {
         const auto& x = inference.require(op.x);
         (void)inference.result(op.y, x.type, x.shape);
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

constexpr std::int64_t large_elements = std::int64_t{1} << 20;

/// The shapes of transforms whose plans exceed the default limits of an executor.
class unplannable_shapes {
 public:
  explicit unplannable_shapes(device_kind kind) : on_host_(kind == device_kind::host) {}

  [[nodiscard]] extents draw() {
    const auto step = static_cast<std::int64_t>(random_() % different);
    // An odd multiple of 101 has a factor for which butterflies would need quadratic time. The
    // transform by Bluestein's algorithm needs 5 GiB of tables for more than 2^24 elements.
    if (on_host_) return {1, 101 * (166'113 + 2 * step)};
    // cuFFT pads each row of a prime length, for which it needs at least 64 GiB of workspace.
    return {(std::int64_t{1} << 20) + step, 8191};
  }
  /// The elements of an operand for any shape. Its rows begin one element apart, which needs memory
  /// for little more than one row.
  [[nodiscard]] std::int64_t elements() const {
    return on_host_ ? 101 * (166'113 + 2 * different) : (std::int64_t{1} << 20) + different + 8191;
  }

 private:
  static constexpr std::int64_t different = 1 << 14;
  bool on_host_;
  std::mt19937_64 random_;
};

/// The requests of the client.
class hostile_load : public std::enable_shared_from_this<hostile_load> {
 public:
  static constexpr std::array<const char*, 4> kinds{"refused", "failing", "unplannable", "large"};

  explicit hostile_load(session& current)
      : device_(current.device().actor()),
        blas_(current.device().blas()),
        fft_(current.device().fft()),
        elementwise_(current.device().elementwise()),
        throwing_(spawn_operations<throwing>(current.system(), "sluice.bench.throwing",
                                             current.device().shared_service())),
        shapes_(current.device().service().device().id().kind),
        large_(current.ask<tensor>(device_, fill{.value = 1, .shape = extents{large_elements}})),
        rows_(current.ask<tensor>(
            device_, allocate{.shape = {shapes_.elements()}, .type = element_type::c64})) {}

  /// Sends a request of a kind, and another one after each reply.
  void send(caf::event_based_actor* self, std::size_t kind) {
    switch (kind) {
      case 0:
        return ask(self, kind, blas_,
                   gemm{.a = large_.reshape({1024, 1024}), .b = large_.reshape({2048, 512})});
      case 1:
        throws_ = !throws_;
        if (throws_) return ask(self, kind, throwing_, throwing{.x = large_});
        return ask(self, kind, device_, fill{.value = 1, .shape = extents{std::int64_t{1} << 50}});
      case 2:
        return ask(self, kind, fft_,
                   fft{.x = tensor(rows_.block(), rows_.type(), shapes_.draw(), {1, 1})});
      default:
        return ask(self, kind, elementwise_, add{.a = large_, .b = large_});
    }
  }

  /// No more requests follow.
  void stop() noexcept { stopping_ = true; }
  /// Only after the client has ended.
  [[nodiscard]] hostile_replies take_replies() { return std::move(counted_); }

 private:
  template <class Actor, class Operation>
  void ask(caf::event_based_actor* self, std::size_t kind, const Actor& to, Operation operation) {
    ++in_flight_;
    sluice::request(self, to, caf::infinite, std::move(operation))
        .then([me = shared_from_this(), self, kind](const tensor&) { me->count(self, kind, "ok"); },
              [me = shared_from_this(), self, kind](const caf::error& why) {
                const auto known = from_caf_error(why);
                me->count(self, kind, known ? std::string(to_string(known->code())) : "other");
              });
  }
  void count(caf::event_based_actor* self, std::size_t kind, const std::string& reply) {
    ++counted_[kinds[kind]][reply];
    --in_flight_;
    if (!stopping_) {
      send(self, kind);
    } else if (in_flight_ == 0) {
      self->quit();
    }
  }

  device_actor device_;
  blas_actor blas_;
  fft_actor fft_;
  elementwise_actor elementwise_;
  operation_actor<throwing> throwing_;
  unplannable_shapes shapes_;
  tensor large_;
  tensor rows_;  // never read
  bool throws_ = false;
  std::size_t in_flight_ = 0;
  std::atomic<bool> stopping_{false};
  hostile_replies counted_;
};

}  // namespace

hostile_replies beside_hostile_client(session& current, const std::function<void()>& work) {
  const auto load = std::make_shared<hostile_load>(current);
  const auto client = current.system().spawn<caf::detached>([load](caf::event_based_actor* self) {
    for (std::size_t i = 0; i < bench_in_flight; ++i) load->send(self, i % load->kinds.size());
  });
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  load->stop();
  caf::scoped_actor self{current.system()};
  self->wait_for(client);
  if (failure) std::rethrow_exception(failure);
  return load->take_replies();
}

}  // namespace sluice::cli
