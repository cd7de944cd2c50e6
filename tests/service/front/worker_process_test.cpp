// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_process.hpp"

#include "service/front/control_socket.hpp"
#include "tests/service/arena/worker_beside.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <signal.h>
#include <string>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using test::is_readable;
using test::send_bytes;

constexpr arena_sizes small_sizes{.request_bytes = 65536, .reply_bytes = 65536, .ring_capacity = 8};

/// A front with one worker that runs the scripted program.
struct started_worker {
  explicit started_worker(const std::string& task, std::vector<std::string> environment = {})
      : started_worker(task, std::move(environment), make_control_sockets()) {}

  [[nodiscard]] std::string end() {
    if (!is_readable(process->end_descriptor(), test::hang_in_ms)) return "runs";
    return process->reap().value_or("no status");
  }

  front_channel channel{small_sizes};
  control_socket control;
  std::optional<worker_process> process{};

 private:
  started_worker(const std::string& task, std::vector<std::string> environment,
                 std::pair<file_descriptor, file_descriptor> sockets)
      : control(std::move(sockets.first)) {
    const auto path =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "run-scripted-worker";
    process.emplace(
        worker_program{
            .path = path.string(), .arguments = {task}, .environment = std::move(environment)},
        channel, sockets.second);
  }
};

[[nodiscard]] std::vector<received_reply> receive(front_channel& channel) {
  std::vector<received_reply> replies;
  while (channel.receive(replies) == 0) {
    if (!channel.begin_sleep()) continue;
    if (!is_readable(channel.front_wake_descriptor(), test::hang_in_ms)) break;
    channel.end_sleep();
  }
  return replies;
}

[[nodiscard]] std::optional<nlohmann::json> receive(control_socket& control) {
  std::optional<nlohmann::json> message;
  while (!(message = control.receive()) && !control.is_closed()) {
    if (!is_readable(control.descriptor(), test::hang_in_ms)) break;
  }
  return message;
}

TEST(worker_process, answers_requests_and_ends_with_its_control_socket) {
  auto generator = sluice::test::make_generator();
  started_worker worker("echo");
  for (std::uint64_t number = 0; number < 2'000; ++number) {
    std::vector<std::byte> bytes(generator() % 5000);
    for (auto& byte : bytes) byte = static_cast<std::byte>(generator());
    ASSERT_TRUE(send_bytes(worker.channel, number, bytes));
    const auto replies = receive(worker.channel);
    ASSERT_EQ(replies.size(), 1);
    ASSERT_EQ(replies[0].number, number);
    const auto output = replies[0].outputs.at(0).bytes;
    ASSERT_TRUE(std::equal(output.begin(), output.end(), bytes.begin(), bytes.end()));
  }
  EXPECT_TRUE(worker.control.send({{"any", 1}}));
  EXPECT_EQ(receive(worker.control), (nlohmann::json{{"any", 1}}));
  EXPECT_EQ(worker.process->reap(), std::nullopt);
  { const auto closed = std::move(worker.control); }
  EXPECT_EQ(worker.end(), "exited with status 0");
  EXPECT_EQ(worker.process->reap(), "exited with status 0") << "again";
  EXPECT_FALSE(worker.process->was_killed());
}

