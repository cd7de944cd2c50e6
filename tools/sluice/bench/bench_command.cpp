// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/chart.hpp"
#include "tools/sluice/bench/processors.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/version.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::cli {

namespace {

/// What `sluice bench` can measure.
struct bench_mode {
  const char* name;
  const char* what;
  bench_report (*measure)(session&, const bench_settings&);
  bool on_host = false;               ///< whether it runs on the host device alone
  std::vector<std::size_t> lanes{0};  ///< the numbers of lanes to measure with by default
};
const std::array modes{
    bench_mode{"overhead", "requests beside plain library calls", bench_overhead},
    bench_mode{"throughput", "many small products", bench_throughput},
    bench_mode{"latency", "a client beside a flood, and requests at half of the highest rate",
               bench_latency},
    bench_mode{"programs", "runs beside plain calls of their steps", bench_programs},
    bench_mode{"scaling", "products on 1, 2, 4 and 8 lanes", bench_scaling, false, {1, 2, 4, 8}},
    bench_mode{"transfer", "large transfers", bench_transfer},
    bench_mode{"host", "requests on the host device", bench_host, true},
    bench_mode{"memory", "allocations beside those of the driver", bench_memory},
    bench_mode{"mel", "the mel service", bench_mel},
    bench_mode{"hostile", "a client beside a hostile one", bench_hostile}};

/// "overhead (requests ...), throughput (...) or hostile (...)"; without `with_what` only the
/// names.
std::string list_of_modes(bool with_what) {
  std::string text;
  for (const auto& mode : modes) {
    if (&mode != &modes.front()) text += &mode == &modes.back() ? " or " : ", ";
    text += mode.name;
    if (with_what) text += fmt::format(" ({})", mode.what);
  }
  return text;
}

const std::map<std::string, wait_policy> wait_policies{{"latency", wait_policy::latency},
                                                       {"balanced", wait_policy::balanced},
                                                       {"frugal", wait_policy::frugal}};

struct bench_options {
  common_options common;
  const bench_mode* mode = &modes.front();
  std::optional<std::size_t> lanes;
  std::size_t high_priority_lanes = device_service_options{}.high_priority_lanes;
  std::size_t completion_threads = 0;
  wait_policy waiting = wait_policy::balanced;
  bench_settings settings;
  bool pins_clients = false;
  bool json = false;
  std::string chart{};
};

/// The name of the processor, from Linux.
std::string processor() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown processor";
}

std::string name_of(wait_policy waiting) {
  for (const auto& [name, policy] : wait_policies) {
    if (policy == waiting) return name;
  }
  return {};
}

std::size_t most_lanes_of(session& current) {
  return current.device().service().lanes_per_actor();
}

std::string json_text(const bench_report& report, const bench_options& options,
                      const bench_settings& settings, session& current) {
  const auto info = current.info();
  auto conditions = settings.conditions->json();
  conditions["wait"] = name_of(options.waiting);
  conditions["high_priority_lanes"] = options.high_priority_lanes;
  conditions["completion_threads"] = options.completion_threads;
  nlohmann::ordered_json all = {
      {"version", version},
      {"machine",
       {{"processor", processor()}, {"hardware_threads", std::thread::hardware_concurrency()}}},
      {"device",
       {{"id", current.device_name()}, {"name", info.name}, {"memory_bytes", info.memory_bytes}}},
      {"lanes", settings.lanes.size() == 1 ? nlohmann::ordered_json(settings.lanes.front())
                                           : nlohmann::ordered_json(settings.lanes)},
      {"lanes_on_demand", settings.lanes.front() == 0 ? most_lanes_of(current) : 0},
      {"library", report.library},
      {"conditions", std::move(conditions)}};
  all.update(report.json);
  return all.dump(2) + '\n';
}

/// The lanes of each actor: "2", or "up to 4 on demand".
std::string lanes_text(const bench_settings& settings, session& current) {
  if (settings.lanes.front() != 0) return fmt::format("{}", fmt::join(settings.lanes, ", "));
  return fmt::format("up to {} on demand", most_lanes_of(current));
}

/// The options of the measurement that differ from the default: "; high-priority lanes: 1".
std::string further_options(const bench_options& options) {
  std::string text;
  if (options.high_priority_lanes != device_service_options{}.high_priority_lanes) {
    text += fmt::format("; high-priority lanes: {}", options.high_priority_lanes);
  }
  if (options.completion_threads != 0) {
    text += fmt::format("; completion threads: {}", options.completion_threads);
  }
  if (options.waiting != wait_policy::balanced) {
    text += "; wait: " + name_of(options.waiting);
  }
  return text;
}

