// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
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
  void (*measure)(bench_run&);
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
    bench_mode{"launch", "launches beside records of events", bench_launch},
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
  device_service_options service{};  // 0 lanes: those of the mode
  std::size_t rounds = 20;
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

std::string json_text(const bench_options& options, const bench_run& run) {
  const auto info = run.current.info();
  auto conditions = run.conditions.json();
  conditions["wait"] = name_of(options.service.waiting);
  conditions["high_priority_lanes"] = options.service.high_priority_lanes;
  conditions["completion_threads"] = options.service.completion_threads;
  const auto most_lanes = run.service_of_device().lanes_per_actor();
  nlohmann::ordered_json all = {
      {"version", version},
      {"machine",
       {{"processor", processor()}, {"hardware_threads", std::thread::hardware_concurrency()}}},
      {"device",
       {{"id", run.current.device_name()},
        {"name", info.name},
        {"memory_bytes", info.memory_bytes}}},
      {"lanes", run.lanes.size() == 1 ? nlohmann::ordered_json(run.lanes.front())
                                      : nlohmann::ordered_json(run.lanes)},
      {"lanes_on_demand", run.lanes.front() == 0 ? most_lanes : 0},
      {"library", run.report.library()},
      {"conditions", std::move(conditions)}};
  all.update(run.report.json());
  return all.dump(2) + '\n';
}

/// What is measured, and where; and the options that differ from the default.
std::string head_text(const bench_options& options, const bench_run& run) {
  const auto lanes =
      run.lanes.front() != 0
          ? fmt::format("{}", fmt::join(run.lanes, ", "))
          : fmt::format("up to {} on demand", run.service_of_device().lanes_per_actor());
  auto text =
      fmt::format("sluice {} on {}: {}, {}; {} with {} threads; lanes of each actor: {}", version,
                  run.current.device_name(), run.current.info().name, run.report.library(),
                  processor(), std::thread::hardware_concurrency(), lanes);
  if (options.service.high_priority_lanes != device_service_options{}.high_priority_lanes) {
    text += fmt::format("; high-priority lanes: {}", options.service.high_priority_lanes);
  }
  if (options.service.completion_threads != 0) {
    text += fmt::format("; completion threads: {}", options.service.completion_threads);
  }
  if (options.service.waiting != wait_policy::balanced)
    text += "; wait: " + name_of(options.service.waiting);
  return text;
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
  const auto lanes = options.service.lanes_per_actor != 0
                         ? std::vector{options.service.lanes_per_actor}
                         : options.mode->lanes;
  const auto service = [&usual = options.service](std::size_t count) {
    return device_service_options{.lanes_per_actor = count,
                                  .high_priority_lanes = usual.high_priority_lanes,
                                  .completion_threads = usual.completion_threads,
                                  .waiting = usual.waiting};
  };
  session current(with_device(options), session::watch::nothing, service(lanes.front()));
  bench_conditions conditions(current.device().service().device().id());
  bench_report report;
  bench_run run{current, options.rounds, lanes, service, conditions, report};
  options.mode->measure(run);
  current.finish();
  const auto head = head_text(options, run);
  print(options.json ? json_text(options, run)
                     : fmt::format("{}\n\n{}\n{}", head, report.text(), conditions.text()));
  if (options.chart.empty()) return;
  auto chart = report.chart();
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
  const auto add_count = [&](const char* name, std::size_t& count, std::int64_t smallest,
                             std::int64_t largest, const std::string& what) {
    const auto parse = [=, &count](const std::string& text) {
      count = static_cast<std::size_t>(parse_integer(name, text, smallest, largest));
    };
    command.add_option_function<std::string>(name, parse, what)->type_name("N");
  };
  auto& service = options->service;
  add_count("--lanes", service.lanes_per_actor, 1, 64,
            "Number of lanes of each actor [on demand; scaling: 1, 2, 4, 8]");
  add_count("--high-priority-lanes", service.high_priority_lanes, 0, 64,
            "Number of further lanes for requests of high priority [1]");
  add_count(
      "--completion-threads", service.completion_threads, 0, completion_engine::most_threads,
      "Number of threads that complete launches; 0: 2 if there may be four lanes, else 1 [0]");
  add_count("--rounds", options->rounds, 1, 1000, "How often everything is measured [20]");
  command
      .add_option_function<std::string>(
          "--wait",
          [options](const std::string& text) {
            const auto found = wait_policies.find(text);
            if (found == wait_policies.end()) {
              throw error(errc::invalid_argument,
                          fmt::format("--wait: '{}' is not latency, balanced or frugal", text));
            }
            options->service.waiting = found->second;
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
