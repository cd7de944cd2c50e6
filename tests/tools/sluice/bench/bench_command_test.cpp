// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

class bench_command : public program_test {
 protected:
  /// The figures of `bench` on the host device. They must be positive under `paths`.
  nlohmann::json figures(std::vector<std::string> arguments,
                         std::initializer_list<const char*> paths) const {
    arguments.insert(arguments.begin(), "bench");
    arguments.insert(arguments.end(), {"--json", "--device", "host", "--rounds", "1"});
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    auto all = nlohmann::json::parse(outcome.output);
    EXPECT_EQ(all.at("device").at("id"), "host:0");
    EXPECT_GT(all.at("conditions").at("threads").get<int>(), 1);
    EXPECT_GT(all.at("conditions").at("rounds").at("measured").get<int>(), 0);
    expect_different_names(all);
    expect_values(all);
    for (const char* const path : paths) {
      EXPECT_GT(all.at(nlohmann::json::json_pointer(path)).get<double>(), 0) << path;
    }
    return all;
  }

  /// What `bench` prints without `--json`.
  [[nodiscard]] std::string table(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "bench");
    arguments.insert(arguments.end(), {"--device", "host", "--rounds", "1"});
    const auto outcome = run(arguments);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.output;
  }
  static void expect_words(const std::string& text, std::initializer_list<const char*> words) {
    for (const char* const word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << text << word;
    }
  }
  /// Expects a report of so many rounds of all sections.
  static void expect_rounds(const nlohmann::json& all, int count) {
    EXPECT_EQ(all.at("conditions").at("rounds"), nlohmann::json::object({{"measured", count}}));
  }

 private:
  /// Expects that no part has null: numbers as the keys of an object would make a sparse array.
  static void expect_values(const nlohmann::json& part) {
    for (const auto& [key, value] : part.items()) {
      EXPECT_FALSE(value.is_null()) << key;
      if (value.is_structured()) expect_values(value);
    }
  }
  /// Expects that no two rows of an array have the same name, and that each reference is a row.
  static void expect_different_names(const nlohmann::json& part) {
    std::set<std::string> names;
    for (const auto& row : part) {
      if (part.is_array() && row.is_object() && row.contains("name")) {
        const auto name = row.at("name").get<std::string>();
        EXPECT_TRUE(names.insert(name).second) << name;
        EXPECT_FALSE(name.starts_with(' ')) << name;
      }
      if (row.is_structured()) expect_different_names(row);
    }
    for (const auto& row : part) {
      if (part.is_array() && row.is_object() && row.contains("reference")) {
        EXPECT_TRUE(names.contains(row.at("reference").get<std::string>())) << row;
      }
    }
  }
};

TEST_F(bench_command, compares_requests_with_library_calls) {
  const auto all = figures({"--wait", "latency"},
                           {"/one_at_a_time/0/us/median", "/one_at_a_time/2/time_ratio/median",
                            "/in_a_row/2/time_ratio/median", "/in_a_row/4/ratio/p95",
                            "/in_a_row/4/beside/0/time_ratio/median", "/sgemm_256/1/ratio/median",
                            "/sgemm_1024/1/ratio/median"});
  EXPECT_FALSE(all.at("library").get<std::string>().empty());
  EXPECT_EQ(all.at("conditions").at("wait"), "latency");
  EXPECT_EQ(all.at("conditions").at("high_priority_lanes"), 1);
  EXPECT_EQ(all.at("lanes"), 0);
  EXPECT_GE(all.at("lanes_on_demand"), 1);
  EXPECT_EQ(all.at("conditions").at("completion_threads"), 0);
  expect_rounds(all, 4);  // one of each of four sections
}

