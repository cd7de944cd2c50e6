// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/bench.hpp"

#include <sluice/actors/ask.hpp>

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

namespace sluice::cli {

/// Takes the reply to a request. @throws error the error of the reply
template <class Reply, class Pending>
Reply receive_reply(caf::actor_system& system, Pending pending) {
  std::optional<error> failure;
  Reply reply;
  std::move(pending).receive([&](Reply& found) { reply = std::move(found); },
                             [&](const caf::error& why) {
                               failure = from_caf_error(why);
                               if (!failure) {
                                 failure.emplace(errc::library_failure, describe(system, why));
                               }
                             });
  if (failure) throw *failure;
  return reply;
}

/// Sends one request, followed by `more`, and waits for its reply, `count` times. Adds the time of
/// each.
/// @throws error the error of a reply
template <class Reply, class Handle, class Request, class... More>
void time_round_trips(caf::actor_system& system, const Handle& target, const Request& request,
                      int count, times& into, const More&... more) {
  for (int i = 0; i < count; ++i) {
    const auto begun = clock::now();
    (void)ask<Reply>(system, target, request, more...);
    into.add(microseconds_since(begun));
  }
}

/// Sends `count` requests from one client, at most `bench_in_flight` at a time. `request(i)` is the
/// i-th request; `more` follows it in its message. Adds the time of one request.
/// @throws error the error of a reply
template <class Reply, class Handle, class Request, class... More>
void time_pipelined(caf::actor_system& system, const Handle& target, const Request& request,
                    int count, times& into, const More&... more) {
  caf::scoped_actor self{system};
  const auto send = [&](int i) {
    return sluice::request(self, target, caf::infinite, request(static_cast<std::size_t>(i)),
                           more...);
  };
  std::deque<decltype(send(0))> pending;
  const auto begun = clock::now();
  for (int sent = 0; sent < count; ++sent) {
    if (pending.size() == bench_in_flight) {
      receive_reply<Reply>(system, std::move(pending.front()));
      pending.pop_front();
    }
    pending.push_back(send(sent));
  }
  for (; !pending.empty(); pending.pop_front()) {
    receive_reply<Reply>(system, std::move(pending.front()));
  }
  into.add(microseconds_since(begun) / count);
}

}  // namespace sluice::cli
