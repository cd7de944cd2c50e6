// SPDX-License-Identifier: Apache-2.0
// What a restricted thread cannot do.
#include "service/front/thread_filter.hpp"

#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace sluice::service {
namespace {

/// The results of a function in a thread that is restricted, if it can be, and in one that is not.
struct outcomes {
  int restricted = 0;
  int free = 0;
};

class thread_filter : public ::testing::Test {
 protected:
  /// Runs a function that returns 0 or an error number.
  outcomes run(const std::function<int()>& act) {
    outcomes outcomes;
    std::thread([&] {
      has_filter_ = restrict_thread();
      // A thread of a restricted thread is restricted, too.
      std::thread([&] { outcomes.restricted = act(); }).join();
    }).join();
    std::thread([&] { outcomes.free = act(); }).join();
    return outcomes;
  }
  void expect_refused(const std::function<int()>& act) {
    const auto results = run(act);
    EXPECT_EQ(results.free, 0);
    if (!has_filter_) GTEST_SKIP() << "the kernel has no filters of system calls";
    EXPECT_EQ(results.restricted, EPERM);
  }
  void expect_allowed(const std::function<int()>& act) {
    const auto results = run(act);
    EXPECT_EQ(results.free, 0);
    EXPECT_EQ(results.restricted, 0);
  }

  static int error_of(long result) { return result < 0 ? errno : 0; }

  bool has_filter_ = false;
};

TEST_F(thread_filter, starts_no_process) {
  expect_refused([] {
    std::string name = "true";
    char* arguments[] = {name.data(), nullptr};
    pid_t child = -1;
    const int error = ::posix_spawnp(&child, name.c_str(), nullptr, nullptr, arguments, environ);
    if (error == 0) (void)::waitpid(child, nullptr, 0);
    return error;
  });
  expect_refused([] {
    const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (child == 0) ::_exit(0);
    if (child > 0) (void)::waitpid(child, nullptr, 0);
    return error_of(child);
  });
  expect_refused([] { return error_of(::kill(::getpid(), 0)); });
}

TEST_F(thread_filter, makes_no_machine_code) {
  expect_refused([] {
    void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return errno;
    return error_of(::munmap(memory, 4096));
  });
  expect_refused([] {
    void* memory =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    const int error = error_of(::mprotect(memory, 4096, PROT_READ | PROT_EXEC));
    (void)::munmap(memory, 4096);
    return error;
  });
}

TEST_F(thread_filter, connects_to_nothing) {
  expect_refused([] {
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (socket < 0) return -1;
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    address.sun_path[1] = 'x';  // where nobody listens
    const int error =
        error_of(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address));
    (void)::close(socket);
    return error == ECONNREFUSED ? 0 : error;
  });
  expect_refused([] {
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return errno;
    return error_of(::close(socket));
  });
  expect_refused([] {
    const int socket = ::socket(AF_NETLINK, SOCK_RAW, 0);
    if (socket < 0) return errno;
    return error_of(::close(socket));
  });
}

TEST_F(thread_filter, changes_no_files) {
  const sluice::test::temporary_folder folder;
  const auto file = (folder / "file").string();
  expect_refused([&] {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (descriptor < 0) return errno;
    return error_of(::close(descriptor));
  });
  expect_refused([&] { return error_of(::rename(file.c_str(), file.c_str())); });
}

TEST_F(thread_filter, does_what_servers_need) {
  expect_allowed([] {
    const int descriptor = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return errno;
    return error_of(::close(descriptor));
  });
  expect_allowed([] {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (socket < 0) return errno;
    const sockaddr_in address{
        .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    const int error =
        error_of(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address)) +
        error_of(::listen(socket, 1));
    (void)::close(socket);
    return error;
  });
}

}  // namespace
}  // namespace sluice::service
