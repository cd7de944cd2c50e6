// SPDX-License-Identifier: Apache-2.0
// Requests answered on enqueueing, chained over several actors: right on the host device with
// random delays before every task, and on a GPU.
#include "tests/actors/session_test.hpp"
#include "tests/operations/blas_reference.hpp"
#include "tests/operations/fft/dft.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/relative_error.hpp"

#include <cmath>
#include <thread>

namespace sluice::test {
namespace {

constexpr auto enqueued = reply_on::enqueued;

class chains : public session_test {
 protected:
  [[nodiscard]] std::size_t lanes() const override { return 3; }
  void SetUp() override {
    session_test::SetUp();
    if (GetParam() != "host") return;
    const auto seed = make_generator()();
    open(open_host_device(
        {.jitter = host_jitter{.seed = seed, .longest = std::chrono::microseconds(60)}}));
  }
};

/// A signal becomes the product of its power spectra with a matrix: what the mel service does.
TEST_P(chains, from_a_signal_to_a_product_of_its_power_spectra) {
  // Under compute-sanitizer each plan takes long, and when cuFFT loads a module while cuBLAS loads
  // a kernel, the tool and the driver wait for each other for ever (13.0, driver 580).
  const int threads = under_compute_sanitizer() ? 1 : 3;
  const int each = under_compute_sanitizer() ? 15 : 100;
  const auto fft = device().fft();
  const auto blas = device().blas();
  const auto elementwise = device().elementwise();
  const auto mover = device().actor();

  struct job {
    frame_layout layout;
    std::vector<double> signal;
    std::vector<double> matrix;  // bins × 3
    std::vector<double> computed;
  };
  std::vector<job> jobs(static_cast<std::size_t>(threads * each));
  for (auto& j : jobs) {
    j.layout = {s().number<std::size_t>(20, 90), 2 * s().number<std::size_t>(2, 9),
                s().number<std::size_t>(5, 30)};
    j.signal = s().numbers<double>(j.layout.samples);
    j.matrix = s().numbers<double>((j.layout.n_fft / 2 + 1) * 3);
  }
  std::vector<std::thread> clients;
  for (int t = 0; t < threads; ++t) {
    clients.emplace_back([&, t] {
      auto& system = s().system();
      for (int i = 0; i < each; ++i) {
        auto& j = jobs[static_cast<std::size_t>(t * each + i)];
        const auto frames = frame_count(j.layout);
        const auto n = j.layout.n_fft;
        const auto bins = n / 2 + 1;
        const auto matrix = ask<tensor>(system, mover, sluice::upload{.values = j.matrix},
                                        request_options{.reply = enqueued})
                                .as<double>();
        const auto signal = ask<tensor>(system, mover, sluice::upload{.values = j.signal},
                                        request_options{.reply = enqueued});
        const auto framed =
            ask<tensor>(system, elementwise,
                        frame_signal{.signal = signal,
                                     .n_fft = static_cast<std::int64_t>(n),
                                     .hop = static_cast<std::int64_t>(j.layout.hop)},
                        request_options{.reply = enqueued});
        const auto spectrum =
            ask<tensor>(system, fft, rfft{.x = framed}, request_options{.reply = enqueued});
        const auto power = ask<tensor>(system, elementwise, power_spectrum{.x = spectrum},
                                       request_options{.reply = enqueued})
                               .as<double>();
        const auto product = ask<gpu_ref<double>>(system, blas,
                                                  dgemm{.m = static_cast<std::int64_t>(frames),
                                                        .n = 3,
                                                        .k = static_cast<std::int64_t>(bins),
                                                        .a = power,
                                                        .b = matrix},
                                                  request_options{.reply = enqueued});
        j.computed =
            ask<host_tensor>(system, mover, sluice::download{.x = product}).to_vector<double>();
      }
    });
  }
  for (auto& c : clients) c.join();
  for (const auto& j : jobs) {
    const auto frames = frame_count(j.layout);
    const auto n = j.layout.n_fft;
    const auto bins = n / 2 + 1;
    std::vector<double> power;
    for (std::size_t f = 0; f < frames; ++f) {
      std::vector<double> frame(n);
      for (std::size_t i = 0; i < n; ++i) {
        const auto index = f * j.layout.hop + i - n / 2;
        if (index < j.signal.size()) frame[i] = j.signal[index];
      }
      const auto spectrum = dft(frame.data(), n, -1);
      for (std::size_t k = 0; k < bins; ++k) power.push_back(std::norm(spectrum[k]));
    }
    const auto shape = without_gaps(
        {.m = static_cast<std::int64_t>(frames), .n = 3, .k = static_cast<std::int64_t>(bins)});
    const auto expected = gemm_reference<double>(
        {.shape = shape, .a = power, .b = j.matrix, .c = std::vector<double>(frames * 3)});
    ASSERT_LE(relative_error(j.computed, expected), 1e-12);
  }
}

/// A few matrices that every step may read and write, over two blas actors and the device actor,
/// none of which waits for the device.
TEST_P(chains, random_steps_on_shared_matrices_equal_a_serial_run) {
  constexpr std::size_t order = 7;
  constexpr std::size_t elements = order * order;
  constexpr std::size_t matrices = 5;
  constexpr int rounds = 12;
  constexpr int steps = 60;
  const request_options early{.reply = enqueued};
  const auto second = spawn_blas(s().system(), s().service());
  const blas_actor blas[] = {device().blas(), second};
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    std::vector<std::vector<double>> expected;
    std::vector<gpu_ref<double>> memory;
    for (std::size_t i = 0; i < matrices; ++i) {
      expected.push_back(s().numbers<double>(elements));
      memory.push_back(s().put(expected.back()));
    }
    for (int step = 0; step < steps; ++step) {
      const auto any = [&] {
        return s().number<std::size_t>(0, matrices - 1);
      };
      const auto target = any();
      const auto other = [&] {
        auto i = any();
        while (i == target) i = any();
        return i;
      };
      switch (s().number<int>(0, 5)) {
        case 0: {
          const auto source = other();
          (void)s().ask<tensor>(device().actor(),
                                strided_copy{.x = memory[source], .y = memory[target]}, early);
          expected[target] = expected[source];
          break;
        }
        case 1: {
          // Half of it.
          const auto value = s().numbers<double>(1).front();
          (void)s().ask<tensor>(device().actor(),
                                fill{.value = value, .y = memory[target].subspan(10, 20)}, early);
          std::fill_n(expected[target].begin() + 10, 20, value);
          break;
        }
        case 2: {
          expected[target] = s().numbers<double>(elements);
          (void)s().ask<tensor>(device().actor(),
                                sluice::upload{.values = expected[target], .y = memory[target]},
                                early);
          break;
        }
        default: {
          const auto a = other();
          const auto b = other();
          const double beta = s().coin() ? 0.5 : 0.0;
          (void)s().ask<gpu_ref<double>>(blas[s().number<int>(0, 1)],
                                         dgemm{.m = order,
                                               .n = order,
                                               .k = order,
                                               .alpha = 0.25,
                                               .a = memory[a],
                                               .b = memory[b],
                                               .beta = beta,
                                               .c = memory[target]},
                                         early);
          expected[target] =
              gemm_reference<double>({without_gaps({.m = order, .n = order, .k = order}), 0.25,
                                      beta, expected[a], expected[b], expected[target]});
          break;
        }
      }
    }
    for (std::size_t i = 0; i < matrices; ++i)
      ASSERT_LE(relative_error(s().get(memory[i]), expected[i]), 1e-10);
  }
  s().end(second);
}

/// Whole numbers, so that the sum is the same in any order.
TEST_P(chains, accumulating_products_of_several_clients_lose_nothing) {
  constexpr std::size_t clients = 4;
  constexpr std::size_t each = 400;
  const auto second = spawn_blas(s().system(), s().service());
  const auto c = s().put(std::vector<double>(4, 0.0));
  std::vector<double> expected(4, 0.0);
  std::vector<std::shared_ptr<answers<gpu_ref<double>>>> replies;
  for (std::size_t i = 0; i < clients; ++i) {
    std::vector<double> a(6);
    std::vector<double> b(6);
    for (auto& x : a) x = s().number<int>(-9, 9);
    for (auto& x : b) x = s().number<int>(-9, 9);
    expected = gemm_reference<double>(
        {without_gaps({.m = 2, .n = 2, .k = 3}), static_cast<double>(each), 1, a, b, expected});
    replies.push_back(s().send<gpu_ref<double>>(
        untyped(i % 2 == 0 ? device().blas() : second),
        std::vector<caf::message>(
            each,
            caf::make_message(
                dgemm{.m = 2, .n = 2, .k = 3, .a = s().put(a), .b = s().put(b), .beta = 1, .c = c},
                request_options{.reply = i < 2 ? enqueued : reply_on::finished}))));
  }
  for (const auto& x : replies) {
    for (const auto& a : x->wait()) ASSERT_TRUE(succeeded(a));
  }
  EXPECT_EQ(s().get(c), expected);
  const auto statistics = s().settle();
  EXPECT_EQ(statistics.leases, 0U);
  EXPECT_EQ(statistics.releases_pending, 0U);
  for (const auto& x : replies) EXPECT_EQ(x->replies(), each);
  s().end(second);
}

/// The order of one client's requests to one actor is kept: C = 2·C + k is sensitive to it.
TEST_P(chains, one_clients_requests_keep_their_order) {
  constexpr std::size_t count = 600;
  constexpr double modulus = 1 << 20;
  const auto c = s().put(std::vector<double>{1});
  const auto x = s().put(std::vector<double>{1});
  std::vector<caf::message> requests;
  double expected = 1;
  for (std::size_t i = 0; i < count; ++i) {
    const auto added = static_cast<double>(s().number<int>(-50, 50));
    const double factor = std::abs(expected) > modulus ? 0.0 : -2.0;
    requests.push_back(caf::make_message(dgemm{.m = 1,
                                               .n = 1,
                                               .k = 1,
                                               .alpha = added == 0 ? 1 : added,
                                               .a = x,
                                               .b = x,
                                               .beta = factor,
                                               .c = c},
                                         request_options{.reply = enqueued}));
    expected = factor * expected + (added == 0 ? 1 : added);
  }
  for (const auto& a : s().ask_all<gpu_ref<double>>(untyped(device().blas()), requests))
    ASSERT_TRUE(succeeded(a));
  EXPECT_EQ(s().get(c), std::vector<double>{expected});
}

INSTANTIATE_TEST_SUITE_P(devices, chains, every_device(), parameter_name);

TEST(chains_on_a_failing_device, a_failed_first_link_fails_all_later_ones) {
  const auto script = std::make_shared<fault_script>();
  session s(open_host_device({.faults = script}));
  {
    scoped_device device(s.system(), s.service());
    const auto fft = device.fft();
    const auto elementwise = device.elementwise();
    const auto values = s.numbers<float>(64);
    gate g;
    const auto signal = s.put(values);
    s.hold(g, signal);
    script->fail_nth(fault_target::copy, 1);
    const request_options early{.reply = enqueued};
    (void)s.ask<tensor>(device.actor(), sluice::upload{.values = values, .y = signal}, early);
    const auto spectrum = s.ask<tensor>(fft, rfft{.x = signal}, early);
    const auto power = s.ask<tensor>(elementwise, power_spectrum{.x = spectrum}, early).as<float>();
    const auto largest =
        s.ask<tensor>(elementwise, reduce{.x = power, .kind = reduction::max}, early).as<float>();
    const auto last = s.send<gpu_ref<float>>(
        untyped(elementwise),
        {caf::make_message(power_to_decibel{.x = power, .reference = largest})});
    g.open();
    EXPECT_TRUE(failed_with(last->wait()[0], errc::upstream_failed, "scripted"));
    for (const auto& ref : {signal, power, largest}) {
      EXPECT_TRUE(throws(errc::upstream_failed, "scripted", [&] {
        (void)s.ask<host_tensor>(device.actor(), sluice::download{.x = ref});
      }));
    }
    EXPECT_TRUE(throws(errc::upstream_failed, "scripted",
                       [&] { (void)s.ask<tensor>(elementwise, power_spectrum{.x = spectrum}); }));
    // An operation that has nothing to write makes nothing good.
    (void)s.ask_all<gpu_ref<float>>(
        untyped(device.blas()),
        {caf::make_message(sgemm{.m = 0, .n = 3, .k = 3, .a = power, .b = power, .c = signal})});
    EXPECT_TRUE(throws(errc::upstream_failed, "scripted", [&] {
      (void)s.ask<host_tensor>(device.actor(), sluice::download{.x = signal});
    }));
    // The chain can be made again over the same memory.
    (void)s.ask<tensor>(device.actor(), sluice::upload{.values = values, .y = signal});
    (void)s.ask<tensor>(fft, rfft{.x = signal, .y = spectrum});
    (void)s.ask<tensor>(elementwise, power_spectrum{.x = spectrum, .y = power});
    std::vector<double> expected;
    const auto bins = dft(values.data(), 64, -1);
    for (std::size_t k = 0; k <= 32; ++k) expected.push_back(std::norm(bins[k]));
    EXPECT_LE(relative_error(s.get(power), expected), error_bound<float>());
  }
  s.expect_nothing_left();
}

}  // namespace
}  // namespace sluice::test
