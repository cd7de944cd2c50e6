// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/load_loop.hpp"

#include <sluice/runtime/error.hpp>

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

using clock = load_counts::clock;

/// A client with its connection.
struct connected_client {
  load_client client;
  server_connection connection;
  bool is_in_flight = false;        // whether a request waits for its reply
  std::size_t sent = 0;             // bytes of the request
  bool is_waiting_to_send = false;  // whether epoll tells when more can be sent
  clock::time_point start{};        // of the request
};

/// Some of the clients, which one thread drives.
class load_thread {
 public:
  explicit load_thread(std::vector<connected_client> clients)
      : clients_(std::move(clients)), epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (auto& client : clients_) change(client, EPOLL_CTL_ADD, EPOLLIN);
  }
  load_thread(const load_thread&) = delete;
  load_thread& operator=(const load_thread&) = delete;
  ~load_thread() { ::close(epoll_); }

  void run(clock::time_point end) {
    end_ = end;
    for (auto& client : clients_) begin(client, clock::now());
    std::array<epoll_event, 64> events{};
    while (waiting_ > 0) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                     std::chrono::milliseconds(reply_timeout).count());
      if (count == 0) counts_.add_error("no reply within a minute", std::exchange(waiting_, 0));
      for (int i = 0; i < count; ++i) {
        const auto& event = events[static_cast<std::size_t>(i)];
        auto& client = *static_cast<connected_client*>(event.data.ptr);
        if ((event.events & EPOLLOUT) != 0) send(client);
        if ((event.events & ~std::uint32_t{EPOLLOUT}) != 0) receive(client);
      }
    }
  }
  [[nodiscard]] const load_counts& counts() const noexcept { return counts_; }

 private:
  void change(connected_client& client, int operation, std::uint32_t events) const {
    epoll_event event{};
    event.events = events;
    event.data.ptr = &client;
    (void)::epoll_ctl(epoll_, operation, client.connection.descriptor(), &event);
  }

  void begin(connected_client& client, clock::time_point now) {
    client.start = now;
    client.sent = 0;
    client.is_in_flight = true;
    ++waiting_;
    send(client);
  }

  void send(connected_client& client) {
    const auto& request = *client.client.request;
    bool is_full = false;
    while (client.sent < request.size() && !is_full) {
      const auto count = ::send(client.connection.descriptor(), request.data() + client.sent,
                                request.size() - client.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0) {
        is_full = errno == EAGAIN;
        if (!is_full) break;  // the next `recv` has the reply of the server, or the reason
      } else {
        client.sent += static_cast<std::size_t>(count);
      }
    }
    if (is_full == client.is_waiting_to_send) return;
    client.is_waiting_to_send = is_full;
    change(client, EPOLL_CTL_MOD, is_full ? EPOLLIN | EPOLLOUT : EPOLLIN);
  }

  void receive(connected_client& client) {
    const auto count =
        ::recv(client.connection.descriptor(), bytes_.data(), bytes_.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return;
    if (!client.is_in_flight) return client.connection.close();
    if (count < 0) return fail(client, std::generic_category().message(errno));
    if (count == 0) return fail(client, "the server closed the connection");
    auto& replies = *client.client.replies;
    try {
      if (!replies.take({bytes_.data(), static_cast<std::size_t>(count)})) return;
    } catch (const error& e) {
      return fail(client, e.what());
    }
    // A server may refuse a request before its end. What follows on the connection is undefined.
    if (client.sent < client.client.request->size()) {
      return fail(client, replies.problem().empty() ? "a reply before the end of the request"
                                                    : replies.problem());
    }
    const auto now = clock::now();
    if (replies.problem().empty()) {
      counts_.add_latency(now - client.start);
    } else {
      counts_.add_error(replies.problem());
    }
    client.is_in_flight = false;
    --waiting_;
    if (now < end_) begin(client, now);
  }

  void fail(connected_client& client, const std::string& why) {
    counts_.add_error(why);
    client.connection.close();
    --waiting_;
  }

  std::vector<connected_client> clients_;
  int epoll_;
  std::vector<char> bytes_ = std::vector<char>(std::size_t{256} * 1024);
  clock::time_point end_{};
  std::uint64_t waiting_ = 0;  // clients with a request in flight
  load_counts counts_{};
};

}  // namespace

load_counts load_loop::run(clock::duration time) const {
  std::vector<std::vector<connected_client>> shares(std::min(threads, clients));
  for (std::size_t i = 0; i < clients; ++i)
    shares[i % shares.size()].push_back({client(i), server_connection(server)});
  std::vector<std::unique_ptr<load_thread>> loops;
  loops.reserve(shares.size());
  for (auto& share : shares) loops.push_back(std::make_unique<load_thread>(std::move(share)));
  const auto start = clock::now();
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < loops.size(); ++i)
      helpers.emplace_back([&loop = *loops[i], end = start + time] { loop.run(end); });
    loops.front()->run(start + time);
  }
  load_counts counts;
  counts.time = clock::now() - start;
  for (const auto& loop : loops) counts.add(loop->counts());
  return counts;
}

}  // namespace sluice::cli
