// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/device.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// What became of one request.
template <class Reply>
struct answer {
  std::optional<Reply> value;
  std::optional<error> failure;  ///< when it was an error of sluice
  caf::error raw;                ///< any error
};

/// The answers to a number of requests, filled in by actors, and how many replies came altogether.
template <class Reply>
class answers {
 public:
  explicit answers(std::size_t count) : answers_(count) {}

  void succeed(std::size_t i, Reply value) {
    set(i, [&](answer<Reply>& a) { a.value.emplace(std::move(value)); });
  }
  void fail(std::size_t i, const caf::error& why) {
    set(i, [&](answer<Reply>& a) {
      a.raw = why;
      a.failure = from_caf_error(why);
    });
  }
  void count_reply() {
    const std::lock_guard lock(mutex_);
    ++replies_;
  }
  void note_all_sent() {
    {
      const std::lock_guard lock(mutex_);
      all_sent_ = true;
    }
    changed_.notify_all();
  }
  /// Waits until all requests are in the mailbox of whom they are for.
  void wait_until_sent() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return all_sent_; });
  }
  [[nodiscard]] std::size_t replies() const {
    const std::lock_guard lock(mutex_);
    return replies_;
  }
  [[nodiscard]] std::size_t answered() const {
    const std::lock_guard lock(mutex_);
    return answered_;
  }
  /// The answers by request, once there are all of them.
  [[nodiscard]] std::vector<answer<Reply>> wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return answered_ >= answers_.size(); });
    return answers_;
  }
  /// Drops the replies. Clients may hold this object for a little longer than the test.
  void clear() {
    const std::lock_guard lock(mutex_);
    answers_.clear();
  }
  /// The requests in the order in which they were answered.
  [[nodiscard]] std::vector<std::size_t> order() const {
    const std::lock_guard lock(mutex_);
    return order_;
  }

 private:
  template <class Change>
  void set(std::size_t i, Change change) {
    {
      const std::lock_guard lock(mutex_);
      change(answers_[i]);
      ++answered_;
      order_.push_back(i);
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<answer<Reply>> answers_;
  std::vector<std::size_t> order_;
  std::size_t answered_ = 0;
  std::size_t replies_ = 0;
  bool all_sent_ = false;
};

template <class T>
struct is_reference : std::false_type {};
template <class T>
struct is_reference<gpu_ref<T>> : std::true_type {};

/// An event-based actor that sends requests, all at once, and counts every reply that reaches its
/// mailbox, also those that CAF would drop as superfluous.
template <class Reply>
class counting_client final : public caf::event_based_actor {
 public:
  counting_client(caf::actor_config& config, std::shared_ptr<answers<Reply>> replies,
                  caf::actor target, std::vector<caf::message> requests)
      : caf::event_based_actor(config),
        answers_(std::move(replies)),
        target_(std::move(target)),
        requests_(std::move(requests)) {}

  using caf::event_based_actor::enqueue;
  sluice::detail::enqueue_result enqueue(caf::mailbox_element_ptr element,
                                         sluice::detail::actor_context* unit) override {
    if (element->mid.is_response()) {
      answers_->count_reply();
      if constexpr (is_reference<Reply>::value) {
        // Operations answer with tensors, the tests compare references.
        if (auto& content = element->content(); content.template match_elements<tensor>()) {
          const auto& t = content.template get_as<tensor>(0);
          auto reply = caf::make_message(Reply(t.block(), t.offset(), t.size()));
#if CAF_MAJOR_VERSION >= 1
          element = caf::make_mailbox_element(element->sender, element->mid, std::move(reply));
#else
          element = caf::make_mailbox_element(element->sender, element->mid, {}, std::move(reply));
#endif
        }
      }
    }
    return caf::event_based_actor::enqueue(std::move(element), unit);
  }

  caf::behavior make_behavior() override {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      sluice::request(this, target_, caf::infinite, std::move(requests_[i]))
          .then([replies = answers_, i](Reply& value) { replies->succeed(i, std::move(value)); },
                [replies = answers_, i](caf::error& why) { replies->fail(i, why); });
    }
    requests_.clear();
    target_ = nullptr;
    answers_->note_all_sent();
    return {};
  }

 private:
  std::shared_ptr<answers<Reply>> answers_;
  caf::actor target_;
  std::vector<caf::message> requests_;
};

