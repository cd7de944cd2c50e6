// SPDX-License-Identifier: Apache-2.0
#include "service/front/control_socket.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <fcntl.h>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

using nlohmann::json;

class control_socket_pair : public ::testing::Test {
 protected:
  control_socket_pair() : control_socket_pair(make_control_sockets()) {}

  /// Sends a packet that no `control_socket` sends.
  void send_raw(const std::string& packet) {
    ASSERT_EQ(::send(worker_.descriptor(), packet.data(), packet.size(), 0),
              static_cast<ssize_t>(packet.size()));
  }

  control_socket front_;
  control_socket worker_;

 private:
  explicit control_socket_pair(std::pair<file_descriptor, file_descriptor> sockets)
      : front_(std::move(sockets.first)), worker_(std::move(sockets.second)) {}
};

TEST_F(control_socket_pair, carries_messages_in_both_directions) {
  EXPECT_EQ(front_.receive(), std::nullopt);
  ASSERT_TRUE(front_.send({{"load", "model"}, {"version", 3}}));
  ASSERT_TRUE(front_.send("second"));
  EXPECT_EQ(worker_.receive(), (json{{"load", "model"}, {"version", 3}}));
  EXPECT_EQ(worker_.receive(), json("second"));
  EXPECT_EQ(worker_.receive(), std::nullopt);
  EXPECT_FALSE(worker_.is_closed());
  ASSERT_TRUE(worker_.send(json::array()));
  EXPECT_EQ(front_.receive(), json::array());
}

TEST_F(control_socket_pair, carries_messages_of_all_sizes) {
  auto generator = sluice::test::make_generator();
  for (const std::size_t size :
       {std::size_t{65532}, std::size_t{65533}, std::size_t{65534}, std::size_t{131068},
        std::size_t{131069}, control_socket::max_message_bytes - 2,
        static_cast<std::size_t>(generator() % 1'000'000)}) {
    const json message = std::string(size, 'm');
    ASSERT_TRUE(front_.send(message));
    std::optional<json> received;
    while (!received) {
      (void)front_.flush();
      received = worker_.receive();
    }
    EXPECT_TRUE(*received == message) << size;
    EXPECT_TRUE(front_.flush());
  }
  EXPECT_THROW((void)front_.send(std::string(control_socket::max_message_bytes - 1, 'm')),
               std::length_error);
}

TEST_F(control_socket_pair, queues_for_a_peer_that_does_not_read_up_to_a_limit) {
  const json message = std::string(100'000, 'q');
  std::size_t sent = 0;
  while (front_.send(message)) ASSERT_LT(++sent, 1000);
  EXPECT_GT(sent * 100'000, control_socket::max_queued_bytes - 200'000);
  EXPECT_FALSE(front_.flush());
  std::size_t received = 0;
  while (received < sent) {
    (void)front_.flush();
    while (worker_.receive()) ++received;
  }
  EXPECT_TRUE(front_.flush());
  EXPECT_TRUE(front_.send(message));
}

TEST_F(control_socket_pair, never_blocks_even_if_the_peer_says_so) {
  ASSERT_EQ(::fcntl(front_.descriptor(), F_SETFL, 0), 0) << "shared by all copies of a socket";
  EXPECT_EQ(front_.receive(), std::nullopt);
  while (front_.send(std::string(100'000, 'q'))) {
  }
}

TEST_F(control_socket_pair, reports_the_end_after_the_last_message) {
  ASSERT_TRUE(front_.send("not read"));
  ASSERT_TRUE(worker_.send("last"));
  { const auto closed = std::move(worker_); }
  EXPECT_EQ(front_.receive(), json("last"));
  EXPECT_EQ(front_.receive(), std::nullopt);
  EXPECT_TRUE(front_.is_closed());
  EXPECT_TRUE(front_.send("into nothing"));
  EXPECT_TRUE(front_.flush());
}

TEST_F(control_socket_pair, refuses_what_is_no_message) {
  const std::string last(1, '\0');
  for (const std::string& packet :
       {last, last + "{", last + "{\"a\":\"\xff\"}", std::string("\2{}"), last + "[] []",
        last + std::string(70, '[') + std::string(70, ']'), last + std::string(60'000, '['),
        std::string(70'000, '\1')}) {
    send_raw(packet);
    EXPECT_THROW((void)front_.receive(), std::runtime_error) << packet.substr(0, 20);
  }
  send_raw(last + std::string(60, '[') + std::string(60, ']'));
  EXPECT_TRUE(front_.receive()) << "a control";
}

TEST_F(control_socket_pair, refuses_messages_without_end) {
  const std::string packet(60'001, '\1');
  for (int i = 0; i < 17; ++i) {
    send_raw(packet);
    EXPECT_EQ(front_.receive(), std::nullopt);
  }
  send_raw(packet);
  EXPECT_THROW((void)front_.receive(), std::runtime_error);
}

TEST_F(control_socket_pair, of_any_packets_throws_at_most) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 20'000; ++round) {
    std::string packet(1 + generator() % 30, '\0');
    static constexpr char alphabet[] = "\0\1[]{}\":,1eE.-tru\\u\xc3\xff ";
    for (auto& c : packet) c = alphabet[generator() % (sizeof(alphabet) - 1)];
    packet[0] = static_cast<char>(generator() % 2);
    send_raw(packet);
    try {
      (void)front_.receive();
    } catch (const std::runtime_error&) {
    }
  }
}

}  // namespace
}  // namespace sluice::service
