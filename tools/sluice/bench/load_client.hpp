// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/spin_for_message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

/// The error of a reply.
inline error reply_error(caf::actor_system& system, const caf::error& why) {
  auto known = from_caf_error(why);
  return known ? *std::move(known) : error(errc::library_failure, describe(system, why));
}

/// Clients that send requests as fast as they are answered, each with a number of them in flight.
/// Each is an actor with a thread of its own, which is pinned during a load with `--pin`.
template <class Reply>
class load_clients {
 public:
  /// Called by the thread of a client after the reply to its i-th request.
  using observer = std::function<void(std::size_t client, std::size_t i, bool succeeded)>;

  /// `request(client, i)` is the i-th request of a client: a tuple of what the message holds.
  template <class Handle, class Request>
  load_clients(caf::actor_system& system, std::size_t clients, std::size_t in_flight,
               const Handle& target, const Request& request, const observer& answered = nullptr)
      : system_(system) {
    for (std::size_t i = 0; i < clients; ++i) {
      clients_.push_back(
          system.spawn<caf::detached>([=](caf::event_based_actor* self) -> caf::behavior {
            const auto made = std::make_shared<client_state<Handle, Request>>(
                self, i, in_flight, target, request, answered);
            return {[made](std::int64_t count) {
              return made->start(count);
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
    const auto each = std::max<std::int64_t>(1, count / static_cast<std::int64_t>(clients_.size()));
    caf::scoped_actor self{system_};
    std::vector<decltype(sluice::request(self, clients_.front(), caf::infinite, each))> pending;
    for (const auto& client : clients_) {
      pending.push_back(sluice::request(self, client, caf::infinite, each));
    }
    std::optional<error> failure;
    for (auto& answer : pending) {
      std::move(answer).receive(
          [](std::int64_t) {}, [&](const caf::error& why) { failure = reply_error(system_, why); });
    }
    if (failure) throw *failure;
  }
  /// Has a client send one request, whether or not earlier ones have been answered.
  void post_one(std::size_t client) { post(clients_[client], std::int64_t{1}); }

 private:
  /// A client, and the requests that it is to send.
  template <class Handle, class Request>
  class client_state : public std::enable_shared_from_this<client_state<Handle, Request>> {
   public:
    client_state(caf::event_based_actor* self, std::size_t number, std::size_t in_flight,
                 Handle target, Request request, observer answered)
        : self_(self),
          number_(number),
          in_flight_(in_flight),
          target_(std::move(target)),
          request_(std::move(request)),
          answered_(std::move(answered)) {}

    /// Sends `count` more requests.
    caf::response_promise start(std::int64_t count) {
      promise_ = self_->make_response_promise();
      if (!pinned_) pinned_ = std::make_unique<pinned_client>(number_);
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
      const auto i = sent_++;
      const auto send_parts = [&](auto&&... parts) {
        sluice::request(self_, target_, caf::infinite, std::move(parts)...)
            .then([me = this->shared_from_this(), i](const Reply&) { me->end(i, true); },
                  [me = this->shared_from_this(), i](caf::error& why) {
                    me->failure_ = std::move(why);
                    me->end(i, false);
                  });
      };
      std::apply(send_parts, request_(number_, i));
      if (in_flight_ == 1) spin_for_message(self_);
    }
    void end(std::size_t i, bool succeeded) {
      if (answered_) answered_(number_, i, succeeded);
      if (--unanswered_ != 0) return send();
      pinned_.reset();
      if (failure_) return promise_.deliver(failure_);
      promise_.deliver(std::int64_t{0});
    }

    caf::event_based_actor* self_;
    std::size_t number_;
    std::size_t in_flight_;
    Handle target_;
    Request request_;
    observer answered_;
    std::size_t sent_ = 0;
    std::int64_t unsent_ = 0;
    std::int64_t unanswered_ = 0;
    caf::response_promise promise_{};
    caf::error failure_{};
    std::unique_ptr<pinned_client> pinned_{};  // while requests are unanswered
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

}  // namespace sluice::cli
