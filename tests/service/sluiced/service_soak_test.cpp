// SPDX-License-Identifier: Apache-2.0
// A long random load of sluiced: clients that send what they must not, hang up and are in a hurry,
// while workers are killed, models replaced and files read again. Every request has one reply, the
// metrics have the counts of the clients, and nothing grows. SLUICE_SOAK_SECONDS sets the duration
// (default 2).
#include "tests/service/front/token_file.hpp"
#include "tests/service/sluiced/served_folder.hpp"
#include "tests/service/sluiced/soak_caller.hpp"
#include "tests/service/sluiced/soak_client.hpp"
#include "tests/support/soak_time.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::service::test {
namespace {

using soak_clock = std::chrono::steady_clock;

constexpr std::size_t client_count = 8;
constexpr std::size_t caller_count = 2;

/// Clients that send requests until they are stopped.
class soak_clients {
 public:
  soak_clients(service_process& service, std::mt19937_64& generator, soak_state& state)
      : state_(state) {
    state_.is_over = false;
    for (std::size_t i = 0; i < client_count; ++i) {
      clients_.push_back(std::make_unique<soak_client>(service.port(), i, generator(), state));
    }
    for (std::size_t i = 0; i < caller_count; ++i) {
      callers_.push_back(std::make_unique<soak_caller>(service.grpc_port(), i, generator(), state));
    }
    for (const auto& each : clients_) threads_.emplace_back([&client = *each] { client.run(); });
    for (const auto& each : callers_) threads_.emplace_back([&caller = *each] { caller.run(); });
  }
  soak_clients(const soak_clients&) = delete;
  soak_clients& operator=(const soak_clients&) = delete;
  ~soak_clients() { join(); }

  /// Waits for their last replies. Returns what they have counted.
  [[nodiscard]] soak_tally stop() {
    join();
    soak_tally sums;
    for (const auto& each : clients_) sums.add(each->tally());
    for (const auto& each : callers_) sums.add(each->tally());
    return sums;
  }

 private:
  void join() {
    state_.is_over = true;
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

  soak_state& state_;
  std::vector<std::unique_ptr<soak_client>> clients_{};
  std::vector<std::unique_ptr<soak_caller>> callers_{};
  std::vector<std::thread> threads_{};
};

/// What the front has.
struct front_size {
  std::size_t descriptors = 0;
  std::size_t threads = 0;      ///< without those of gRPC, whose pools grow when they are busy
  std::size_t private_kib = 0;  ///< resident memory without files and the memory of workers
};

class service_soak : public served_folder {
 protected:
  void put_models() const {
    put("small", 1, scale(2).bytes());
    put("busy", 1, scale(3).bytes());
    put("large", 1, scale(5).bytes());
    put("changing", 1, scale(2).bytes());
    put("sum", 1, running_sum().bytes());
    put_config("sum", config_of_running_sum);
  }
  /// Models are for everybody, loads for the owner of `token_`.
  void write_tokens(const std::string& token) {
    token_ = token;
    tokens_.write("anonymous infer -\noperator admin " + sha256_of(token) + "\n");
  }
  void start_service() {
    put_models();
    write_tokens("first");
    start({"--device", "host", "--device", "host", "--token-file", tokens_.path()}, true);
    wait_until_replaced();
  }