TEST(worker_process, inherits_what_it_needs_and_nothing_else) {
  // Descriptors that are not closed by exec, below and above those of a worker.
  std::vector<file_descriptor> leaks;
  for (int i = 0; i < 20; ++i) leaks.emplace_back(::open("/dev/null", O_RDONLY));
  sigset_t blocked{};
  (void)::sigemptyset(&blocked);
  (void)::sigaddset(&blocked, SIGTERM);
  (void)::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  (void)::signal(SIGPIPE, SIG_IGN);
  ::setenv("SLUICE_TEST_CHANGED", "old", 1);
  ::setenv("SLUICE_TEST_KEPT", "kept", 1);

  started_worker worker("describe", {"SLUICE_TEST_ADDED=added", "SLUICE_TEST_CHANGED=new"});
  const auto description = receive(worker.control);
  (void)::signal(SIGPIPE, SIG_DFL);
  (void)::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  ASSERT_TRUE(description);
  EXPECT_EQ((*description)["descriptors"], (nlohmann::json{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ((*description)["input"], "/dev/null");
  EXPECT_EQ((*description)["group"], true);
  EXPECT_EQ((*description)["blocked"], 0);
  EXPECT_EQ((*description)["ignored"], false);
  EXPECT_EQ((*description)["SLUICE_TEST_ADDED"], "added");
  EXPECT_EQ((*description)["SLUICE_TEST_CHANGED"], "new");
  EXPECT_EQ((*description)["SLUICE_TEST_KEPT"], "kept");
  EXPECT_EQ(worker.end(), "exited with status 0");
}

TEST(worker_process, passes_descriptors_whose_numbers_are_those_of_a_worker) {
  // In the child only these are open, so the channel gets the numbers from 3 in another order.
  EXPECT_EQ(sluice::test::end_of_child([] {
              (void)::close_range(3, ~0U, 0);
              auto sockets = make_control_sockets();  // 3 and 4
              started_worker worker("echo");
              return send_bytes(worker.channel, 1, std::vector<std::byte>(9)) &&
                             receive(worker.channel).size() == 1
                         ? 0
                         : 1;
            }),
            "exited with 0");
}

TEST(worker_process, that_exits_at_once_is_seen) {
  started_worker worker("exit");
  EXPECT_EQ(worker.end(), "exited with status 7");
  EXPECT_EQ(receive(worker.control), std::nullopt);
  EXPECT_TRUE(worker.control.is_closed());
  EXPECT_TRUE(send_bytes(worker.channel, 1, std::vector<std::byte>(9))) << "into a dead arena";
  EXPECT_EQ(worker.channel.take_pending().size(), 1);
}

TEST(worker_process, that_is_killed_returns_its_requests) {
  started_worker worker("stop");
  for (std::uint64_t number = 0; number < 4; ++number) {
    ASSERT_TRUE(send_bytes(worker.channel, number, std::vector<std::byte>(9, std::byte{8})));
  }
  // The worker stops itself with a request in hand.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(worker.process->id()), &info, WSTOPPED), 0);
  EXPECT_EQ(worker.process->reap(), std::nullopt) << "stopped is not gone";
  EXPECT_FALSE(is_readable(worker.process->end_descriptor()));
  worker.process->kill();
  EXPECT_EQ(worker.end(), "killed by signal 9 (Killed)");
  EXPECT_TRUE(worker.process->was_killed());
  std::vector<received_reply> replies;
  EXPECT_EQ(worker.channel.receive(replies), 0);
  const auto pending = worker.channel.take_pending();
  ASSERT_EQ(pending.size(), 4);
  EXPECT_EQ(pending[0].region.tensor(0)[8], std::byte{8});
}

TEST(worker_process, that_is_killed_under_load_gives_each_request_one_end) {
  auto generator = sluice::test::make_generator();
  for (int round = 0; round < 10; ++round) {
    started_worker worker("echo");
    std::uint64_t sent = 0, answered = 0;
    const auto last = 1 + generator() % 500;
    std::vector<received_reply> replies;
    while (answered < last) {
      if (send_bytes(worker.channel, sent, std::vector<std::byte>(64))) ++sent;
      answered += worker.channel.receive(replies);
      replies.clear();
    }
    worker.process->kill();
    EXPECT_EQ(worker.end(), "killed by signal 9 (Killed)");
    while (worker.channel.receive(replies) != 0) {
    }
    EXPECT_EQ(sent, answered + replies.size() + worker.channel.take_pending().size());
  }
}

TEST(worker_process, is_killed_and_reaped_by_its_owner) {
  int id = 0;
  {
    started_worker worker("hang");
    id = worker.process->id();
    EXPECT_EQ(::kill(id, 0), 0);
  }
  EXPECT_EQ(::waitpid(id, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(worker_process, dies_with_the_front) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const file_descriptor reader(pipe[0]), writer(pipe[1]);
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0) << "the orphan becomes a child of this process";
  EXPECT_EQ(sluice::test::end_of_child([&] {
              started_worker worker("hang");
              const int id = worker.process->id();
              // The worker ignores its control socket after this message.
              if (receive(worker.control) != "begun") return 1;
              if (::write(writer.get(), &id, sizeof(id)) != sizeof(id)) return 1;
              return ::kill(::getpid(), SIGKILL);
            }),
            "ended by signal 9");
  int id = 0;
  ASSERT_EQ(::read(reader.get(), &id, sizeof(id)), static_cast<ssize_t>(sizeof(id)));
  const file_descriptor end(static_cast<int>(::syscall(SYS_pidfd_open, id, 0)));
  ASSERT_TRUE(is_readable(end.get(), test::hang_in_ms)) << "the worker lives on";
  int status = 0;
  ASSERT_EQ(::waitpid(id, &status, 0), id);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  (void)::prctl(PR_SET_CHILD_SUBREAPER, 0);
}

TEST(worker_process, of_a_program_that_does_not_exist_is_an_error) {
  const front_channel channel(small_sizes);
  const auto sockets = make_control_sockets();
  try {
    const worker_process process({.path = "/no/such/program"}, channel, sockets.second);
    FAIL() << "started";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), ENOENT);
    EXPECT_NE(std::string(error.what()).find("/no/such/program"), std::string::npos);
  }
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "no child remains";
}

}  // namespace
}  // namespace sluice::service