TEST_F(bench_command, measures_latencies) {
  const auto all =
      figures({"latency", "--high-priority-lanes", "2", "--completion-threads", "2"},
              {"/sgemm_64/alone/p99_us", "/sgemm_64/beside_a_flood/median_us",
               "/sgemm_64/p99_ratio_beside_a_flood", "/sgemm_64/capacity_per_second",
               "/sgemm_64/sent_per_second", "/sgemm_64/at_half_of_the_capacity/p99_us"});
  EXPECT_EQ(all.at("/sgemm_64/sent_per_second"_json_pointer).get<double>(),
            all.at("/sgemm_64/capacity_per_second"_json_pointer).get<double>() / 2);
  EXPECT_EQ(all.at("conditions").at("wait"), "balanced");
  EXPECT_EQ(all.at("conditions").at("high_priority_lanes"), 2);
  EXPECT_EQ(all.at("conditions").at("completion_threads"), 2);
  expect_rounds(all, 1);
}

TEST_F(bench_command, measures_throughput) {
  (void)figures({"throughput"}, {"/sgemm_64/1/mean_batch", "/sgemm_64/2/ratio/median",
                                 "/sgemm_16_shapes/1/ratio/median", "/rfft_1024/1/mean_batch",
                                 "/conditions/rounds/measured"});
}

