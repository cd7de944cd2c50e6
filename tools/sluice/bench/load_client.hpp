// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <sluice/actors/ask.hpp>
#include <sluice/actors/caf.hpp>
#include <sluice/actors/spin_for_message.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::cli {

/// Clients that send requests as fast as they are answered, each with a number of them in flight.
/// Each is an actor with a thread of its own, which is pinned during a load with `--pin`.
///
///     load_clients<gpu_ref<float>> clients(system, 4, 64, blas, [&](std::size_t client,
///     std::size_t i) { ... }); clients.send(100000);
template <class Reply>
class load_clients {
 public:
  /// `request(client, i)` is the i-th request of a client: a tuple of what the message holds.
  template <class Handle, class Request>
  load_clients(caf::actor_system& system, std::size_t clients, std::size_t in_flight,
               const Handle& target, const Request& request)
      : system_(system) {
    for (std::size_t i = 0; i < clients; ++i) {
      clients_.push_back(
          system.spawn<caf::detached>([=](caf::event_based_actor* self) -> caf::behavior {
            auto next = [i, at = std::size_t{0}, request]() mutable {
              return request(i, at++);
            };
            return serve(self, i, target, in_flight, std::move(next));
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
    pending.reserve(clients_.size());
    for (const auto& client : clients_) {
      pending.push_back(sluice::request(self, client, caf::infinite, each));
    }
    std::optional<error> failure;
    for (auto& answer : pending) {
      std::move(answer).receive([](std::int64_t) {},
                                [&](const caf::error& why) {
                                  failure = from_caf_error(why);
                                  if (!failure) {
                                    failure.emplace(errc::library_failure, describe(system_, why));
                                  }
                                });
    }
    if (failure) throw *failure;
  }

 private:
  template <class Handle, class Next>
  static caf::behavior serve(caf::event_based_actor* self, std::size_t number, const Handle& target,
                             std::size_t in_flight, Next next) {
    struct load {
      Next next;
      std::int64_t unsent = 0;
      std::int64_t unanswered = 0;
      caf::response_promise answer{};
      caf::error failure{};
      std::unique_ptr<pinned_client> pinned{};  // during a load
    };
    const auto state = std::make_shared<load>(load{std::move(next)});
    const auto send = [=](const auto& again) -> void {
      if (state->unsent == 0) return;
      --state->unsent;
      const auto answered = [=] {
        if (--state->unanswered == 0) {
          state->pinned.reset();
          if (state->failure) return state->answer.deliver(state->failure);
          return state->answer.deliver(std::int64_t{0});
        }
        again(again);
      };
      const auto request = [&](auto&&... parts) {
        return sluice::request(self, target, caf::infinite, std::move(parts)...);
      };
      std::apply(request, state->next())
          .then([answered](const Reply&) { answered(); },
                [answered, state](caf::error& why) {
                  state->failure = std::move(why);
                  answered();
                });
      if (in_flight == 1) spin_for_message(self);
    };
    return {[=](std::int64_t count) {
      state->answer = self->make_response_promise();
      state->pinned = std::make_unique<pinned_client>(number);
      state->unsent = state->unanswered = count;
      for (std::size_t i = 0; i < in_flight; ++i) send(send);
      return state->answer;
    }};
  }

  caf::actor_system& system_;
  std::vector<caf::actor> clients_;
};

}  // namespace sluice::cli