/// What is measured, and where.
std::string head_text(const bench_report& report, const bench_options& options,
                      const bench_settings& settings, session& current) {
  return fmt::format("sluice {} on {}: {}, {}; {} with {} threads; lanes of each actor: {}{}",
                     version, current.device_name(), current.info().name, report.library,
                     processor(), std::thread::hardware_concurrency(),
                     lanes_text(settings, current), further_options(options));
}

/// The options with the device that the mode measures. @throws error `invalid_argument` if that is
/// not the one which they name
common_options with_device(const bench_options& options) {
  auto common = options.common;
  if (!options.mode->on_host) return common;
  if (common.device == "auto") common.device = "host";
  if (common.device.rfind("host", 0) != 0) {
    throw error(errc::invalid_argument, fmt::format("--device {}: bench {} runs on the host device",
                                                    common.device, options.mode->name));
  }
  return common;
}

void run(const bench_options& options) {
  std::vector<named_file> outputs{{"report", standard_output}};
  if (!options.chart.empty()) outputs.push_back({"--chart", options.chart});
  require_distinct_files(options.common, std::move(outputs), {});
  if (options.pins_clients) pinned_client::enable();
  auto settings = options.settings;
  settings.lanes = options.lanes ? std::vector{*options.lanes} : options.mode->lanes;
  settings.service = [&options](std::size_t lanes) {
    return device_service_options{.lanes_per_actor = lanes,
                                  .high_priority_lanes = options.high_priority_lanes,
                                  .completion_threads = options.completion_threads,
                                  .waiting = options.waiting};
  };
  session current(with_device(options), session::watch::nothing,
                  settings.service(settings.lanes.front()));
  bench_conditions conditions(current.device().service().device().id());
  settings.conditions = &conditions;
  const auto report = options.mode->measure(current, settings);
  current.finish();
  const auto head = head_text(report, options, settings, current);
  print(options.json ? json_text(report, options, settings, current)
                     : fmt::format("{}\n\n{}\n{}", head, report.table, conditions.text()));
  if (options.chart.empty()) return;
  auto chart = chart_of(report.json);
  chart.title = fmt::format("sluice bench {}: {}", options.mode->name, options.mode->what);
  chart.lines.insert(chart.lines.begin(), head);
  io::draw_bar_chart(chart).save(options.chart);
}

}  // namespace

void add_bench_command(CLI::App& program) {
  const auto options = std::make_shared<bench_options>();
  CLI::App& command = add_command(program, "bench", "Measure requests to actors", options->common);
  command.get_option("--quiet")->description(
      "Print no summary and no progress; the report is still printed");
  command
      .add_option_function<std::string>(
          "WHAT",
          [options](const std::string& what) {
            for (const auto& mode : modes) {
              if (what == mode.name) return void(options->mode = &mode);
            }
            throw error(errc::invalid_argument,
                        fmt::format("WHAT: '{}' is not {}", what, list_of_modes(false)));
          },
          list_of_modes(true) + fmt::format(" [{}]", modes.front().name))
      ->type_name("WHAT");
  const auto add_count = [&](const char* name, std::int64_t smallest, std::int64_t largest,
                             const std::string& what, const auto& set) {
    command
        .add_option_function<std::string>(
            name,
            [=](const std::string& text) { set(parse_integer(name, text, smallest, largest)); },
            what)
        ->type_name("N");
  };
  add_count("--lanes", 1, 64, "Number of lanes of each actor [on demand; scaling: 1, 2, 4, 8]",
            [options](std::int64_t n) { options->lanes = static_cast<std::size_t>(n); });
  add_count(
      "--high-priority-lanes", 0, 64, "Number of further lanes for requests of high priority [1]",
      [options](std::int64_t n) { options->high_priority_lanes = static_cast<std::size_t>(n); });
  add_count(
      "--completion-threads", 0, static_cast<std::int64_t>(completion_engine::most_threads),
      "Number of threads that complete launches; 0: 2 if there may be four lanes, else 1 [0]",
      [options](std::int64_t n) { options->completion_threads = static_cast<std::size_t>(n); });
  add_count("--rounds", 1, 1000, "How often everything is measured [20]",
            [options](std::int64_t n) { options->settings.rounds = static_cast<int>(n); });
  command
      .add_option_function<std::string>(
          "--wait",
          [options](const std::string& text) {
            const auto found = wait_policies.find(text);
            if (found == wait_policies.end()) {
              throw error(errc::invalid_argument,
                          fmt::format("--wait: '{}' is not latency, balanced or frugal", text));
            }
            options->waiting = found->second;
          },
          "How threads wait: latency, balanced or frugal [balanced]")
      ->type_name("POLICY");
  command.add_flag("--pin", options->pins_clients,
                   "Pin each client's thread to a processor, from the last one downwards");
  command.add_flag("--json", options->json, "Print JSON");
  add_output(command, "--chart", options->chart,
             "Also draw a chart of the times and of how many times as fast each row is")
      ->type_name("PNG");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
