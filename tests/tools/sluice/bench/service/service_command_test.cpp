// SPDX-License-Identifier: Apache-2.0
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/bench/service/scripted_server.hpp"
#include "tests/tools/sluice/program.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using nlohmann::json;

/// The model m, which has the inputs x (any batch, 3) and k (1), and one output of 8 bytes.
std::optional<std::string> serve(const scripted_server::request& request) {
  if (request.head.starts_with("GET /v2/models/m ")) {
    return http_reply_text(200, json{{"inputs",
                                      {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 3}}},
                                       {{"name", "k"}, {"datatype", "INT64"}, {"shape", {1}}}}}}
                                    .dump());
  }
  if (request.head.starts_with("POST /v2/models/m/infer "))
    return http_reply_text(200, "{}12345678", 2);
  return http_reply_text(404, R"({"error": "no such model: it"})");
}

bool is_inference(const scripted_server::request& request) {
  return request.head.starts_with("POST");
}

class bench_service_command : public program_test {
 protected:
  static std::vector<std::string> arguments(const scripted_server& server,
                                            const std::vector<std::string>& further = {}) {
    std::vector<std::string> all{"bench", "service",  "--http", server.address(), "--model",
                                 "m",     "--rounds", "2",      "--seconds",      "0.02"};
    all.insert(all.end(), further.begin(), further.end());
    return all;
  }
  [[nodiscard]] json report(const scripted_server& server,
                            std::vector<std::string> further = {}) const {
    further.emplace_back("--json");
    const auto outcome = run(arguments(server, further));
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return json::parse(outcome.output);
  }
  static void expect_figures(const json& row) {
    EXPECT_GT(row.at("per_second").at("median").get<double>(), 0) << row;
    EXPECT_GT(row.at("megabytes_per_second").get<double>(), 0) << row;
    double last = 0;
    for (const auto* const key : {"median_us", "p90_us", "p99_us", "p999_us"}) {
      const auto latency = row.at("latency").at(key).get<double>();
      EXPECT_GE(latency, last) << key << row;
      last = latency;
    }
    EXPECT_GT(last, 0);
  }
};

TEST_F(bench_service_command, measures_requests_with_random_inputs) {
  auto generator = make_generator();
  const auto batch = integer(generator, 1, 1000);
  const auto clients = integer(generator, 1, 9);
  const auto data = static_cast<std::uint64_t>(batch) * 12 + 8;
  const json expected{{"inputs",
                       {{{"name", "x"},
                         {"datatype", "FP32"},
                         {"shape", {batch, 3}},
                         {"parameters", {{"binary_data_size", batch * 12}}}},
                        {{"name", "k"},
                         {"datatype", "INT64"},
                         {"shape", {1}},
                         {"parameters", {{"binary_data_size", 8}}}}}},
                      {"parameters", {{"binary_data_output", true}}}};
  std::uint64_t requests = 0;
  std::uint64_t wrong = 0;
  {
    const scripted_server server([&](const scripted_server::request& request) {
      if (is_inference(request)) {
        ++requests;
        const auto header =
            json::parse(request.body.substr(0, request.body.size() - data), nullptr, false);
        if (header != expected) ++wrong;
      }
      return serve(request);
    });
    const auto all = report(server, {"--batch", std::to_string(batch), "--clients",
                                     std::to_string(clients), "--threads", "2"});
    const auto& found = all.at("service");
    EXPECT_EQ(found.at("input_bytes"), data);
    EXPECT_EQ(found.at("output_bytes"), 8);
    EXPECT_EQ(found.at("clients"), clients);
    ASSERT_EQ(found.at("rates").size(), 1U);
    expect_figures(found.at("rates").at(0));
    EXPECT_FALSE(found.contains("us_over_echo"));
  }
  // At least one of each client in each of two rounds.
  EXPECT_GT(requests, 2 * static_cast<std::uint64_t>(clients));
  EXPECT_EQ(wrong, 0U);
}