/// What an actor system of a test is made from.
struct configured : caf::actor_system_config {
  configured() { sluice::configure(*this); }
};

/// Launches that a lane of a session has in flight at most.
inline constexpr std::size_t max_in_flight = 48;

/// An actor system over one device, and streams of the test's own on it. Members are made and
/// destroyed in the order that users are told to keep.
class session {
 public:
  explicit session(const std::string& device_name) : session(open_device(device_name)) {}
  explicit session(std::shared_ptr<sluice::device> device,
                   completion_strategy completion = completion_strategy::polled,
                   std::size_t lanes = 1, std::size_t high_priority_lanes = 0)
      : session(std::move(device),
                // A convolution with a residual has up to 18 commands.
                device_service_options{.completion = completion,
                                       .max_in_flight = max_in_flight,
                                       .max_commands = 18 * max_in_flight,
                                       .lanes_per_actor = lanes,
                                       .high_priority_lanes = high_priority_lanes}) {}
  session(std::shared_ptr<sluice::device> device, device_service_options options)
      : service_(std::make_shared<device_service>(std::move(device), std::move(options))),
        transfer_stream_(runtime().create_stream()),
        gate_stream_(runtime().create_stream()),
        generator_(make_generator()) {}

  [[nodiscard]] caf::actor_system& system() noexcept { return system_; }
  [[nodiscard]] const std::shared_ptr<device_service>& service() const noexcept { return service_; }
  [[nodiscard]] device_runtime& runtime() const noexcept { return service_->runtime(); }
  [[nodiscard]] sluice::device& device() const noexcept { return service_->device(); }
  [[nodiscard]] bool on_host() const noexcept { return device().id().kind == device_kind::host; }
  [[nodiscard]] std::mt19937_64& generator() noexcept { return generator_; }

  /// A whole number from `least` to `most`.
  template <class Integer = std::int64_t>
  [[nodiscard]] Integer number(Integer least, Integer most) {
    return std::uniform_int_distribution<Integer>(least, most)(generator_);
  }
  [[nodiscard]] bool coin() { return number<int>(0, 1) == 1; }
  /// `count` numbers in [-1, 1).
  template <class T>
  [[nodiscard]] std::vector<T> numbers(std::size_t count) {
    return random_values<T>(generator_, count);
  }

