// SPDX-License-Identifier: Apache-2.0
// The worker of worker_process_test. Its first argument says what it does.
#include "service/arena/worker_channel.hpp"
#include "service/front/control_socket.hpp"
#include "service/front/worker_process.hpp"

#include <sluice/version.hpp>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <poll.h>
#include <signal.h>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// Does what the first byte of a request says: 0xde ends the process, 0xad waits until there is a
/// file SLUICE_TEST_GATE.
void obey(std::span<const std::byte> input) {
  if (input.empty()) return;
  if (input.front() == std::byte{0xde}) std::_Exit(9);
  if (input.front() == std::byte{0xad}) {
    while (!std::filesystem::exists(std::getenv("SLUICE_TEST_GATE"))) (void)::usleep(1000);
  }
}

/// Answers requests with their inputs, and control messages by `answer`, until the control socket
/// is closed.
template <class Answer>
int echo(bool stops_at_a_request, Answer answer, const nlohmann::json& greeting = {}) {
  const bool obeys_requests = !greeting.is_null();
  worker_channel channel(
      std::make_shared<shared_memory>(file_descriptor(worker_descriptors::memory)),
      file_descriptor(worker_descriptors::worker_wake),
      file_descriptor(worker_descriptors::front_wake));
  control_socket control{file_descriptor(worker_descriptors::control)};
  if (!greeting.is_null()) (void)control.send(greeting);
  std::vector<run_message> requests;
  std::vector<std::uint64_t> cancellations;
  while (!control.is_closed()) {
    while (const auto message = control.receive()) answer(control, *message);
    if (channel.receive(requests, cancellations) == 0 && channel.begin_sleep()) {
      std::array<pollfd, 2> descriptors{
          pollfd{.fd = channel.wake_descriptor(), .events = POLLIN, .revents = 0},
          pollfd{.fd = control.descriptor(), .events = POLLIN, .revents = 0}};
      (void)::poll(descriptors.data(), descriptors.size(), -1);
      channel.end_sleep();
    }
    if (stops_at_a_request && !requests.empty()) (void)::raise(SIGSTOP);
    for (const auto& request : requests) {
      std::vector<std::uint64_t> sizes;
      for (const auto& input : request.inputs) sizes.push_back(input.bytes);
      auto region = channel.allocate(sizes);
      if (!region) return 3;
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        const auto input = channel.bytes(request.inputs[i]);
        if (obeys_requests) obey(input);
        std::copy(input.begin(), input.end(), region->tensor(i).begin());
      }
      channel.send(request.number, request.inputs, std::move(*region),
                   {.queue_ns = 100, .compute_ns = 1000, .batch = 2});
    }
    requests.clear();
  }
  return 0;
}

void echo_message(control_socket& control, const nlohmann::json& message) {
  (void)control.send(message);
}

/// Answers checks, and loads a model as its file says: "refuse", "die", "hang", "gate PATH", which
/// waits until there is a file PATH, "matrix", whose input has two extents, or anything else.
void load_model(control_socket& control, const nlohmann::json& message) {
  if (message.contains("check")) (void)control.send({{"checked", message.at("check")}});
  if (!message.contains("load")) return;
  std::ifstream file(message.at("source").at("path").get<std::string>());
  std::string task;
  std::string gate;
  file >> task >> gate;
  if (task == "die") (void)::raise(SIGKILL);
  if (task == "hang") return;
  if (task == "gate") {
    while (!std::filesystem::exists(gate)) (void)::usleep(1000);
  }
  if (task == "refuse") {
    (void)control.send({{"refused", message.at("load")}, {"problem", "it is refused"}});
    return;
  }
  const auto tensors =
      nlohmann::json::array({{{"name", "x"},
                              {"datatype", "UINT8"},
                              {"shape", task == "matrix" ? nlohmann::json::array({-1, -1})
                                                         : nlohmann::json::array({-1})}}});
  (void)control.send({{"loaded", message.at("load")}, {"inputs", tensors}, {"outputs", tensors}});
}

/// Says what the process has inherited.
int describe_process() {
  nlohmann::json description{{"descriptors", nlohmann::json::array()}};
  {
    std::vector<int> listed;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      listed.push_back(std::stoi(entry.path().filename()));
    }
    // That of the listing itself is closed by now.
    for (const int descriptor : listed) {
      const auto link = "/proc/self/fd/" + std::to_string(descriptor);
      if (std::filesystem::exists(std::filesystem::symlink_status(link))) {
        description["descriptors"].push_back(descriptor);
      }
    }
  }
  std::sort(description["descriptors"].begin(), description["descriptors"].end());
  description["input"] = std::filesystem::read_symlink("/proc/self/fd/0").string();
  description["group"] = ::getpgrp() == ::getpid();
  sigset_t blocked{};
  (void)::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  description["blocked"] = ::sigismember(&blocked, SIGTERM);
  struct sigaction action {};
  (void)::sigaction(SIGPIPE, nullptr, &action);
  description["ignored"] = action.sa_handler == SIG_IGN;
  for (const char* name : {"SLUICE_TEST_ADDED", "SLUICE_TEST_CHANGED", "SLUICE_TEST_KEPT"}) {
    const char* value = std::getenv(name);
    description[name] = value == nullptr ? "" : value;
  }
  control_socket control{file_descriptor(worker_descriptors::control)};
  return control.send(description) && control.flush() ? 0 : 1;
}

int run(std::string_view task) {
  end_with_front();
  if (task == "echo") return echo(false, echo_message);
  if (task == "stop") return echo(true, echo_message);
  if (task == "serve") {
    return echo(false, load_model, {{"opened", "host:0"}, {"version", sluice::version}});
  }
  if (task == "serve-old") {
    return echo(false, load_model, {{"opened", "host:0"}, {"version", "0.0.0"}});
  }
  if (task == "describe") return describe_process();
  if (task == "exit") return 7;
  if (task == "hang") {
    control_socket control{file_descriptor(worker_descriptors::control)};
    if (!control.send("begun")) return 1;
    while (true) (void)::pause();
  }
  return 2;
}

}  // namespace
}  // namespace sluice::service

int main(int argc, char** argv) {
  return argc < 2 ? 2 : sluice::service::run(argv[1]);
}
