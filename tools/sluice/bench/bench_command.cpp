// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/model.hpp"
#ifdef SLUICE_HAS_SERVICE
#include "tools/sluice/bench/service/service_command.hpp"
#endif
#include "tools/sluice/command.hpp"
#include "tools/sluice/option_values.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/version.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <array>
#include <fstream>

namespace sluice::cli {

namespace {

/// A suite of measurements.
struct bench_suite {
  const char* name;
  const char* description;
  void (*measure)(bench_run&);
  bool on_host = false;               ///< whether it runs on the host device alone
  std::vector<std::size_t> lanes{0};  ///< the numbers of lanes to measure with by default
};
const std::array suites{
    bench_suite{"overhead", "requests beside plain library calls", bench_overhead},
    bench_suite{"throughput", "many small products", bench_throughput},
    bench_suite{"latency", "a client beside a flood, and requests at half of the highest rate",
                bench_latency},
    bench_suite{"programs", "runs beside plain calls of their steps", bench_programs},
    bench_suite{"scaling", "products on 1, 2, 4 and 8 lanes", bench_scaling, false, {1, 2, 4, 8}},
    bench_suite{"transfer", "large transfers", bench_transfer},
    bench_suite{"host", "requests on the host device", bench_host, true},
    bench_suite{"operations", "large operations beside copies", bench_operations},
    bench_suite{"memory", "allocations beside those of the driver", bench_memory},
    bench_suite{"launch", "launches beside records of events", bench_launch},
    bench_suite{"mel", "the mel service", bench_mel},
#ifdef SLUICE_HAS_MODELS
    bench_suite{"model", "a model alone and with several clients", bench_model},
#endif
    bench_suite{"hostile", "a client beside a hostile one", bench_hostile}};

struct named_policy {
  const char* name;
  wait_policy policy;
};
constexpr std::array wait_policies{named_policy{"latency", wait_policy::latency},
                                   named_policy{"balanced", wait_policy::balanced},
                                   named_policy{"frugal", wait_policy::frugal}};

/// The element of `choices` with this name. @throws error `invalid_argument`, naming the option
template <class Choices>
const auto& choice(const char* option, const Choices& choices, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& element : choices) {
    if (name == element.name) return element;
    names.emplace_back(element.name);
  }
  throw error(errc::invalid_argument,
              fmt::format("{}: '{}' is not one of {}", option, name, fmt::join(names, ", ")));
}

struct bench_options {
  common_options common;
  const bench_suite* suite = &suites.front();
  device_service_options service{};  // 0 lanes: those of the suite
  std::string wait = "balanced";
  std::size_t rounds = 20;
  bool json = false;
  std::string chart{};
  model_bench model{};
};

/// The value of the first line of a file of Linux that begins with `key`; empty without one.
std::string value_of(const char* file, const char* key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const auto value = line.find_first_not_of(": \t", line.find(':'));
    return value == std::string::npos ? "" : line.substr(value);
  }
  return {};
}