TEST_F(bench_command, says_how_many_launches_its_trace_lacks) {
  const auto outcome =
      run({"bench", "latency", "--device", "host", "--rounds", "1", "--trace", "t.json"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  const auto trace = nlohmann::json::parse(read_text(folder() / "t.json"));
  const auto missing = trace.at("otherData").at("left_out").get<std::uint64_t>();
  EXPECT_EQ(outcome.errors, missing == 0 ? ""
                                         : "sluice: --trace: " + std::to_string(missing) +
                                               " launches are not in the file, which has the "
                                               "first 65536\n");
}

TEST_F(bench_command, measures_the_rest) {
  (void)figures({"scaling"}, {"/scaling/0/lanes", "/scaling/0/sgemm_64/1/ratio/median",
                              "/scaling/3/lanes", "/scaling/3/sgemm_512/1/ratio/median"});
  (void)figures({"host", "--lanes", "2"},
                {"/threads/of_loop", "/sgemm_256/1/ratio/median", "/mel/1/ratio/median"});
  (void)figures({"memory"}, {"/allocations/1/ratio/median", "/resources/2/ratio/median"});
  (void)figures({"transfer"}, {"/transfers/1/ratio/median"});
  (void)figures({"operations"},
                {"/gemm/512_f32/1/ratio/median", "/convolutions/1/ratio/median",
                 "/attention/1/ratio/median", "/rows/softmax/1/ratio/median",
                 "/movement/gather/1/ratio/median", "/constants/conv2d_128/1/time_ratio/median",
                 "/steps/1/ratio/median", "/images/0/us/median"});
  (void)figures({"launch"}, {"/idle_stream/2/time_ratio/median", "/idle_stream/9/us/median",
                             "/busy_stream/2/time_ratio/median", "/threads/3/us/median"});
}

TEST_F(bench_command, measures_a_client_beside_a_hostile_one) {
  const auto all = figures({"hostile"}, {"/sgemm_64/alone/median_us", "/sgemm_64/alone/p99_us",
                                         "/sgemm_64/beside/median_us", "/sgemm_64/beside/p99_us",
                                         "/sgemm_64/ratio/median", "/sgemm_64/ratio/p99",
                                         "/hostile/replies_per_second"});
  expect_rounds(all, 1);
  // Each kind of request is answered as it should be, and never otherwise.
  const auto& replies = all.at("hostile").at("replies");
  const auto expect = [&](const std::string& kind, const std::set<std::string>& expected) {
    std::set<std::string> codes;
    for (const auto& [code, count] : replies.at(kind).items()) codes.insert(code);
    EXPECT_EQ(codes, expected) << kind;
  };
  EXPECT_EQ(replies.size(), 4U);
  expect("refused", {"invalid_argument"});
  expect("failing", {"library_failure", "out_of_memory"});
  expect("unplannable", {"unsupported"});
  expect("large", {"ok"});
}

TEST_F(bench_command, measures_the_mel_service) {
  const auto all = figures({"mel"}, {"/mel/request/median_us", "/mel/request/p99_us"});
  expect_rounds(all, 1);
}

TEST_F(bench_command, compares_programs_with_plain_calls) {
  (void)figures(
      {"programs"},
      {"/mel/alone/0/us/median", "/mel/alone/1/time_ratio/median", "/mel/alone/2/time_ratio/median",
       "/mel/pipelined/1/time_ratio/median", "/small/alone/1/time_ratio/median",
       "/small/pipelined/1/time_ratio/p95", "/many_mel/5/beside/0/ratio/median",
       "/many_mel/6/ratio/median", "/many_mel/7/ratio/median"});
}

TEST_F(bench_command, prints_tables) {
  expect_words(table({"mel"}), {"host:0", "median", "p99", "mel spectrogram",
                                "threads of the process", "rounds of all sections: 1"});
  expect_words(table({"latency"}), {"sent at", "half of the highest", "highest rate of 4 clients"});
}

TEST_F(bench_command, names_its_options) {
  expect_words(
      table({"mel"}),
      {"on demand; high-priority lanes: 1; completion threads: automatic; wait: balanced\n"});
  expect_words(
      table({"mel", "--wait", "frugal", "--high-priority-lanes", "2", "--completion-threads", "3"}),
      {"on demand; high-priority lanes: 2; completion threads: 3; wait: "
       "frugal\n"});
}

TEST_F(bench_command, prints_the_report_even_if_quiet) {
  expect_words(table({"mel", "--quiet"}), {"mel spectrogram"});
  expect_words(run({"bench", "--help"}).output, {"the report is still printed"});
}

TEST_F(bench_command, draws_a_chart_of_its_rows) {
  const auto expect_chart = [&](const std::string& suite,
                                std::initializer_list<const char*> words) {
    expect_words(table({suite, "--chart", "chart.png"}), words);
    EXPECT_EQ(read_text(folder() / "chart.png").substr(0, 4), "\x89PNG");
    std::filesystem::remove(folder() / "chart.png");
  };
  expect_chart("mel", {"median"});
  expect_chart("memory", {"us each", "times as long", "rounds of all sections: 2",
                          "ratio to calls of the driver, threads: 4"});
  expect_words(run({"bench", "--help"}).output, {"--chart PNG"});
}

TEST_F(bench_command, prints_the_report_before_it_writes_the_chart) {
  const auto outcome =
      run({"bench", "mel", "--device", "host", "--rounds", "1", "--chart", "/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  expect_words(outcome.output, {"mel spectrogram", "p99"});
  expect_words(outcome.errors, {"/dev/full"});
}

TEST_F(bench_command, refuses_a_chart_that_it_cannot_write) {
  expect_refused({"--chart", "nowhere"},
                 {"bench", "mel", "--device", "host", "--chart", "nowhere/x.png"});
  expect_refused({"--chart", "report"}, {"bench", "mel", "--device", "host", "--chart", "-"});
  expect_refused({"--trace", "--chart"},
                 {"bench", "mel", "--device", "host", "--chart", "x", "--trace", "x"});
}

TEST_F(bench_command, refuses_a_trace_in_its_report) {
  for (const char* const trace : {"-", "/dev/stdout"}) {
    expect_refused({"--trace", "report"}, {"bench", "mel", "--device", "host", "--trace", trace});
    expect_refused({"--trace", "report"},
                   {"bench", "mel", "--device", "host", "--json", "--trace", trace});
  }
  expect_error(2, {"--trace", "already used by report"},
               {"bench", "mel", "--device", "host", "--trace", "-"}, [] {
                 int ends[2];
                 if (::pipe(ends) != 0) ::_exit(126);
                 ::dup2(ends[1], STDOUT_FILENO);
               });
}

TEST_F(bench_command, refuses_other_measurements) {
  expect_refused({"WHAT", "friendly"}, {"bench", "friendly", "--device", "host"});
  expect_refused({"--device", "cuda"}, {"bench", "host", "--device", "cuda"});
  expect_refused({"--rounds"}, {"bench", "--rounds", "0", "--device", "host"});
  expect_refused({"--wait"}, {"bench", "--wait", "patient", "--device", "host"});
}

}  // namespace
}  // namespace sluice::test
