// SPDX-License-Identifier: Apache-2.0
// A worker process of sluiced. It runs models on one device, and has nothing to do with clients.
#include "service/front/worker_process.hpp"
#include "service/worker/host_memory.hpp"
#include "service/worker/worker_loop.hpp"

#include <sluice/version.hpp>

#include <CLI/CLI.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sluice::service {
namespace {

/// The largest part of the free memory that runs on the host may use, so that no request takes the
/// memory of the whole machine. A GPU has memory of its own.
[[nodiscard]] std::uint64_t default_memory(const device_service& service) {
  if (service.device().id().kind != device_kind::host) return memory_budget::unlimited;
  return available_host_memory() / 4 * 3;
}

void work(const std::string& device, std::optional<std::uint64_t> memory) {
  worker_channel channel(
      std::make_shared<shared_memory>(file_descriptor(worker_descriptors::memory)),
      file_descriptor(worker_descriptors::worker_wake),
      file_descriptor(worker_descriptors::front_wake));
  control_socket control{file_descriptor(worker_descriptors::control)};
  auto service = std::make_shared<device_service>(device);
  memory_budget::of(service->device().id())->set_limit(memory.value_or(default_memory(*service)));
  // Declared after the service: it ends first, and then the runtime pins no memory any more.
  const auto pinned = service->runtime().register_host(
      {std::shared_ptr<void>(), channel.memory().data()}, channel.memory().size());
  if (!control.send(
          {{"opened", to_string(service->device().id())}, {"version", sluice::version}})) {
    return;
  }
  worker_loop loop(channel, control, std::move(service));
  try {
    loop.run();
  } catch (const std::exception& e) {
    // Without destructors, which would answer requests that another worker can run.
    std::fprintf(stderr, "sluice-worker: %s\n", e.what());
    std::_Exit(1);
  }
}

}  // namespace
}  // namespace sluice::service

int main(int argc, char** argv) {
  sluice::service::end_with_front();
  try {
    CLI::App app("A worker of sluiced, which starts it");
    std::string device = "auto";
    app.set_version_flag("--version", sluice::version.data());
    app.add_option("--device", device, "Device: auto, host, cuda or cuda:N");
    std::optional<std::uint64_t> memory;
    app.add_option("--memory", memory, "Bytes of the device that models may use");
    CLI11_PARSE(app, argc, argv);
    sluice::service::work(device, memory);
  } catch (const std::exception& e) {
    (void)std::fprintf(stderr, "sluice-worker: %s\n", e.what());
    return 1;
  }
  return 0;
}