std::string processor() {
  const auto name = value_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

std::string json_text(const bench_options& options, const bench_run& run) {
  const auto info = run.current.info();
  const auto most_lanes = run.service_of_device().lanes_per_actor();
  nlohmann::ordered_json report = {
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
      {"conditions",
       {{"threads", run.most_threads},
        {"rounds", {{"measured", run.measured_rounds}}},
        {"wait", options.wait},
        {"high_priority_lanes", options.service.high_priority_lanes},
        {"completion_threads", options.service.completion_threads}}}};
  report.update(run.report.json());
  return report.dump(2) + '\n';
}

/// The device, the library, the processor and the options.
std::string head_text(const bench_options& options, const bench_run& run) {
  const auto lanes =
      run.lanes.front() != 0
          ? fmt::format("{}", fmt::join(run.lanes, ", "))
          : fmt::format("up to {} on demand", run.service_of_device().lanes_per_actor());
  const auto completion_threads = options.service.completion_threads == 0
                                      ? std::string("automatic")
                                      : std::to_string(options.service.completion_threads);
  return fmt::format(
      "sluice {} on {}: {}, {}; {} with {} threads; lanes of each actor: {}; high-priority lanes: "
      "{}; completion threads: {}; wait: {}",
      version, run.current.device_name(), run.current.info().name, run.report.library(),
      processor(), std::thread::hardware_concurrency(), lanes, options.service.high_priority_lanes,
      completion_threads, options.wait);
}

/// The options with the device of the suite. @throws error `invalid_argument` if they name another
common_options with_device(const bench_options& options) {
  auto common = options.common;
  if (!options.suite->on_host) return common;
  if (common.device == "auto") common.device = "host";
  if (common.device.rfind("host", 0) != 0) {
    throw error(errc::invalid_argument, fmt::format("--device {}: bench {} runs on the host device",
                                                    common.device, options.suite->name));
  }
  return common;
}

/// Opens the model, if the suite has one. Returns the files that the suite reads.
std::vector<named_file> open_inputs([[maybe_unused]] const CLI::App& command,
                                    [[maybe_unused]] bench_options& options) {
#ifdef SLUICE_HAS_MODELS
  const bool is_model_suite = options.suite->measure == bench_model;
  require_model_options(command, is_model_suite);
  if (is_model_suite) return options.model.open();
#endif
  return {};
}

void run(const CLI::App& command, bench_options& options) {
  const auto inputs = open_inputs(command, options);
  std::vector<named_file> outputs{{"report", standard_output}};
  if (!options.chart.empty()) outputs.push_back({"--chart", options.chart});
  require_distinct_files(options.common, std::move(outputs), inputs);
  const auto waiting = choice("--wait", wait_policies, options.wait).policy;
  const auto lanes = options.service.lanes_per_actor != 0
                         ? std::vector{options.service.lanes_per_actor}
                         : options.suite->lanes;
  // A model may be as large as its user likes.
  const auto limits = inputs.empty() ? request_limits{} : session::without_limits().limits;
  const auto service = [&options = options.service, waiting, limits](std::size_t count) {
    return device_service_options{.lanes_per_actor = count,
                                  .high_priority_lanes = options.high_priority_lanes,
                                  .completion_threads = options.completion_threads,
                                  .limits = limits,
                                  .waiting = waiting};
  };
  session current(with_device(options), session::watch::nothing, service(lanes.front()));
  bench_report report;
  bench_run run{current, options.rounds, lanes, service, report, &options.model};
  options.suite->measure(run);
  current.finish();
  const auto head = head_text(options, run);
  print(options.json
            ? json_text(options, run)
            : fmt::format("{}\n\n{}\n  threads of the process: {}; rounds of all sections: {}\n",
                          head, report.text(), run.most_threads, run.measured_rounds));
  if (options.chart.empty()) return;
  auto chart = report.chart();
  chart.title = fmt::format("sluice bench {}: {}", options.suite->name, options.suite->description);
  chart.lines.insert(chart.lines.begin(), head);
  io::draw_bar_chart(chart).save(options.chart);
}

}  // namespace

std::size_t threads_of_process() {
  const auto count = value_of("/proc/self/status", "Threads");
  return count.empty() ? 0 : std::stoul(count);
}

void add_bench_command(CLI::App& program) {
  const auto options = std::make_shared<bench_options>();
  CLI::App& command = add_command(program, "bench", "Measure requests to actors", options->common);
  command.get_option("--quiet")->description(
      "Print no summary and no progress; the report is still printed");
  std::string descriptions;
  for (const auto& suite : suites) {
    descriptions +=
        fmt::format("{}{} ({})", descriptions.empty() ? "" : ", ", suite.name, suite.description);
  }
  command
      .add_option_function<std::string>(
          "WHAT",
          [options](const std::string& name) { options->suite = &choice("WHAT", suites, name); },
          fmt::format("{} [{}]", descriptions, suites.front().name))
      ->type_name("WHAT");
  const auto add_count = [&](const char* name, std::size_t& count, std::int64_t smallest,
                             std::int64_t largest, const std::string& description) {
    const auto parse = [=, &count](const std::string& text) {
      count = static_cast<std::size_t>(parse_integer(name, text, smallest, largest));
    };
    command.add_option_function<std::string>(name, parse, description)->type_name("N");
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
      .add_option("--wait", options->wait,
                  "How threads wait: latency, balanced or frugal [balanced]")
      ->type_name("POLICY");
  command.add_flag("--json", options->json, "Print JSON");
  add_output(command, "--chart", options->chart,
             "Also draw a chart of the times and of how many times as fast each row is")
      ->type_name("PNG");
#ifdef SLUICE_HAS_MODELS
  add_model_options(command, options->model);
#endif
#ifdef SLUICE_HAS_SERVICE
  add_bench_service_command(command);
#endif
  // A command below this one has done its work already.
  command.callback([options, &command] {
    if (command.get_subcommands().empty()) run(command, *options);
  });
}

}  // namespace sluice::cli
