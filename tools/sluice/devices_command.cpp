// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/command.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/runtime/device.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <string>
#include <vector>

namespace sluice::cli {

namespace {

struct devices_options {
  common_options common;
  bool json = false;
};

std::string compute_capability(const device_info& device) {
  return fmt::format("{}.{}", device.compute_capability / 10, device.compute_capability % 10);
}

std::string as_json(const std::vector<device_info>& devices, device_id chosen) {
  auto list = nlohmann::json::array();
  for (const device_info& device : devices) {
    nlohmann::json entry{{"device", to_string(device.id)},
                         {"kind", device.id.kind == device_kind::cuda ? "cuda" : "host"},
                         {"name", device.name},
                         {"memory_bytes", device.memory_bytes},
                         {"multiprocessors", device.multiprocessors},
                         {"auto", device.id == chosen}};
    if (device.id.kind == device_kind::cuda)
      entry["compute_capability"] = compute_capability(device);
    list.push_back(std::move(entry));
  }
  return nlohmann::json{{"devices", std::move(list)}}.dump(
             2, ' ', false, nlohmann::json::error_handler_t::replace) +
         '\n';
}

std::string as_table(const std::vector<device_info>& devices, device_id chosen) {
  std::string table;
  for (const device_info& device : devices) {
    const bool cuda = device.id.kind == device_kind::cuda;
    table += fmt::format("{} {:<8} {}, {:.1f} GiB, {} {}{}\n", device.id == chosen ? '*' : ' ',
                         to_string(device.id), device.name,
                         static_cast<double>(device.memory_bytes) / (1024.0 * 1024.0 * 1024.0),
                         device.multiprocessors, cuda ? "multiprocessors" : "hardware threads",
                         cuda ? ", compute capability " + compute_capability(device) : "");
  }
  return table;
}

void run(const devices_options& options) {
  require_distinct_files(options.common, {}, {});
  std::vector<device_info> devices = list_devices();
  const device_id first = devices.front().id;
  if (options.common.device != "auto") {
    // Opening a device that does not exist throws an error with the reason.
    const device_id wanted = session(options.common, session::watch::nothing).info().id;
    std::erase_if(devices, [&](const device_info& device) { return device.id != wanted; });
  }
  if (options.common.trace) write_trace(*options.common.trace, chrome_trace(1));
  print(options.json ? as_json(devices, first) : as_table(devices, first));
}

}  // namespace

void add_devices_command(CLI::App& program) {
  const auto options = std::make_shared<devices_options>();
  CLI::App& command = add_command(program, "devices",
                                  "List the devices; * marks the default (auto)", options->common);
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
