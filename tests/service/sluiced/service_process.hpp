// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::service::test {

/// A sluiced on free ports, with a worker on the host. It is killed at the end of the test.
class service_process {
 public:
  /// @param arguments  besides the addresses and the device
  /// @param has_grpc   whether it listens for gRPC, too
  explicit service_process(std::vector<std::string> arguments, bool has_grpc = false) {
    std::array<int, 2> output{};
    if (::pipe(output.data()) != 0) throw std::runtime_error("no pipe");
    arguments.insert(arguments.begin(),
                     {path(), "--http", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--grpc",
                      has_grpc ? "127.0.0.1:0" : "off"});
    std::vector<char*> pointers;
    for (auto& each : arguments) pointers.push_back(each.data());
    pointers.push_back(nullptr);
    id_ = ::fork();
    if (id_ == 0) {
      (void)::dup2(output[1], STDOUT_FILENO);
      ::close(output[0]);
      ::close(output[1]);
      ::execv(pointers.front(), pointers.data());
      ::_exit(127);
    }
    ::close(output[1]);
    auto* const lines = ::fdopen(output[0], "r");
    // A line for HTTP, one for the metrics, and one for gRPC.
    for (auto* const port : {&port_, &metrics_port_, &grpc_port_}) {
      if (port == &grpc_port_ && !has_grpc) break;
      std::array<char, 256> line{};
      if (std::fgets(line.data(), static_cast<int>(line.size()), lines) == nullptr) {
        std::fclose(lines);
        throw std::runtime_error("sluiced has ended: " + std::to_string(wait()));
      }
      const std::string text(line.data());
      *port = static_cast<std::uint16_t>(std::stoi(text.substr(text.rfind(' '))));
    }
    std::fclose(lines);
  }
  service_process(const service_process&) = delete;
  service_process& operator=(const service_process&) = delete;
  ~service_process() {
    if (id_ <= 0) return;
    ::kill(id_, SIGKILL);
    (void)wait();
  }

  /// The program: beside the command line program, or in the folder above that of the tests.
  [[nodiscard]] static std::string path() {
    if (const char* program = std::getenv("SLUICE_PROGRAM"); program != nullptr) {
      return std::filesystem::path(program).parent_path() / "sluiced";
    }
    return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "sluiced";
  }

  [[nodiscard]] int id() const noexcept { return id_; }
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] std::uint16_t metrics_port() const noexcept { return metrics_port_; }
  /// 0 without gRPC.
  [[nodiscard]] std::uint16_t grpc_port() const noexcept { return grpc_port_; }
  /// The processes that sluiced has started and that have not been reaped.
  [[nodiscard]] std::vector<int> workers() const {
    std::vector<int> ids;
    for (const auto& thread :
         std::filesystem::directory_iterator("/proc/" + std::to_string(id_) + "/task")) {
      std::ifstream children(thread.path() / "children");
      for (int id = 0; children >> id;) ids.push_back(id);
    }
    return ids;
  }
  void signal(int number) const { ::kill(id_, number); }
  /// Waits for the end of the process. Returns its exit code; 128 + n after signal n.
  int wait() {
    int status = 0;
    (void)::waitpid(id_, &status, 0);
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
  std::uint16_t port_ = 0;
  std::uint16_t metrics_port_ = 0;
  std::uint16_t grpc_port_ = 0;
};

}  // namespace sluice::service::test
