// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/spin_for_message.hpp>
#include <sluice/envelope/kernel_trace.hpp>

#include <atomic>
#include <optional>
#include <tuple>

namespace sluice::cli {

/// Sends `count` requests at once, each by `send(self, i)`, and returns the replies.
/// @throws error the error of a reply
template <class Reply, class Send>
std::vector<Reply> replies_to(caf::actor_system& system, std::size_t count, const Send& send) {
  caf::scoped_actor self{system};
  std::vector<decltype(send(self, count))> pending;
  for (std::size_t i = 0; i < count; ++i) pending.push_back(send(self, i));
  std::vector<Reply> replies;
  std::optional<error> failure;
  for (auto& response : pending) {
    std::move(response).receive([&](Reply& reply) { replies.push_back(std::move(reply)); },
                                [&](const caf::error& why) {
                                  failure = from_caf_error(why);
                                  if (!failure)
                                    failure = error(errc::library_failure, describe(system, why));
                                });
  }
  if (failure) throw *failure;
  return replies;
}

/// Clients that send requests as fast as they are answered, each with a number of them in flight.
/// Each is an actor with a thread of its own.
template <class Reply>
class load_clients {
 public:
  /// `request(client, i)` is the i-th request of a client: a tuple of what the message holds.
  /// `latencies`, if given, gets the latency of each request.
  template <class Handle, class Request>
  load_clients(caf::actor_system& system, std::size_t clients, std::size_t in_flight,
               const Handle& target, const Request& request,
               const std::shared_ptr<latency_log>& latencies = nullptr)
      : system_(system) {
    for (std::size_t i = 0; i < clients; ++i) {
      clients_.push_back(
          system.spawn<caf::detached>([=](caf::event_based_actor* self) -> caf::behavior {
            const auto client = std::make_shared<client_state<Handle, Request>>(
                self, i, in_flight, target, request, latencies);
            return {[client](std::int64_t count) {
              return client->start(count);
            }};
          }));
    }
  }
  load_clients(const load_clients&) = delete;
  load_clients& operator=(const load_clients&) = delete;
  ~load_clients() {
    for (const auto& client : clients_) {
      caf::anon_send_exit(client, caf::exit_reason::user_shutdown);
    }
  }

  /// Sends `count` requests in all, and returns when all have been answered.
  /// @throws error the error of a reply
  void send(std::int64_t count) {
    const auto share =
        std::max<std::int64_t>(1, count / static_cast<std::int64_t>(clients_.size()));
    (void)replies_to<std::int64_t>(system_, clients_.size(), [&](auto& self, std::size_t i) {
      return sluice::request(self, clients_[i], caf::infinite, share);
    });
  }

 private:
  /// A client, and the requests that it is to send.
  template <class Handle, class Request>
  class client_state : public std::enable_shared_from_this<client_state<Handle, Request>> {
   public:
    client_state(caf::event_based_actor* self, std::size_t number, std::size_t in_flight,
                 Handle target, Request request, std::shared_ptr<latency_log> latencies)
        : self_(self),
          number_(number),
          in_flight_(in_flight),
          target_(std::move(target)),
          request_(std::move(request)),
          latencies_(std::move(latencies)) {}

    /// Sends `count` more requests.
    caf::response_promise start(std::int64_t count) {
      promise_ = self_->make_response_promise();
      unsent_ += count;
      unanswered_ += count;
      const auto first = std::min(count, static_cast<std::int64_t>(in_flight_));
      for (std::int64_t k = 0; k < first; ++k) send();
      return promise_;
    }

   private:
    void send() {
      if (unsent_ == 0) return;
      --unsent_;
      const auto send_parts = [&](auto&&... parts) {
        const auto start = latencies_ ? clock::now() : clock::time_point();
        sluice::request(self_, target_, caf::infinite, std::move(parts)...)
            .then([client = this->shared_from_this(),
                   start](const Reply&) { client->count_result(start); },
                  [client = this->shared_from_this()](caf::error& why) {
                    client->failure_ = std::move(why);
                    client->count();
                  });
      };
      std::apply(send_parts, request_(number_, sent_++));
      if (in_flight_ == 1) spin_for_message(self_);
    }
    void count_result(clock::time_point start) {
      if (latencies_) latencies_->add(microseconds_since(start));
      count();
    }
    /// Counts a reply.
    void count() {
      if (--unanswered_ != 0) return send();
      if (failure_) return promise_.deliver(failure_);
      promise_.deliver(std::int64_t{0});
    }

    caf::event_based_actor* self_;
    std::size_t number_;
    std::size_t in_flight_;
    Handle target_;
    Request request_;
    std::shared_ptr<latency_log> latencies_;
    std::size_t sent_ = 0;
    std::int64_t unsent_ = 0;
    std::int64_t unanswered_ = 0;
    caf::response_promise promise_{};
    caf::error failure_{};
  };

  caf::actor_system& system_;
  std::vector<caf::actor> clients_;
};

/// Clients that share `requests` equally. Each sends its share in turns, with `options` behind each
/// request. The requests must outlive the clients.
template <class Reply, class Handle, class Request, class... Options>
auto make_load(session& current, const Handle& target, const std::vector<Request>& requests,
               std::size_t clients, std::size_t in_flight, const Options&... options) {
  return std::make_shared<load_clients<Reply>>(
      current.system(), clients, in_flight, target,
      [&requests, share = requests.size() / clients, options...](std::size_t client,
                                                                 std::size_t i) {
        return std::tuple(requests[client * share + i % share], options...);
      });
}

/// Counts launches and the batches that they are members of. Thread-safe.
class batch_sizes final : public kernel_trace {
 public:
  void after_complete(const kernel_info& info, const kernel_outcome&) override {
    launches_.fetch_add(1, std::memory_order_relaxed);
    batches_.fetch_add(1.0 / static_cast<double>(info.batch), std::memory_order_relaxed);
  }
  /// The mean number of launches in a batch.
  [[nodiscard]] double mean() const { return static_cast<double>(launches_) / batches_; }
  /// Forgets what has been counted. Called while there is no launch.
  void clear() {
    launches_ = 0;
    batches_ = 0;
  }

 private:
  std::atomic<std::int64_t> launches_{0};
  std::atomic<double> batches_{0};
};

/// A way of work whose requests are launched together. `make_load(actor)` makes the clients of an
/// actor. The mean batch is that of `counted` requests to an actor of its own, which `spawn` spawns
/// (`spawn_blas` or another of its kind); the measured `actor` does without the trace.
template <class Actor, class Spawn, class MakeLoad>
way_of_work batched_load(session& current, std::string name, const Actor& actor, const Spawn& spawn,
                         std::int64_t counted, const MakeLoad& make_load) {
  return {.name = std::move(name),
          .run = [load = make_load(actor)](std::int64_t n) { load->send(n); },
          .mean_batch =
              [=, &current] {
                const auto sizes = std::make_shared<batch_sizes>();
                make_load(spawn(current.system(), current.device().shared_service(), sizes))
                    ->send(counted);
                return sizes->mean();
              }};
}

/// The requests of clients.
template <class Load>
timed_work sending(std::shared_ptr<Load> load) {
  return [load = std::move(load)](std::int64_t n) {
    load->send(n);
  };
}

/// Requests of a thread that waits for each reply. `requests` take turns, and must outlive the
/// work.
template <class Reply, class Handle, class Request>
timed_work asking(session& current, const Handle& target, const std::vector<Request>& requests) {
  return [&current, target, &requests](std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      (void)current.ask<Reply>(target, in_turns(requests, i));
    }
  };
}

}  // namespace sluice::cli
