// SPDX-License-Identifier: Apache-2.0
#include "tools/io/partial_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <pthread.h>
#include <random>
#include <signal.h>
#include <string>
#include <unistd.h>

namespace sluice::io {

namespace {

std::atomic_flag in_section = ATOMIC_FLAG_INIT;
partial_file* all_files = nullptr;  // guarded by a section

/// A critical section in which the list and the file system change together. Signals are blocked
/// inside. The signal handler enters for good, so it waits only for other threads.
class section {
 public:
  section() noexcept {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &previous_);
    enter();
  }
  section(const section&) = delete;
  section& operator=(const section&) = delete;
  ~section() {
    in_section.clear(std::memory_order_release);
    ::pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
  }
  static void enter() noexcept {
    const timespec pause{0, 100'000};
    while (in_section.test_and_set(std::memory_order_acquire)) ::nanosleep(&pause, nullptr);
  }

 private:
  sigset_t previous_{};
};

std::string random_name() {
  std::random_device random;
  std::string name = ".sluice-";
  for (int digit = 0; digit < 16; ++digit) name += "0123456789abcdef"[random() % 16];
  return name + ".partial";
}

/// Whether the default action of `signal` ends the process.
bool ends_process(int signal) noexcept {
  constexpr std::array others{SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU,
                              SIGCONT, SIGCHLD, SIGURG,  SIGWINCH};
  return std::find(others.begin(), others.end(), signal) == others.end();
}

}  // namespace

// The signal handler calls this, so it uses only async-signal-safe functions.
void remove_all_partial_files() noexcept {
  for (const auto* one = all_files; one != nullptr; one = one->next_) ::unlink(one->path_.c_str());
}

namespace {

extern "C" void remove_and_end(int signal) {
  section::enter();  // from now on no other thread creates or renames a file
  remove_all_partial_files();
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);  // arrives when the handler returns
}

}  // namespace

int partial_file::create(const std::filesystem::path& folder) {
  constexpr int attempts = 16;
  for (int attempt = 0;; ++attempt) {
    path_ = folder / random_name();
    const section guard;
    const int descriptor = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      list();
      return descriptor;
    }
    if (errno != EINTR && (errno != EEXIST || attempt == attempts)) return -1;
  }
}

int partial_file::rename(const std::filesystem::path& location) noexcept {
  const section guard;
  if (std::rename(path_.c_str(), location.c_str()) != 0) return errno;
  unlist();
  return 0;
}

void partial_file::remove() noexcept {
  if (!listed_) return;
  const section guard;
  ::unlink(path_.c_str());
  unlist();
}

void partial_file::list() noexcept {
  next_ = all_files;
  all_files = this;
  listed_ = true;
}

void partial_file::unlist() noexcept {
  for (auto** link = &all_files; *link != nullptr; link = &(*link)->next_) {
    if (*link != this) continue;
    *link = next_;
    break;
  }
  listed_ = false;
}

void remove_partial_files_on_signals() noexcept {
  struct sigaction action {};
  action.sa_handler = remove_and_end;
  action.sa_flags = SA_ONSTACK;
  ::sigfillset(&action.sa_mask);
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    struct sigaction current {};
    if (ends_process(signal) && ::sigaction(signal, nullptr, &current) == 0 &&
        (current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL) {
      ::sigaction(signal, &action, nullptr);
    }
  }
}

}  // namespace sluice::io