  template <class T>
  [[nodiscard]] gpu_ref<T> put(const std::vector<T>& values) {
    return upload(runtime(), transfer_stream_, values);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get(const gpu_ref<T>& ref) {
    return download(ref, transfer_stream_);
  }
  /// Puts `values` into memory that is there.
  template <class T>
  void put_into(const gpu_ref<T>& ref, const std::vector<T>& values) {
    auto recorder = begin_write(ref, transfer_stream_);
    device().copy(ref.data(), values.data(), ref.bytes(), copy_direction::host_to_device,
                  transfer_stream_.ref().native());
    recorder.commit();
    transfer_stream_.synchronize();
  }
  /// A reference to memory that has been given back.
  template <class T>
  [[nodiscard]] gpu_ref<T> stale(std::size_t count) {
    auto ref = runtime().allocate<T>(count, transfer_stream_);
    runtime().deallocate(ref.block());
    return ref;
  }
  /// Launches that use `ref` from now on start once `g` is open. A GPU may have to come to rest
  /// before it can load a kernel: what is going to be launched behind a closed gate must have been
  /// launched before.
  template <class T>
  void hold(gate& g, const gpu_ref<T>& ref) {
    auto recorder = launch_recorder::strict(gate_stream_);
    recorder.read_write(ref);
    recorder.preflight();
    g.hold(gate_stream_);
    recorder.commit();
  }

  /// Sends all requests from one event-based actor.
  template <class Reply>
  [[nodiscard]] std::shared_ptr<answers<Reply>> send(const caf::actor& target,
                                                     std::vector<caf::message> requests) {
    auto replies = std::make_shared<answers<Reply>>(requests.size());
    auto client = system_.spawn<counting_client<Reply>>(replies, target, std::move(requests));
    clients_.push_back(client);
    drop_replies_.push_back([replies] { replies->clear(); });
    return replies;
  }
  template <class Reply>
  [[nodiscard]] std::vector<answer<Reply>> ask_all(const caf::actor& target,
                                                   std::vector<caf::message> requests) {
    return send<Reply>(target, std::move(requests))->wait();
  }
  template <class Reply, class Handle, class... Message>
  [[nodiscard]] Reply ask(const Handle& target, Message... message) {
    return sluice::ask<Reply>(system_, target, std::move(message)...);
  }

  /// Spawns an actor that runs `function(self)`. (CAF 0.17 forms a reference to nothing for a
  /// function that takes nothing else, which UndefinedBehaviorSanitizer reports.)
  template <caf::spawn_options Options = caf::no_spawn_options, class Self = caf::event_based_actor,
            class Function>
  [[nodiscard]] caf::actor spawn(Function function) {
    return system_.spawn<Options>([](Self* self, Function f) { return f(self); },
                                  std::move(function));
  }
  template <class Handle>
  void end(const Handle& actor, caf::exit_reason reason = caf::exit_reason::user_shutdown) {
    caf::scoped_actor self{system_};
    self->send_exit(actor, reason);
    self->wait_for(actor);
  }

  /// Waits until every launch has completed and its owners have been dropped.
  runtime_statistics settle() {
    runtime_statistics now;
    await([&] {
      // What has completed is on the release list before it is no longer pending.
      if (service_->engine().pending() != 0) return false;
      runtime().reap_pending();
      now = runtime().statistics();
      return now.releases_pending == 0 && now.leases == 0;
    });
    return now;
  }
  /// To be called when the test has dropped its references and ended its actors.
  void expect_nothing_left() {
    for (const auto& drop : drop_replies_) drop();
    // An actor without a handle ends once its thread has stopped waiting for messages, and with CAF
    // 1.x an actor tells of its end before it destroys its state. After a loss, owners stay until
    // the task that was running has returned.
    await([this] { return runtime().bytes_outstanding() == 0; });
    const auto statistics = settle();
    EXPECT_EQ(statistics.bytes_outstanding, 0U);
    EXPECT_EQ(statistics.blocks, 0U);
    EXPECT_EQ(statistics.recorders_abandoned, 0U);
  }

 private:
  configured configuration_;
  caf::actor_system system_{configuration_};
  std::shared_ptr<device_service> service_;
  sluice::stream transfer_stream_;
  sluice::stream gate_stream_;
  std::mt19937_64 generator_;
  std::vector<caf::actor> clients_;  // so that superfluous replies still find them
  std::vector<std::function<void()>> drop_replies_;
};

template <class Handle>
[[nodiscard]] caf::actor untyped(const Handle& handle) {
  return caf::actor_cast<caf::actor>(handle);
}

/// Succeeds when `a` is an error with `code` whose text contains `word`.
template <class Reply>
::testing::AssertionResult failed_with(const answer<Reply>& a, errc code,
                                       const std::string& word = "") {
  if (a.value) return ::testing::AssertionFailure() << "it succeeded";
  if (!a.failure) {
    return ::testing::AssertionFailure() << "not an error of sluice: code " << int{a.raw.code()};
  }
  if (a.failure->code() != code) {
    return ::testing::AssertionFailure()
           << "the code is " << to_string(a.failure->code()) << ", not " << to_string(code) << ": "
           << a.failure->what();
  }
  if (std::string(a.failure->what()).find(word) == std::string::npos) {
    return ::testing::AssertionFailure()
           << "the text does not mention '" << word << "': " << a.failure->what();
  }
  return ::testing::AssertionSuccess();
}

template <class Reply>
::testing::AssertionResult succeeded(const answer<Reply>& a) {
  if (a.value) return ::testing::AssertionSuccess();
  if (a.failure) {
    return ::testing::AssertionFailure()
           << to_string(a.failure->code()) << ": " << a.failure->what();
  }
  return ::testing::AssertionFailure() << "not an error of sluice: code " << int{a.raw.code()};
}

}  // namespace sluice::test
