// SPDX-License-Identifier: Apache-2.0
#include "service/front/worker_process.hpp"

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

constexpr int first_closed = worker_descriptors::control + 1;

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

/// What a new process does before its program.
class spawn_actions {
 public:
  spawn_actions() { check(::posix_spawn_file_actions_init(&actions_), "posix_spawn"); }
  spawn_actions(const spawn_actions&) = delete;
  spawn_actions& operator=(const spawn_actions&) = delete;
  ~spawn_actions() { (void)::posix_spawn_file_actions_destroy(&actions_); }

  void read_nothing() {
    check(::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0),
          "posix_spawn");
  }
  void inherit(int descriptor, int number) {
    // A copy with a high number, because `descriptor` may be the number of an earlier copy.
    file_descriptor copy(::fcntl(descriptor, F_DUPFD_CLOEXEC, first_closed));
    if (copy.get() < 0) check(errno, "a descriptor of a worker");
    check(::posix_spawn_file_actions_adddup2(&actions_, copy.get(), number), "posix_spawn");
    copies_.push_back(std::move(copy));
  }
  void close_others() {
    check(::posix_spawn_file_actions_addclosefrom_np(&actions_, first_closed), "posix_spawn");
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
  std::vector<file_descriptor> copies_{};
};

/// The signals and the process group of a new process.
class spawn_attributes {
 public:
  spawn_attributes() {
    check(::posix_spawnattr_init(&attributes_), "posix_spawn");
    sigset_t signals{};
    (void)::sigemptyset(&signals);
    (void)::posix_spawnattr_setsigmask(&attributes_, &signals);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGTERM, SIGCHLD}) {
      (void)::sigaddset(&signals, signal);
    }
    (void)::posix_spawnattr_setsigdefault(&attributes_, &signals);
    (void)::posix_spawnattr_setpgroup(&attributes_, 0);
    (void)::posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  spawn_attributes(const spawn_attributes&) = delete;
  spawn_attributes& operator=(const spawn_attributes&) = delete;
  ~spawn_attributes() { (void)::posix_spawnattr_destroy(&attributes_); }

  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

[[nodiscard]] std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (auto& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// The environment of this process with other values of some variables.
[[nodiscard]] std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> variables = changes;
  const auto name = [](std::string_view variable) {
    return variable.substr(0, variable.find('='));
  };
  for (char** variable = environ; *variable != nullptr; ++variable) {
    bool is_changed = false;
    for (const auto& change : changes) is_changed |= name(change) == name(*variable);
    if (!is_changed) variables.emplace_back(*variable);
  }
  return variables;
}

[[nodiscard]] std::string describe(const siginfo_t& end) {
  if (end.si_code == CLD_EXITED) return "exited with status " + std::to_string(end.si_status);
  std::string text = "killed by signal " + std::to_string(end.si_status);
  if (const char* name = ::sigdescr_np(end.si_status)) text += " (" + std::string(name) + ")";
  return text;
}

}  // namespace

void end_with_front() noexcept {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
}

worker_process::worker_process(const worker_program& program, const front_channel& channel,
                               const file_descriptor& control) {
  spawn_actions actions;
  actions.read_nothing();
  actions.inherit(channel.memory_descriptor(), worker_descriptors::memory);
  actions.inherit(channel.worker_wake_descriptor(), worker_descriptors::worker_wake);
  actions.inherit(channel.front_wake_descriptor(), worker_descriptors::front_wake);
  actions.inherit(control.get(), worker_descriptors::control);
  actions.close_others();
  const spawn_attributes attributes;

  std::vector<std::string> arguments{program.path};
  arguments.insert(arguments.end(), program.arguments.begin(), program.arguments.end());
  auto environment = environment_with(program.environment);
  check(::posix_spawn(&id_, program.path.c_str(), actions.get(), attributes.get(),
                      pointers(arguments).data(), pointers(environment).data()),
        program.path.c_str());
  end_ = file_descriptor(static_cast<int>(::syscall(SYS_pidfd_open, id_, 0)));
  if (end_.get() < 0) {
    const int error = errno;
    (void)::kill(id_, SIGKILL);
    (void)::waitpid(id_, nullptr, 0);
    check(error, "pidfd_open");
  }
}

worker_process::~worker_process() {
  if (end_text_) return;
  kill();
  constexpr int second_in_ms = 1000;
  pollfd end{.fd = end_.get(), .events = POLLIN, .revents = 0};
  (void)::poll(&end, 1, second_in_ms);
  siginfo_t info{};
  (void)::waitid(P_PIDFD, static_cast<id_t>(end_.get()), &info, WEXITED | WNOHANG);
}

void worker_process::kill() noexcept {
  if (!end_text_) (void)::syscall(SYS_pidfd_send_signal, end_.get(), SIGKILL, nullptr, 0);
}

std::optional<std::string> worker_process::reap() {
  if (end_text_) return end_text_;
  siginfo_t info{};
  if (::waitid(P_PIDFD, static_cast<id_t>(end_.get()), &info, WEXITED | WNOHANG) != 0) {
    check(errno, "waitid");
  }
  if (info.si_pid != 0) {
    end_text_ = describe(info);
    was_killed_ = info.si_code == CLD_KILLED && info.si_status == SIGKILL;
  }
  return end_text_;
}

}  // namespace sluice::service
