// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <set>
#include <string>
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
    EXPECT_GT(all.at("conditions").at("processors").get<int>(), 0);
    EXPECT_FALSE(all.at("conditions").contains("sm_clock"));
    for (const char* const path : paths) {
      EXPECT_GT(all.at(nlohmann::json::json_pointer(path)).get<double>(), 0) << path;
    }
    return all;
  }
};

TEST_F(bench_command, compares_requests_with_library_calls) {
  const auto all = figures({"--wait", "latency"},
                           {"/one_at_a_time/0/us/median", "/one_at_a_time/2/time_ratio/median",
                            "/in_a_row/2/time_ratio/median", "/in_a_row/4/ratio/p95",
                            "/sgemm_256/1/ratio/median", "/sgemm_1024/1/ratio/median"});
  EXPECT_FALSE(all.at("library").get<std::string>().empty());
}

TEST_F(bench_command, measures_latencies) {
  (void)figures({"latency"}, {"/sgemm_64/alone/p99_us", "/sgemm_64/beside_a_flood/median_us",
                              "/sgemm_64/p99_ratio_beside_a_flood", "/sgemm_64/capacity_per_second",
                              "/sgemm_64/at_half_of_the_capacity/p99_us"});
}

TEST_F(bench_command, measures_throughput) {
  (void)figures({"throughput"}, {"/sgemm_64/1/mean_batch", "/sgemm_64/2/ratio/median",
                                 "/sgemm_16_shapes/1/ratio/median", "/rfft_1024/1/mean_batch",
                                 "/conditions/rounds/measured"});
}

TEST_F(bench_command, measures_the_rest) {
  (void)figures({"scaling"}, {"/scaling/0/lanes", "/scaling/0/sgemm_64/1/ratio/median",
                              "/scaling/3/lanes", "/scaling/3/sgemm_512/1/ratio/median"});
  (void)figures({"host", "--lanes", "2"},
                {"/threads/of_loop", "/sgemm_256/1/ratio/median", "/mel/1/ratio/median"});
  const auto pinned = figures({"memory", "--pin"}, {"/allocations/1/ratio/median"});
  EXPECT_TRUE(pinned.at("conditions").at("pinned").get<bool>());
  (void)figures({"transfer"}, {"/transfers/1/ratio/median"});
}

TEST_F(bench_command, measures_a_client_beside_a_hostile_one) {
  const auto all = figures({"hostile"}, {"/sgemm_64/alone/median_us", "/sgemm_64/alone/p99_us",
                                         "/sgemm_64/beside/median_us", "/sgemm_64/beside/p99_us",
                                         "/sgemm_64/ratio/median", "/sgemm_64/ratio/p99",
                                         "/hostile/replies_per_second"});
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
  (void)figures({"mel"}, {"/mel/request/median_us", "/mel/request/p99_us"});
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
  const auto outcome = run({"bench", "mel", "--device", "host", "--rounds", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const char* const word :
       {"host:0", "median", "p99", "mel spectrogram", "threads of the process"}) {
    EXPECT_NE(outcome.output.find(word), std::string::npos) << outcome.output;
  }
}

TEST_F(bench_command, refuses_other_measurements) {
  expect_refused({"WHAT", "friendly"}, {"bench", "friendly", "--device", "host"});
  expect_refused({"--device", "cuda"}, {"bench", "host", "--device", "cuda"});
  expect_refused({"--rounds"}, {"bench", "--rounds", "0", "--device", "host"});
  expect_refused({"--wait"}, {"bench", "--wait", "patient", "--device", "host"});
}

}  // namespace
}  // namespace sluice::test
