// SPDX-License-Identifier: Apache-2.0
#include "examples/mel_spectrogram/mel_service.hpp"

#include "tests/operations/elementwise/mel_reference.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::examples {
namespace {

/// Counts launches by operation, and can say when one of them has been published.
class counting_trace final : public kernel_trace {
 public:
  void before_complete(const kernel_info& info) override {
    const std::scoped_lock lock(mutex_);
    ++counts_[std::string(info.operation)];
    largest_batch_ = std::max(largest_batch_, info.batch);
    if (info.operation == awaited_) published_.set_value();
  }
  std::map<std::string, int> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(counts_, {});
  }
  std::size_t launches_of(const std::string& operation) {
    const std::scoped_lock lock(mutex_);
    return static_cast<std::size_t>(counts_[operation]);
  }
  std::size_t largest_batch() {
    const std::scoped_lock lock(mutex_);
    return largest_batch_;
  }
  /// To be called once, before that operation is launched once.
  std::future<void> publication_of(const std::string& operation) {
    const std::scoped_lock lock(mutex_);
    awaited_ = operation;
    return published_.get_future();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, int> counts_;
  std::size_t largest_batch_ = 0;
  std::string awaited_;
  std::promise<void> published_;
};

/// An actor system, a device with its actor and a mel service over it.
class studio {
 public:
  explicit studio(std::shared_ptr<sluice::device> device, runtime_options options = {})
      : service_(std::make_shared<device_service>(
            std::move(device), device_service_options{.runtime = std::move(options)})),
        trace_(std::make_shared<counting_trace>()),
        device_(std::make_unique<scoped_device>(system_, service_, trace_)),
        mel_(spawn_mel_service(system_, device_->actor())) {}

  caf::actor_system& system() { return system_; }
  device_runtime& runtime() { return service_->runtime(); }
  counting_trace& trace() { return *trace_; }
  const mel_service& mel() const { return mel_; }
  /// The number of runs that wait to be launched.
  std::size_t waiting() {
    const auto programs = ask<program_actor>(system_, device_->actor(), get_programs{});
    return ask<queue_status>(system_, programs, get_queue_status{}).requests;
  }

  gpu_ref<float> on_device(std::vector<float> values) {
    return ask<tensor>(system_, device_->actor(), upload{.values = std::move(values)}).as<float>();
  }
  std::vector<float> on_host(const gpu_ref<float>& values) {
    return ask<host_tensor>(system_, device_->actor(), download{.x = values}).to_vector<float>();
  }
  std::vector<float> spectrogram(mel_spectrogram request) {
    return on_host(ask<tensors>(system_, mel_, std::move(request)).front().as<float>());
  }

  /// The service goes with it.
  void end_device() { device_.reset(); }
  void end_service() {
    caf::scoped_actor self{system_};
    self->send_exit(mel_, caf::exit_reason::user_shutdown);
    self->wait_for(mel_);
  }
  /// Ends everything. Afterwards nothing may be outstanding, unless the device was lost.
  void end() {
    end_service();
    device_.reset();
    drain();
    EXPECT_EQ(runtime().bytes_outstanding(), 0U);
    const auto left = runtime().statistics();
    EXPECT_EQ(left.blocks, 0U);
    EXPECT_EQ(left.leases, 0U);
    EXPECT_EQ(left.releases_pending, 0U);
    EXPECT_EQ(left.recorders_abandoned, 0U);
  }

  /// Until the launches of the earlier stages, which were answered on enqueueing, have been seen to
  /// complete and their owners are gone. That this comes is part of the claim.
  void drain() {
    while (service_->engine().pending() != 0 || runtime().statistics().releases_pending != 0)
      std::this_thread::yield();
  }

 private:
  struct configuration : caf::actor_system_config {
    configuration() { configure(*this); }
  };
  configuration configuration_;
  caf::actor_system system_{configuration_};
  std::shared_ptr<device_service> service_;
  std::shared_ptr<counting_trace> trace_;
  std::unique_ptr<scoped_device> device_;
  mel_service mel_;
};

std::vector<float> noise(std::size_t count, std::mt19937_64& generator) {
  return test::random_values<float>(generator, count);
}

/// Sends `request` and returns the code of its one reply: nothing for success.
std::optional<errc> outcome(studio& s, mel_spectrogram request) {
  try {
    static_cast<void>(ask<tensors>(s.system(), s.mel(), std::move(request)));
  } catch (const error& e) {
    return e.code();
  }
  return std::nullopt;
}

class MelService : public test::named_device_test {
 protected:
  void SetUp() override {
    named_device_test::SetUp();
    if (IsSkipped()) return;
    studio_ = std::make_unique<studio>(open_device(GetParam()));
  }
  void TearDown() override {
    if (studio_) studio_->end();
  }

