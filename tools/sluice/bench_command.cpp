// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench.hpp"
#include "tools/sluice/command.hpp"
#include "tools/sluice/session.hpp"

#include <sluice/version.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <memory>
#include <string>
#include <thread>

namespace sluice::cli {

namespace {

struct bench_options {
  common_options common;
  bench_report (*measure)(session&) = bench_calls;
  std::size_t lanes = 1;
  bool json = false;
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

std::string json_text(const bench_report& report, session& current) {
  const auto info = current.info();
  nlohmann::ordered_json all = {
      {"version", version},
      {"machine",
       {{"processor", processor()}, {"hardware_threads", std::thread::hardware_concurrency()}}},
      {"device",
       {{"id", current.device_name()}, {"name", info.name}, {"memory_bytes", info.memory_bytes}}},
      {"lanes", current.device().service().lanes_per_actor()},
      {"library", report.library}};
  all.update(report.json);
  return all.dump(2) + '\n';
}

std::string table_text(const bench_report& report, session& current) {
  return fmt::format("sluice {} on {}: {}, {}; {} with {} threads; lanes of each actor: {}\n\n{}",
                     version, current.device_name(), current.info().name, report.library,
                     processor(), std::thread::hardware_concurrency(),
                     current.device().service().lanes_per_actor(), report.table);
}

void run(const bench_options& options) {
  require_distinct_files(options.common, {}, {});
  session current(options.common, session::watch::nothing, {.lanes_per_actor = options.lanes});
  const auto report = options.measure(current);
  current.finish();
  print(options.json ? json_text(report, current) : table_text(report, current));
}

}  // namespace

void add_bench_command(CLI::App& program) {
  const auto options = std::make_shared<bench_options>();
  CLI::App& command = add_command(program, "bench", "Measure requests to actors", options->common);
  command
      .add_option_function<std::string>(
          "WHAT",
          [options](const std::string& what) {
            if (what == "calls") {
              options->measure = bench_calls;
            } else if (what == "hostile") {
              options->measure = bench_hostile;
            } else if (what == "mel") {
              options->measure = bench_mel;
            } else if (what == "programs") {
              options->measure = bench_programs;
            } else if (what == "memory") {
              options->measure = bench_memory;
            } else if (what == "scaling") {
              options->measure = bench_scaling;
            } else if (what == "transfer") {
              options->measure = bench_transfer;
            } else if (what == "throughput") {
              options->measure = bench_throughput;
            } else {
              throw error(errc::invalid_argument,
                          fmt::format("WHAT: '{}' is not calls, hostile, mel, memory, programs, "
                                      "scaling, throughput or transfer",
                                      what));
            }
          },
          "calls (requests beside plain library calls), hostile (a client beside a hostile one), "
          "mel (the mel service), memory (allocations beside those of the driver), programs (runs "
          "beside plain calls of their steps), scaling (products on all lanes), throughput (many "
          "small products) or transfer (large transfers) [calls]")
      ->type_name("WHAT");
  command.add_option("--lanes", options->lanes, "Number of lanes of each actor")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options] { run(*options); });
}

}  // namespace sluice::cli
