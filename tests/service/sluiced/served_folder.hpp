// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/onnx_graph.hpp"
#include "tests/service/front/raw_client.hpp"
#include "tests/service/metrics/parsed_metrics.hpp"
#include "tests/service/sluiced/service_process.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

/// A service with a folder of models, and the texts of requests for rows of five numbers.
namespace sluice::service::test {

inline constexpr std::size_t columns = 5;

/// y = factor * x for rows of x.
inline sluice::test::onnx_graph scale(float factor) {
  sluice::test::onnx_graph g;
  const std::vector<std::int64_t> rows{-1, columns};
  g.input("x", rows).output("y", rows);
  g.constant("factor", std::vector<float>{factor}, {1});
  g.node("Mul", {"x", "factor"}, {"y"});
  return g;
}

/// The sums of the rows of a sequence: y = x + s, and s becomes y.
inline sluice::test::onnx_graph running_sum() {
  sluice::test::onnx_graph g;
  const std::vector<std::int64_t> row{1, columns};
  g.input("x", row).input("s", row).output("y", row).output("t", row);
  g.node("Add", {"x", "s"}, {"y"});
  g.node("Identity", {"y"}, {"t"});
  return g;
}

/// The config of `running_sum`: the service keeps s.
inline const std::string config_of_running_sum =
    "[sequence_batching]\nstate = [{ input_name = \"s\", output_name = \"t\", "
    "data_type = \"TYPE_FP32\", dims = [1, 5] }]\n";

inline std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
}

/// @param fields  further fields of the head, each with the end of its line
inline std::string json_request(const std::string& path, const nlohmann::json& body,
                                const std::string& fields = "") {
  const auto text = body.dump();
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
}

inline std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

/// A request for rows of `x` as binary data.
/// @param additions  to the JSON text
inline std::string binary_request(const std::string& model, const std::vector<float>& x,
                                  const nlohmann::json& additions = nlohmann::json::object()) {
  nlohmann::json description{{"inputs",
                              {{{"name", "x"},
                                {"datatype", "FP32"},
                                {"shape", {x.size() / columns, columns}},
                                {"parameters", {{"binary_data_size", x.size() * sizeof(float)}}}}}},
                             {"parameters", {{"binary_data_output", true}}}};
  description.merge_patch(additions);
  const auto header = description.dump();
  const auto body = header + bytes_of(x);
  return "POST /v2/models/" + model + "/infer HTTP/1.1\r\nHost: localhost\r\n" +
         "Inference-Header-Content-Length: " + std::to_string(header.size()) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The JSON text of a binary reply.
inline nlohmann::json description_of(const raw_reply& reply) {
  const auto length = std::stoul(*reply.field("Inference-Header-Content-Length"));
  return nlohmann::json::parse(reply.body.substr(0, length));
}

/// The elements of the only output of a binary reply.
inline std::vector<float> elements_of(const raw_reply& reply) {
  const auto length = std::stoul(*reply.field("Inference-Header-Content-Length"));
  std::vector<float> y((reply.body.size() - length) / sizeof(float));
  std::memcpy(y.data(), reply.body.data() + length, y.size() * sizeof(float));
  return y;
}

/// Whether y = factor * x, by numbers of double precision.
inline bool is_scaled(const std::vector<float>& y, const std::vector<float>& x, double factor) {
  if (y.size() != x.size()) return false;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(double{y[i]} - factor * double{x[i]}) > 1e-6 * std::abs(factor * double{x[i]})) {
      return false;
    }
  }
  return true;
}

/// A folder of models, and a sluiced that serves it.
class served_folder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(service_process::path())) {
      GTEST_SKIP() << "this build has no sluiced";
    }
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }
  /// Writes a version of a model, and puts it into its place as a whole.
  void put(const std::string& model, int version, const std::string& file) const {
    const auto place = folder() / model / std::to_string(version);
    std::filesystem::create_directories(place);
    std::ofstream(place / "model.part", std::ios::binary) << file;
    std::filesystem::rename(place / "model.part", place / "model.onnx");
  }
  void put_config(const std::string& model, const std::string& text) const {
    std::ofstream(folder() / model / "config.toml") << text;
  }
  /// Starts the service, with a worker on the host unless the options name devices.
  void start(std::vector<std::string> options = {}, bool has_grpc = false) {
    options.insert(options.begin(), {"--models", folder().string()});
    if (std::find(options.begin(), options.end(), "--device") == options.end()) {
      options.insert(options.end(), {"--device", "host"});
    }
    service_ = std::make_unique<service_process>(std::move(options), has_grpc);
  }
  [[nodiscard]] service_process& service() { return *service_; }
  [[nodiscard]] raw_reply ask(const std::string& request) { return ask(service().port(), request); }
  /// Asks until the answer is as expected, or a long time has passed.
  [[nodiscard]] raw_reply ask_until(const std::string& request,
                                    const std::function<bool(const raw_reply&)>& is_expected) {
    for (int attempt = 0;; ++attempt) {
      auto reply = ask(request);
      if (is_expected(reply) || attempt == 3000) return reply;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  /// Asks until the answer has another status than 503, or a long time has passed.
  [[nodiscard]] raw_reply ask_when_served(const std::string& request) {
    return ask_until(request, [](const auto& reply) { return reply.status != 503; });
  }
  [[nodiscard]] parsed_metrics read_metrics() {
    return parsed_metrics(ask(service().metrics_port(), get("/metrics")).body);
  }
  [[nodiscard]] std::mt19937_64& generator() noexcept { return generator_; }
  [[nodiscard]] std::vector<float> numbers(std::size_t rows) {
    return sluice::test::random_values<float>(generator_, rows * columns);
  }

 private:
  [[nodiscard]] static raw_reply ask(std::uint16_t port, const std::string& request) {
    raw_client client(port);
    client.send(request);
    auto reply = client.receive();
    if (!reply) throw std::runtime_error("the connection ended without an answer");
    return *reply;
  }

  std::mt19937_64 generator_ = sluice::test::make_generator();
  sluice::test::temporary_folder folder_;
  std::unique_ptr<service_process> service_;
};

}  // namespace sluice::service::test