  void expect_reference(const std::vector<float>& samples,
                        const test::mel_reference_parameters& p) {
    SCOPED_TRACE(std::to_string(samples.size()) + " samples at " + std::to_string(p.sample_rate) +
                 " Hz, n_fft " + std::to_string(p.n_fft) + ", hop " + std::to_string(p.hop) + ", " +
                 std::to_string(p.n_mels) + " mels, " + std::to_string(p.fmin) + " to " +
                 std::to_string(p.fmax) + " Hz");
    const auto computed = studio_->spectrogram({.sample_rate = p.sample_rate,
                                                .samples = samples,
                                                .n_fft = p.n_fft,
                                                .hop = p.hop,
                                                .n_mels = p.n_mels,
                                                .fmin = p.fmin,
                                                .fmax = p.fmax});
    const auto reference = test::reference_mel_spectrogram(samples, p);
    ASSERT_EQ(computed.size(), reference.size());
    EXPECT_LE(test::relative_error(computed, reference),
              test::error_bound<float>(static_cast<std::size_t>(p.n_fft)));
  }

  std::unique_ptr<studio> studio_;
};

INSTANTIATE_TEST_SUITE_P(devices, MelService, test::every_device(), test::parameter_name);

TEST_P(MelService, AgreesWithTheReference) {
  auto generator = test::make_generator();
  expect_reference(noise(12'345, generator), {.sample_rate = 48000, .fmax = 24000});
  expect_reference(noise(9'001, generator), {22050, 2048, 512, 128, 0, 11025});
  expect_reference(noise(4'000, generator), {8000, 256, 80, 40, 0, 4000});
  expect_reference(noise(16'000, generator), {16000, 400, 160, 80, 20, 7600});
  expect_reference(noise(5'003, generator), {11027, 401, 97, 33, 55.5, 5000});
  expect_reference(noise(700, generator), {7, 31, 1, 5, 0, 3.5});
}

TEST_P(MelService, AgreesWithTheReferenceAtTheEdges) {
  auto generator = test::make_generator();
  // One sample; a recording shorter than a frame; frames that leave gaps; a frame of one sample.
  expect_reference(noise(1, generator), {44100, 512, 128, 20, 0, 22050});
  expect_reference(noise(100, generator), {44100, 1024, 300, 20, 0, 22050});
  expect_reference(noise(2'000, generator), {16000, 64, 333, 10, 0, 8000});
  expect_reference(noise(50, generator), {16000, 2, 7, 1, 0, 8000});
  expect_reference(noise(3, generator), {16000, 3, 1, 2, 0, 8000});
  expect_reference(std::vector<float>(300, 0.0F), {16000, 128, 32, 10, 0, 8000});
}

TEST_P(MelService, AgreesWithTheReferenceAtRandom) {
  auto generator = test::make_generator();
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  for (int round = 0; round < 12; ++round) {
    test::mel_reference_parameters p;
    p.sample_rate = static_cast<double>(between(4000, 192'000));
    p.n_fft = between(64, 700);
    p.hop = between(20, 400);
    p.n_mels = between(1, 60);
    p.fmin = p.sample_rate * std::uniform_real_distribution<>(0, 0.1)(generator);
    p.fmax = p.sample_rate * std::uniform_real_distribution<>(0.3, 0.5)(generator);
    expect_reference(noise(static_cast<std::size_t>(between(1, 5000)), generator), p);
  }
}

// The power of the loudest bins exceeds f32.
TEST_P(MelService, LoudRecordingsHoldNoNaN) {
  auto generator = test::make_generator();
  const test::mel_reference_parameters p{.sample_rate = 22050, .fmax = 11025};
  const std::size_t count = 6'000;
  std::vector<float> samples;
  const double frequency = std::uniform_real_distribution<double>(0.05, 0.5)(generator);
  for (std::size_t i = 0; i < count; ++i)
    samples.push_back(static_cast<float>(1e18 * std::sin(static_cast<double>(i) * frequency)));
  auto expected = test::reference_mel_spectrogram(samples, p);
  const auto power = studio_->spectrogram({.sample_rate = p.sample_rate, .samples = samples});
  constexpr double largest = std::numeric_limits<float>::max();
  ASSERT_EQ(power.size(), expected.size());
  ASSERT_GT(*std::max_element(expected.begin(), expected.end()), largest);
  for (std::size_t i = 0; i < power.size(); ++i) {
    ASSERT_FALSE(std::isnan(power[i])) << i;
    if (std::abs(expected[i] / largest - 1) < 0.01) continue;
    ASSERT_EQ(std::isinf(power[i]), expected[i] > largest) << i;
  }
  const double loudest = *std::max_element(expected.begin(), expected.end());
  for (double& value : expected) value = std::max(10 * std::log10(value / loudest), -80.0);
  const auto decibels = studio_->spectrogram(
      {.sample_rate = p.sample_rate, .samples = samples, .decibels = decibel_options{}});
  EXPECT_LE(test::relative_error(decibels, expected), 1e-4);
}

TEST_P(MelService, TurnsPowerIntoDecibels) {
  auto generator = test::make_generator();
  auto samples = noise(8'000, generator);
  for (std::size_t i = 4'000; i < samples.size(); ++i) samples[i] *= 1e-6F;  // below the floor
  const auto reference = test::reference_mel_spectrogram(samples, {16000, 512, 128, 30, 0, 8000});
  const double loudest = *std::max_element(reference.begin(), reference.end());
  for (const decibel_options options :
       {decibel_options{}, decibel_options{.amin = 1e-4, .top_db = 20},
        decibel_options{.top_db = std::numeric_limits<double>::infinity()}}) {
    auto expected = reference;
    for (double& value : expected)
      value = std::max(10 * std::log10(std::max(value, options.amin) / loudest), -options.top_db);
    const auto computed = studio_->spectrogram({.sample_rate = 16000,
                                                .samples = samples,
                                                .n_fft = 512,
                                                .hop = 128,
                                                .n_mels = 30,
                                                .decibels = options});
    ASSERT_EQ(computed.size(), expected.size());
    for (std::size_t i = 0; i < computed.size(); ++i)
      ASSERT_NEAR(computed[i], expected[i], 2e-3) << i;
    EXPECT_EQ(*std::max_element(computed.begin(), computed.end()), 0.0F);
  }
}

TEST_P(MelService, TakesSamplesThatAreOnTheDevice) {
  auto generator = test::make_generator();
  const auto samples = noise(5'000, generator);
  const auto uploaded = studio_->on_device(samples);
  EXPECT_EQ(studio_->spectrogram({.sample_rate = 16000, .samples = uploaded}),
            studio_->spectrogram({.sample_rate = 16000, .samples = samples}));
  EXPECT_EQ(studio_->on_host(uploaded), samples);
  // Part of a larger recording.
  EXPECT_EQ(studio_->spectrogram({.sample_rate = 16000, .samples = uploaded.subspan(1'000, 3'000)}),
            studio_->spectrogram(
                {.sample_rate = 16000,
                 .samples = std::vector<float>(samples.begin() + 1'000, samples.begin() + 4'000)}));
}

TEST_P(MelService, KeepsItsTablesAndNothingElse) {
  auto generator = test::make_generator();
  using operations = std::map<std::string, int>;
  const mel_spectrogram request{.sample_rate = 16000, .samples = noise(5'000, generator)};
  static_cast<void>(studio_->trace().take());
  const auto before = studio_->runtime().bytes_outstanding();

  const operations one_launch{{"program", 1}};
  ASSERT_EQ(outcome(*studio_, request), std::nullopt);
  EXPECT_EQ(studio_->trace().take(), one_launch);
  // What handlers have in their hands goes a moment after they have answered.
  const auto outstanding = [&] {
    studio_->drain();
    return studio_->runtime().bytes_outstanding() - before;
  };
  constexpr auto tables = (2048 + 128 * 1025) * sizeof(float);
  EXPECT_GE(outstanding(), tables);

  const auto run_more = [&](int more) {
    for (int i = 0; i < more; ++i) {
      EXPECT_EQ(outcome(*studio_, request), std::nullopt);
      EXPECT_EQ(studio_->trace().take(), one_launch);
    }
  };
  run_more(10);
  const auto kept = outstanding();
  run_more(20);
  test::await([&] { return outstanding() <= kept; });

  auto other = request;
  other.samples = studio_->on_device(noise(300, generator));
  other.decibels = decibel_options{};
  static_cast<void>(studio_->trace().take());
  ASSERT_EQ(outcome(*studio_, std::move(other)), std::nullopt);
  EXPECT_EQ(studio_->trace().take(), one_launch);
}

TEST_P(MelService, TakesSeveralRecordings) {
  auto generator = test::make_generator();
  constexpr std::int64_t count = 3;
  constexpr std::int64_t length = 2'001;
  const auto all = noise(count * length, generator);
  for (const bool in_decibels : {false, true}) {
    mel_spectrogram request{.sample_rate = 16000, .n_fft = 256, .hop = 100, .n_mels = 20};
    if (in_decibels) request.decibels = decibel_options{};
    std::vector<float> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      request.samples = std::vector(all.begin() + i * length, all.begin() + (i + 1) * length);
      const auto one = studio_->spectrogram(request);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    request.samples = host_tensor(all, {count, length});
    const auto found = ask<tensors>(studio_->system(), studio_->mel(), request).front();
    EXPECT_EQ(found.shape(), (extents{count, 20, 1 + length / 100}));
    EXPECT_LE(test::relative_error(studio_->on_host(found.as<float>()), expected),
              test::error_bound<float>(256));
  }
}

TEST_P(MelService, ForgetsTablesInsteadOfGrowing) {
  const auto ask = [&](std::int64_t n_mels) {
    ASSERT_EQ(outcome(*studio_, {.sample_rate = 16000,
                                 .samples = std::vector<float>(100, 0.5F),
                                 .n_fft = 256,
                                 .n_mels = n_mels}),
              std::nullopt);
  };
  ask(1);  // makes the workspaces of the libraries
  studio_->drain();
  const auto before = studio_->runtime().bytes_outstanding();
  for (std::int64_t n_mels = 2; n_mels <= 40; ++n_mels) ask(n_mels);
  studio_->drain();
  const auto grown = studio_->runtime().bytes_outstanding() - before;
  EXPECT_LE(grown, 16 * (256 + 40 * 129) * sizeof(float));
}

TEST_P(MelService, AnswersManyRequestsAtATime) {
  auto generator = test::make_generator();
  std::vector<mel_spectrogram> requests;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 24; ++i) {
    requests.push_back({.sample_rate = 16000,
                        .samples = noise(1'000 + 100 * static_cast<std::size_t>(i), generator),
                        .n_fft = i % 3 == 0 ? 256 : 400,
                        .hop = 100,
                        .n_mels = 20 + i % 2});
    expected.push_back(studio_->spectrogram(requests.back()));
  }
  caf::scoped_actor self{studio_->system()};
  const auto send = [&](const mel_spectrogram& request) {
    return sluice::request(self, studio_->mel(), caf::infinite, request);
  };
  std::vector<decltype(send(requests[0]))> pending;
  for (const auto& request : requests) pending.push_back(send(request));
  for (std::size_t i = 0; i < pending.size(); ++i)
    std::move(pending[i])
        .receive(
            [&](const tensors& mel) {
              const auto n_fft = static_cast<std::size_t>(requests[i].n_fft);
              EXPECT_LE(
                  test::relative_error(studio_->on_host(mel.front().as<float>()), expected[i]),
                  test::error_bound<float>(n_fft))
                  << i;
            },
            [&](const caf::error& why) { ADD_FAILURE() << describe(studio_->system(), why); });
  EXPECT_TRUE(self->mailbox().empty());
}

TEST_P(MelService, RefusesWhatCannotBe) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const mel_spectrogram right{.sample_rate = 16000, .samples = std::vector<float>(1'000, 0.5F)};
  const auto refuse = [&](const char* word, auto change) {
    SCOPED_TRACE(word);
    auto request = right;
    change(request);
    EXPECT_TRUE(test::throws(errc::invalid_argument, word, [&] {
      static_cast<void>(ask<tensors>(studio_->system(), studio_->mel(), request));
    }));
  };
  // NaN is refused although it orders like anything, also like what is known already.
  EXPECT_EQ(outcome(*studio_, right), std::nullopt);
  refuse("samples", [](auto& r) { r.samples = std::vector<float>(); });
  refuse("samples", [](auto& r) { r.samples = gpu_ref<float>(); });
  refuse("n_fft", [](auto& r) { r.n_fft = 0; });
  refuse("n_fft", [](auto& r) { r.n_fft = -2048; });
  refuse("memory", [&](auto& r) { r.n_fft = largest; });
  refuse("hop", [](auto& r) { r.hop = 0; });
  refuse("hop", [](auto& r) { r.hop = -1; });
  refuse("n_mels", [](auto& r) { r.n_mels = 0; });
  refuse("memory", [&](auto& r) { r.n_mels = largest; });
  refuse("fmax", [](auto& r) { r.fmax = 8'000.5; });
  refuse("fmax", [&](auto& r) { r.fmax = nan; });
  refuse("fmin", [](auto& r) { r.fmin = 8'000; });
  refuse("fmin", [](auto& r) { r.fmin = -1; });
  refuse("sample_rate", [](auto& r) { r.sample_rate = 0; });
  refuse("sample_rate", [&](auto& r) { r.sample_rate = nan; });
  refuse("top_db", [](auto& r) { r.decibels = decibel_options{.top_db = -1}; });
  EXPECT_EQ(outcome(*studio_, right), std::nullopt);
}

TEST_P(MelService, AnswersStaleMemory) {
  const auto samples = studio_->on_device(std::vector<float>(1'000, 0.5F));
  studio_->runtime().deallocate(samples.block());
  EXPECT_EQ(outcome(*studio_, {.sample_rate = 16000, .samples = samples}), errc::stale_ref);
}

TEST_P(MelService, AnswersAfterTheEndOfItsDevice) {
  studio_->end_device();
  const mel_spectrogram request{.sample_rate = 16000, .samples = std::vector<float>(1'000, 0.5F)};
  EXPECT_EQ(outcome(*studio_, request), errc::shutting_down);
}

/// On the host device, which fails as it is told to.
/// Samples on a host device that are not there until the gate is opened: everything else waits for
/// them.
class gated_samples {
 public:
  gated_samples(device_runtime& runtime, std::size_t count)
      : stream_(runtime.create_stream()), samples_(runtime.allocate<float>(count, stream_.ref())) {
    auto recorder = launch_recorder::strict(stream_.ref());
    recorder.write(samples_).preflight();
    submit_host_task(stream_.ref(), [this, opened = gate_.get_future().share()] {
      opened.wait();
      std::fill_n(samples_.data(), samples_.size(), 0.5F);
    });
    recorder.commit();
  }
  gated_samples(const gated_samples&) = delete;
  gated_samples& operator=(const gated_samples&) = delete;
  ~gated_samples() { stream_.synchronize(); }

  void open() { gate_.set_value(); }
  const gpu_ref<float>& get() const { return samples_; }

 private:
  std::promise<void> gate_;
  sluice::stream stream_;
  gpu_ref<float> samples_;
};

class MelServiceFaults : public ::testing::Test {
 protected:
  std::shared_ptr<fault_script> faults_ = std::make_shared<fault_script>();
  // Without a pool, so that every allocation is one of the device.
  std::unique_ptr<studio> studio_ = std::make_unique<studio>(
      open_host_device({.faults = faults_}), runtime_options{.resource = make_async_resource()});
};

TEST_F(MelServiceFaults, AnswerOnceAndLeaveNothing) {
  std::int64_t n_mels = 10;
  for (const auto target : {fault_target::launch, fault_target::copy, fault_target::allocation}) {
    int failures = 0;
    for (std::uint64_t nth = 1;; ++nth) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(target)) + ", number " +
                   std::to_string(nth));
      // Other parameters each time, so that the tables are uploaded, too.
      const mel_spectrogram request{.sample_rate = 16000,
                                    .samples = std::vector<float>(1'000, 0.5F),
                                    .n_fft = 256,
                                    .n_mels = ++n_mels,
                                    .decibels = decibel_options{}};
      caf::scoped_actor self{studio_->system()};
      std::optional<errc> failure;
      // A runtime asks twice for memory, and an executor again once it has given up executables.
      faults_->fail_nth(target, nth, target == fault_target::allocation ? 4 : 1);
      sluice::request(self, studio_->mel(), caf::infinite, request)
          .receive([](const tensors&) {},
                   [&](const caf::error& why) {
                     const auto known = from_caf_error(why);
                     ASSERT_TRUE(known) << describe(studio_->system(), why);
                     failure = known->code();
                   });
      faults_->fail_nth(target, 0);
      // What a fault leaves behind does not spoil the next request.
      EXPECT_EQ(outcome(*studio_, request), std::nullopt);
      EXPECT_TRUE(self->mailbox().empty());
      if (!failure) break;
      ++failures;
      if (target == fault_target::allocation) {
        EXPECT_EQ(failure, errc::out_of_memory);
      } else {
        EXPECT_TRUE(failure == errc::upstream_failed || failure == errc::library_failure)
            << to_string(*failure);
      }
    }
    // Launches: the program, as one task. Copies: the constants and the samples. Allocations: also
    // the result; the lane has its scratch from the requests before.
    EXPECT_EQ(failures, target == fault_target::launch ? 1 : target == fault_target::copy ? 2 : 3);
  }
  studio_->end();
}

TEST_F(MelServiceFaults, AnswerTheLossOfTheDevice) {
  faults_->fail_nth(fault_target::loss, 2);
  const mel_spectrogram request{.sample_rate = 16000, .samples = std::vector<float>(1'000, 0.5F)};
  EXPECT_EQ(outcome(*studio_, request), errc::device_lost);
  EXPECT_EQ(outcome(*studio_, request), errc::device_lost);
  studio_->end_service();
}

TEST_F(MelServiceFaults, AnswerWhatIsInFlightWhenTheServiceEnds) {
  auto samples = std::make_unique<gated_samples>(studio_->runtime(), 1'000);
  auto launched = studio_->trace().publication_of("program");
  caf::scoped_actor self{studio_->system()};
  auto reply = sluice::request(self, studio_->mel(), caf::infinite,
                               mel_spectrogram{.sample_rate = 16000, .samples = samples->get()});
  launched.wait();
  studio_->end_service();
  samples->open();
  std::move(reply).receive(
      [&](const tensors& mel) { EXPECT_EQ(mel.front().shape()[1], 128); },
      [&](const caf::error& why) { ADD_FAILURE() << describe(studio_->system(), why); });
  samples.reset();
  studio_->end();
  EXPECT_TRUE(self->mailbox().empty());
}

TEST_F(MelServiceFaults, LaunchesRequestsTogetherThatWaitTogether) {
  constexpr std::size_t count = 20;
  const auto request_of = [](const gpu_ref<float>& samples) {
    // Little work, so that a batch has room for many.
    return mel_spectrogram{.sample_rate = 16000, .samples = samples, .n_fft = 256, .hop = 128};
  };
  EXPECT_EQ(outcome(*studio_, request_of(studio_->on_device(std::vector<float>(1'000, 0.5F)))),
            std::nullopt);
  (void)studio_->trace().take();
  auto samples = std::make_unique<gated_samples>(studio_->runtime(), 1'000);
  caf::scoped_actor self{studio_->system()};
  const auto send = [&] {
    return sluice::request(self, studio_->mel(), caf::infinite, request_of(samples->get()));
  };
  std::vector<decltype(send())> replies;
  for (std::size_t i = 0; i < count; ++i) replies.push_back(send());
  // Two batches are in flight until the gate is opened, and one is left.
  while (studio_->waiting() + studio_->trace().launches_of("program") != count) {
    std::this_thread::yield();
  }
  samples->open();
  for (auto& reply : replies) {
    std::move(reply).receive(
        [&](const tensors& mel) { EXPECT_EQ(mel.front().shape()[1], 128); },
        [&](const caf::error& why) { ADD_FAILURE() << describe(studio_->system(), why); });
  }
  EXPECT_GE(studio_->trace().largest_batch(), (count + 2) / 3);
  samples.reset();
  studio_->end();
}

}  // namespace
}  // namespace sluice::examples