// Each type as the bytes that the service gets.
TEST_F(bench_service_command, fills_inputs_with_a_value) {
  auto generator = make_generator();
  const auto extent = integer(generator, 1, 9);
  const auto expect = [&](const std::string& type, const std::string& value,
                          const std::string& element) {
    std::uint64_t requests = 0;
    std::uint64_t wrong = 0;
    {
      const scripted_server server([&](const scripted_server::request& request) {
        if (!is_inference(request)) {
          return std::optional(http_reply_text(
              200,
              json{{"inputs", {{{"name", "a=b"}, {"datatype", type}, {"shape", {-1}}}}}}.dump()));
        }
        ++requests;
        std::string data;
        for (int i = 0; i < extent; ++i) data += element;
        if (!request.body.ends_with("}" + data)) ++wrong;
        return std::optional(http_reply_text(200, "{}", 2));
      });
      const auto named = run(arguments(server, {"--batch", std::to_string(extent), "--value",
                                                "a=b=" + value, "--clients", "2"}));
      EXPECT_EQ(named.status, 0) << named.errors;
      EXPECT_EQ(
          run(arguments(server, {"--shape", std::to_string(extent), "--value", value})).status, 0);
    }
    EXPECT_GT(requests, 0U);
    EXPECT_EQ(wrong, 0U) << type << value;
  };
  expect("INT64", "16000", std::string("\x80\x3e\0\0\0\0\0\0", 8));
  expect("INT8", "-2", "\xfe");
  expect("UINT64", "18446744073709551615", std::string(8, '\xff'));
  expect("BOOL", "1", "\x01");
  expect("FP16", "-1.5", std::string("\0\xbe", 2));
  expect("BF16", "1", "\x80\x3f");
  expect("FP32", "0.5", std::string("\0\0\0\x3f", 4));
  expect("FP64", "-2", std::string("\0\0\0\0\0\0\0\xc0", 8));
}

TEST_F(bench_service_command, refuses_values_that_a_type_has_not) {
  std::string type;
  const scripted_server server([&](const scripted_server::request&) {
    return http_reply_text(
        200, json{{"inputs", {{{"name", "x"}, {"datatype", type}, {"shape", {1}}}}}}.dump());
  });
  const auto refused = [&](const std::string& of, const std::string& value,
                           const std::string& word) {
    type = of;
    expect_refused({"--value: x", word}, arguments(server, {"--value", value}));
  };
  refused("INT8", "128", "-128 to 127");
  refused("INT64", "0.5", "whole number");
  refused("UINT64", "-1", "whole number");
  refused("BOOL", "2", "0 to 1");
  refused("FP16", "65520", "range");
  refused("BF16", "3.4e38", "range");
  refused("FP32", "1e39", "range");
  refused("FP64", "nan", "finite");
  refused("FP32", "", "finite");
}

TEST_F(bench_service_command, names_the_free_extents_of_an_input_without_a_shape) {
  const scripted_server server([](const scripted_server::request&) {
    return http_reply_text(
        200,
        json{{"inputs", {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {-1, 5, -1}}}}}}.dump());
  });
  expect_refused({"--shape: x needs one: the model has -1,5,-1"},
                 arguments(server, {"--batch", "4"}));
}

TEST_F(bench_service_command, measures_echoes_in_the_same_rounds) {
  const scripted_server server(serve);
  const auto found = report(server, {"--floor"}).at("service");
  const auto& rates = found.at("rates");
  ASSERT_EQ(rates.size(), 3U);
  EXPECT_EQ(rates.at(0).at("name"), "raw socket");
  EXPECT_EQ(rates.at(1).at("name"), "HTTP echo");
  EXPECT_EQ(rates.at(2).at("name"), "HTTP");
  for (const auto& row : rates) {
    expect_figures(row);
    EXPECT_EQ(row.at("bytes"), rates.at(0).at("bytes"));
    EXPECT_EQ(row.at("reference"), "raw socket");
  }
  EXPECT_EQ(rates.at(2).at("beside").at(0).at("name"), "HTTP echo");
  EXPECT_TRUE(found.at("us_over_echo").at("median").is_number());
  const auto outcome = run(arguments(server, {"--floor", "--shape", "x=2,3"}));
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  for (const auto* const words : {"m: x 2x3 FP32, k 1 INT64; 32 bytes of inputs, 8 of outputs",
                                  "2 rounds", "p99.9", "MB/s", "us longer than HTTP echo"}) {
    EXPECT_NE(outcome.output.find(words), std::string::npos) << outcome.output << words;
  }
}