  /// As `ask`, and counts the reply.
  raw_reply counted_ask(const std::string& request) {
    auto reply = ask(request);
    ++tally_.replies[reply.status];
    return reply;
  }
  /// Waits until something is so, or a long time has passed.
  static bool await(const std::function<bool()>& condition) {
    for (int i = 0; i < 6'000; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return condition();
  }
  /// Waits for replies of clients, a random number of them.
  bool await_replies() {
    const auto end = state_.finished + 20 + generator()() % 200;
    return await([&] { return state_.finished >= end; });
  }

  /// Whether both workers get requests, and all models are served.
  [[nodiscard]] bool is_complete() {
    const auto values = read_metrics();
    return values.value("sluice_worker_up", {{"worker", "0"}}) == 1 &&
           values.value("sluice_worker_up", {{"worker", "1"}}) == 1 &&
           counted_ask(get("/v2/health/ready")).status == 200;
  }
  void wait_until_replaced() {
    EXPECT_TRUE(await([this] { return is_complete(); })) << "a worker is not replaced";
  }

  raw_reply load(const std::string& model, const std::string& token) {
    return counted_ask(json_request("/v2/repository/models/" + model + "/load",
                                    nlohmann::json::object(),
                                    "Authorization: Bearer " + token + "\r\n"));
  }
  /// Kills a worker or both. A model may be replaced before they are.
  void kill_workers() {
    auto workers = service().workers();
    ASSERT_EQ(workers.size(), 2U);
    std::shuffle(workers.begin(), workers.end(), generator());
    if (generator()() % 4 != 0) workers.pop_back();
    ++state_.replacements;
    for (const auto worker : workers) {
      ASSERT_EQ(::kill(worker, SIGKILL), 0);
      ++kills_;
    }
    EXPECT_TRUE(await([&] {
      const auto others = service().workers();
      return std::find_first_of(others.begin(), others.end(), workers.begin(), workers.end()) ==
             others.end();
    })) << "the service does not notice the end of a worker";
    EXPECT_TRUE(await_replies()) << "no replies while a worker is replaced";
    if (generator()() % 2 == 0) replace_model();
    wait_until_replaced();
    ++state_.replacements;
  }
  /// Replaces the file of `changing`. Its results are then those of the new one, at the latest
  /// after a load.
  void replace_model() {
    const int factor = ++state_.newest_factor;
    put("changing", 1, scale(static_cast<float>(factor)).bytes());
    ++versions_;
    if (generator()() % 4 == 0) {
      // The service notices it by itself.
      EXPECT_TRUE(await([&] { return state_.seen_factor == factor; })) << "factor " << factor;
      return;
    }
    const auto reply = load("changing", token_);
    EXPECT_EQ(reply.status, 200U) << reply.body;
    state_.note_seen(factor);
  }
  /// Another token is valid after SIGHUP, and the earlier one is not any more.
  void change_token() {
    const auto earlier = token_;
    write_tokens("token-" + std::to_string(generator()()));
    service().signal(SIGHUP);
    EXPECT_TRUE(await([&] { return load("small", token_).status == 200; }))
        << "the token is unknown";
    EXPECT_EQ(load("small", earlier).status, 401U);
    ++reloads_;
  }
  /// Disturbs the service in each way, and then at random.
  void disturb_until(soak_clock::time_point end) {
    for (std::uint64_t i = 0; i < 3 || soak_clock::now() < end; ++i) {
      if (HasFatalFailure()) return;
      EXPECT_TRUE(await_replies()) << "the service does not reply any more";
      switch (i < 3 ? i : generator()() % 8) {
        case 0:
          kill_workers();
          break;
        case 1:
          replace_model();
          break;
        case 2:
          change_token();
          break;
        default:
          break;
      }
    }
  }
  /// Has clients send requests while the service is disturbed.
  void run_for(std::chrono::milliseconds time) {
    soak_clients clients(service(), generator(), state_);
    disturb_until(soak_clock::now() + time);
    tally_.add(clients.stop());
  }

  /// Whether the service does nothing and holds nothing for a client.
  [[nodiscard]] static bool is_idle(const parsed_metrics& values) {
    bool is_zero = true;
    const auto note = [&](const std::string& name, const metric_labels& labels = {}) {
      is_zero = is_zero && values.value(name, labels) == 0;
    };
    note("sluice_http_requests_in_flight");
    note("sluice_http_connections");
    note("sluice_http_json_bytes");
    for (const char* worker : {"0", "1"}) {
      note("sluice_worker_requests_in_flight", {{"worker", worker}});
      note("sluice_worker_request_memory_bytes", {{"worker", worker}});
    }
    for (const auto& model : values.values_of("model")) {
      note("sluice_model_requests_in_flight", {{"model", model}, {"version", "1"}});
    }
    return is_zero;
  }
  void expect_idle() {
    EXPECT_TRUE(await([this] { return is_idle(read_metrics()); })) << "something is in flight";
  }

  /// The counts of clients and those of the service, which is idle.
  void expect_equal_counts() {
    const auto values = read_metrics();
    // A request of HTTP counts once its head has arrived: with the status of its reply, or with 499
    // if its client hangs up before. Each complete head arrives, because clients end connections in
    // order, or after the head of a reply. So the sum over all codes is that of the replies and the
    // hang-ups. A request whose client hangs up is right and has no deadline. If it is counted with
    // a reply, this is 200, 429 or 503, and the other codes have exactly the counts of the clients.
    std::uint64_t received = 0;
    double counted = 0;
    for (const auto& code : values.values_of("code")) {
      counted += values.value("sluice_http_requests_total", {{"code", code}});
    }
    for (const auto& [status, count] : tally_.replies) {
      received += count;
      const metric_labels code{{"code", std::to_string(status)}};
      ASSERT_TRUE(values.contains("sluice_http_requests_total", code)) << status;
      const auto value = values.value("sluice_http_requests_total", code);
      EXPECT_GE(value, static_cast<double>(count)) << status;
      if (status != 200 && status != 429 && status != 503) {
        EXPECT_EQ(value, static_cast<double>(count)) << status;
      }
    }
    EXPECT_EQ(counted, static_cast<double>(received + tally_.hang_ups));
    // Each head was understood.
    EXPECT_EQ(values.value("sluice_http_request_seconds_count"), counted);

    for (const char* model : {"small", "busy", "large", "changing", "sum"}) {
      const metric_labels labels{{"model", model}, {"version", "1"}};
      const auto successes = values.value("nv_inference_request_success", labels);
      const auto failures = values.value("nv_inference_request_failure", labels);
      const auto results = static_cast<double>(tally_.results[model]);
      if (std::string(model) == "busy") {
        // Clients do not know whether what they abandoned was computed.
        EXPECT_GE(successes, results);
        EXPECT_LE(successes, results + static_cast<double>(tally_.abandoned["busy"]));
      } else {
        // A request that is run again, because its worker has died, counts once.
        EXPECT_EQ(successes, results) << model;
        EXPECT_LE(failures, static_cast<double>(tally_.refusals[model])) << model;
      }
    }
    double restarts = 0;
    for (const char* worker : {"0", "1"}) {
      restarts += values.value("sluice_worker_restarts_total", {{"worker", worker}});
    }
    EXPECT_EQ(restarts, static_cast<double>(kills_)) << "a worker has ended by itself";
  }
  void expect_no_problems() const {
    EXPECT_EQ(tally_.wrong, 0U) << tally_.first_problem;
    EXPECT_EQ(tally_.lost, 0U) << tally_.first_problem;
    EXPECT_EQ(tally_.surplus, 0U) << tally_.first_problem;
    EXPECT_EQ(tally_.unexpected, 0U) << tally_.first_problem;
  }

  [[nodiscard]] front_size size_of_front() {
    namespace fs = std::filesystem;
    const auto process = fs::path("/proc") / std::to_string(service().id());
    front_size size;
    for (const auto& each : fs::directory_iterator(process / "fd")) {
      (void)each;
      ++size.descriptors;
    }
    for (const auto& each : fs::directory_iterator(process / "task")) {
      std::ifstream file(each.path() / "comm");
      std::string name;
      if (file >> name && name == "sluiced") ++size.threads;
    }
    std::ifstream status(process / "status");
    for (std::string word; status >> word;) {
      if (word == "RssAnon:") status >> size.private_kib;
    }
    return size;
  }
  /// The size of the front, which is idle. The last connections may still be closing, so the least
  /// of several numbers counts.
  [[nodiscard]] front_size size_at_rest() {
    auto least = size_of_front();
    for (int i = 0; i < 50; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      const auto size = size_of_front();
      least.descriptors = std::min(least.descriptors, size.descriptors);
      least.threads = std::min(least.threads, size.threads);
    }
    return least;
  }
  void print(const char* part, const front_size& size) const {
    std::printf("%s:", part);
    for (const auto& [status, count] : tally_.replies) {
      std::printf(" %llu replies with %u,", whole(count), status);
    }
    std::printf(
        " %llu hang-ups, %llu calls of gRPC; %llu workers killed, %llu versions, %llu token "
        "files; the front has %zu KiB, %zu descriptors, %zu threads\n",
        whole(tally_.hang_ups), whole(tally_.calls), whole(kills_), whole(versions_),
        whole(reloads_), size.private_kib, size.descriptors, size.threads);
  }
  static unsigned long long whole(std::uint64_t count) noexcept { return count; }

  // The heaps of the threads keep what was freed. The texts of a request and its reply have less
  // than 1 MiB for each client; binary tensors lie in the memory of the workers.
  static constexpr std::size_t most_growth_kib = (client_count + caller_count) * 1024;

 private:
  token_file tokens_{};
  std::string token_{};
  soak_state state_{};
  soak_tally tally_{};
  std::uint64_t kills_ = 0;
  std::uint64_t versions_ = 0;
  std::uint64_t reloads_ = 0;
};

TEST_F(service_soak, loses_no_reply_and_does_not_grow) {
  const std::chrono::milliseconds time = sluice::test::soak_time();
  start_service();
  // Heaps and tables grow to their final size.
  run_for(time / 10);
  expect_idle();
  const auto before = size_at_rest();
  print("a tenth", before);
  if (HasFailure()) return expect_no_problems();

  run_for(time - time / 10);
  expect_idle();
  (void)await([&] {
    const auto size = size_of_front();
    return size.descriptors <= before.descriptors && size.threads <= before.threads;
  });
  const auto after = size_of_front();
  print("the end", after);
  EXPECT_LE(after.descriptors, before.descriptors);
  EXPECT_LE(after.threads, before.threads);
  EXPECT_LE(after.private_kib, before.private_kib + most_growth_kib);
  expect_no_problems();
  expect_equal_counts();
  service().signal(SIGTERM);
  EXPECT_EQ(service().wait(), 0);
}

}  // namespace
}  // namespace sluice::service::test