TEST_F(bench_service_command, sends_a_token) {
  write_text(folder() / "token", "secret\nand another line\n");
  write_text(folder() / "empty", "\n");
  const scripted_server server([](const scripted_server::request& request) {
    const bool has_token =
        request.head.find("\r\nAuthorization: Bearer secret\r\n") != std::string::npos;
    return has_token ? serve(request) : http_reply_text(401, R"({"error": "a token is missing"})");
  });
  EXPECT_EQ(run(arguments(server, {"--token-file", "token"})).status, 0);
  expect_refused({"HTTP 401", "a token is missing"}, arguments(server));
  expect_refused({"--token-file", "no token"}, arguments(server, {"--token-file", "empty"}));
}

TEST_F(bench_service_command, counts_errors_and_fails) {
  std::uint64_t requests = 0;
  const scripted_server server([&](const scripted_server::request& request) {
    if (is_inference(request) && ++requests % 3 == 0)
      return std::optional(http_reply_text(503, R"({"error": "no worker"})"));
    return serve(request);
  });
  const auto outcome = run(arguments(server));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.output.find("HTTP"), std::string::npos) << "the report is printed";
  EXPECT_NE(outcome.errors.find("HTTP 503: no worker"), std::string::npos) << outcome.errors;
}

// The first inference tells the sizes; later ones differ.
TEST_F(bench_service_command, fails_if_a_server_changes_its_mind) {
  const auto expect = [&](const std::vector<std::string>& words,
                          const std::optional<std::string>& later) {
    std::uint64_t requests = 0;
    const scripted_server server([&](const scripted_server::request& request) {
      return is_inference(request) && ++requests > 1 ? later : serve(request);
    });
    expect_error(1, words, arguments(server));
  };
  expect({"closed the connection"}, std::nullopt);
  expect({"HTTP 503: it drains"}, http_reply_text(503, R"({"error": "it drains"})"));
  expect({"7 bytes of outputs instead of 8"}, http_reply_text(200, "{}1234567", 2));
  expect({"no HTTP/1.1"}, "nonsense that is no head\r\n\r\n");
  expect({"no Content-Length"}, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST_F(bench_service_command, refuses_what_does_not_fit) {
  std::string closed;
  {
    const scripted_server server(serve);
    closed = server.address();
    const auto refused = [&](const std::vector<std::string>& words,
                             const std::vector<std::string>& further) {
      expect_refused(words, arguments(server, further));
    };
    refused({"--shape", "x", "-1,3"}, {"--shape", "x=1,4"});
    refused({"--shape", "x", "-1,3"}, {"--shape", "x=3"});
    refused({"--shape", "no input 'y'"}, {"--shape", "y=3"});
    refused({"--shape", "no input ''"}, {"--shape", "1,3"});
    refused({"--shape", "'x' has two"}, {"--shape", "x=1,3", "--shape", "x=2,3"});
    refused({"--value", "no input 'y'"}, {"--value", "y=3"});
    refused({"--value", "no input ''"}, {"--value", "3"});
    refused({"--value", "'k' has two"}, {"--value", "k=3", "--value", "k=4"});
    refused({"--shape", "4 GiB"}, {"--batch", "4294967296"});
    refused({"--clients", "'0'"}, {"--clients", "0"});
    refused({"--token-file"}, {"--token-file", "missing"});
    refused({"--grpc", "HOST:PORT"}, {"--grpc", "nonsense"});
    expect_error(1, {"gRPC", "UNAVAILABLE"}, arguments(server, {"--grpc", "127.0.0.1:1"}));
    expect_refused({"--model: it", "404", "no such model"},
                   {"bench", "service", "--http", server.address(), "--model", "it"});
    expect_refused({"--model"}, {"bench", "service", "--http", server.address()});
    auto with_device = arguments(server);
    with_device.insert(with_device.begin() + 1, {"--device", "host"});
    expect_refused({"--device", "bench service"}, with_device);
  }
  const auto at = [](const std::string& address) {
    return std::vector<std::string>{"bench", "service", "--http", address, "--model", "m"};
  };
  expect_error(1, {closed, "Connection refused"}, at(closed));
  expect_error(1, {"unix:none", "No such file"}, at("unix:none"));
  expect_refused({"--http", "HOST:PORT"}, at("8000"));
  expect_refused({"--seconds", "at most 3600"},
                 {"bench", "service", "--model", "m", "--seconds", "0"});
  expect_refused({"--http", "HOST:PORT"}, at("localhost:"));
  expect_refused({"--http", "bytes"}, at("unix:" + std::string(200, 'x')));
}

}  // namespace
}  // namespace sluice::test
