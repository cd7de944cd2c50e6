// SPDX-License-Identifier: Apache-2.0
#include "tests/service/sluiced/soak_client.hpp"

#include "tests/service/sluiced/served_folder.hpp"
#include "tests/support/random_values.hpp"

#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace sluice::service::test {
namespace {

using nlohmann::json;

constexpr std::size_t most_small_rows = 4;
constexpr std::size_t large_rows = 52'429;  // slightly more than 1 MiB
// The text of so many rows is parsed and written by the threads for long texts.
constexpr std::size_t many_rows = 3'000;
constexpr int longest_sequence = 8;
// Longer than the service looks for a worker. A reply that takes longer counts as lost.
constexpr timeval longest_wait{.tv_sec = 90, .tv_usec = 0};

std::string numbers_request(const std::string& model, const std::vector<float>& x, json body) {
  body["inputs"] = {
      {{"name", "x"}, {"datatype", "FP32"}, {"shape", {x.size() / columns, columns}}, {"data", x}}};
  return json_request("/v2/models/" + model + "/infer", body);
}

std::vector<float> numbers_of(const json& reply) {
  return reply.at("outputs").at(0).at("data").get<std::vector<float>>();
}

std::size_t bytes_of_head(const std::string& request) {
  return request.find("\r\n\r\n") + 4;
}

}  // namespace

soak_client::soak_client(std::uint16_t port, std::size_t number, std::uint64_t seed,
                         soak_state& state)
    : port_(port),
      name_("client-" + std::to_string(number)),
      generator_(seed),
      state_(state),
      pool_(sluice::test::random_values<float>(generator_, (large_rows + 1'000) * columns)) {}

soak_client::~soak_client() = default;

void soak_client::run() {
  try {
    while (!state_.is_over && tally_.lost == 0) send_one();
    // Nothing of the sequence is left in the service.
    while (step_ > 0) take_step(true);
    finish_connection();
  } catch (const std::exception& e) {
    tally_.note(tally_.lost, name_ + ": " + e.what());
  }
}

void soak_client::send_one() {
  switch (generator_() % 32) {
    case 0:
      return send_large();
    case 1:
      return send_numbers("large", many_rows);
    case 2:
      return send_malformed();
    case 3:
      (void)exchange(binary_request("unknown", rows(1)), "unknown", 404);
      return;
    case 4:
    case 5:
      return send_hurried();
    case 6:
      return hang_up_within();
    case 7:
      return hang_up_after();
    case 8:
      return hang_up_in_reply();
    case 9:
      return finish_connection();
    default:
      break;
  }
  switch (generator_() % 4) {
    case 0:
      return take_step(step_ + 1 == longest_sequence || generator_() % longest_sequence == 0);
    case 1:
      return send_to_changing();
    case 2:
      return send_numbers(generator_() % 2 == 0 ? "small" : "busy", most_small_rows);
    default:
      return send_small(generator_() % 2 == 0 ? "small" : "busy");
  }
}

void soak_client::send_small(const std::string& model) {
  const auto x = rows(1 + generator_() % most_small_rows);
  const auto id = next_id();
  const double factor = model == "small" ? 2 : 3;
  (void)exchange(binary_request(model, x, {{"id", id}}), model, 200, [&](const raw_reply& reply) {
    return description_of(reply).at("id") == id && is_scaled(elements_of(reply), x, factor);
  });
}

void soak_client::send_numbers(const std::string& model, std::size_t most_rows) {
  // Long texts have few shapes, each of which costs a program in each worker.
  const auto x = rows(model == "large" ? most_rows : 1 + generator_() % most_rows);
  const auto id = next_id();
  const double factor = model == "small" ? 2 : model == "busy" ? 3 : 5;
  (void)exchange(numbers_request(model, x, {{"id", id}}), model, 200, [&](const raw_reply& reply) {
    const auto body = json::parse(reply.body);
    return body.at("id") == id && is_scaled(numbers_of(body), x, factor);
  });
}

void soak_client::send_large() {
  const auto x = rows(large_rows);
  (void)exchange(binary_request("large", x), "large", 200,
                 [&](const raw_reply& reply) { return is_scaled(elements_of(reply), x, 5); });
}

void soak_client::send_to_changing() {
  const auto x = rows(1);
  const soak_interval interval(state_);
  (void)exchange(binary_request("changing", x), "changing", 200, [&](const raw_reply& reply) {
    const auto y = elements_of(reply);
    for (int factor = state_.newest_factor; factor >= interval.oldest_factor(); --factor) {
      if (!is_scaled(y, x, factor)) continue;
      state_.note_seen(factor);
      return true;
    }
    return false;
  });
}

void soak_client::send_malformed() {
  const auto x = rows(2);
  auto text = json{
      {"inputs", {{{"name", "x"}, {"datatype", "FP32"}, {"shape", {2, columns}}, {"data", x}}}}};
  switch (generator_() % 5) {
    case 0:
      text["inputs"][0]["shape"] = {3, columns};
      break;
    case 1:
      text["inputs"][0]["name"] = "z";
      break;
    case 2:
      text["inputs"][0]["datatype"] = "FP64";
      break;
    case 3:
      text["inputs"] = "none";
      break;
    default: {
      const std::string body = text.dump().substr(0, 10 + generator_() % 50);
      (void)exchange("POST /v2/models/busy/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                         std::to_string(body.size()) + "\r\n\r\n" + body,
                     "busy", 400);
      return;
    }
  }
  (void)exchange(json_request("/v2/models/busy/infer", text), "busy", 400);
}

void soak_client::send_hurried() {
  const auto x = rows(1 + generator_() % most_small_rows);
  ++tally_.abandoned["busy"];
  (void)exchange(
      binary_request("busy", x, {{"parameters", {{"timeout", 1 + generator_() % 2'000}}}}), "busy",
      504, [&](const raw_reply& reply) {
        --tally_.abandoned["busy"];
        return is_scaled(elements_of(reply), x, 3);
      });
}

void soak_client::hang_up_within() {
  const bool is_large = generator_() % 4 == 0;
  auto request = binary_request(is_large ? "large" : "busy", rows(is_large ? large_rows : 2));
  const auto head = bytes_of_head(request);
  request.resize(1 + generator_() % (request.size() - 1));
  if (request.size() >= head) ++tally_.hang_ups;
  connection().send(request);
  connection_.reset();
}

void soak_client::hang_up_after() {
  ++tally_.hang_ups;
  ++tally_.abandoned["busy"];
  connection().send(binary_request("busy", rows(1 + generator_() % most_small_rows)));
  connection_.reset();
}

void soak_client::hang_up_in_reply() {
  const soak_interval interval(state_);
  auto& client = connection();
  client.send(binary_request("large", rows(large_rows)));
  // The head, without the rest.
  const auto reply = client.receive(false);
  if (reply) {
    judge(*reply, interval, "large", 200, [](const raw_reply&) { return true; });
  } else {
    tally_.note(tally_.lost, name_ + ": no head of a large reply");
  }
  client.reset();
  connection_.reset();
}

void soak_client::take_step(bool ends) {
  const auto x = rows(1);
  const json parameters{
      {"sequence_id", name_}, {"sequence_start", step_ == 0}, {"sequence_end", ends}};
  const auto reply = exchange(numbers_request("sum", x, {{"parameters", parameters}}), "sum", 200,
                              [&](const raw_reply& reply) {
                                if (step_ == 0) sums_ = {};
                                const auto y = numbers_of(json::parse(reply.body));
                                bool is_right = y.size() == columns;
                                for (std::size_t i = 0; is_right && i < columns; ++i) {
                                  sums_[i] += double{x[i]};
                                  // Each of at most 8 sums below 8 is rounded once.
                                  is_right = std::abs(double{y[i]} - sums_[i]) < 4e-6;
                                }
                                step_ = ends ? 0 : step_ + 1;
                                return is_right;
                              });
  const auto status = reply ? reply->status : 0;
  // A refused step leaves the state as it was.
  if (status != 200 && status != 503 && status != 429) step_ = 0;
}

std::optional<raw_reply> soak_client::exchange(const std::string& request, const std::string& model,
                                               unsigned status, const check& is_right) {
  const soak_interval interval(state_);
  auto& client = connection();
  // A refusal may come before the service has read everything, and ends the connection.
  (void)client.send(request);
  auto reply = client.receive();
  if (!reply) {
    tally_.note(tally_.lost, name_ + ": no reply of " + model);
    connection_.reset();
    return reply;
  }
  judge(*reply, interval, model, status, is_right);
  if (reply->field("Connection") == "close" || generator_() % 64 == 0) finish_connection();
  return reply;
}

void soak_client::judge(const raw_reply& reply, const soak_interval& interval,
                        const std::string& model, unsigned status, const check& is_right) {
  ++tally_.replies[reply.status];
  ++state_.finished;
  if (reply.status == 200 && is_right) {
    if (is_right(reply)) {
      ++tally_.results[model];
    } else {
      tally_.note(tally_.wrong, name_ + ": wrong result of " + model);
    }
    return;
  }
  if (reply.status == status) return;
  if ((reply.status == 503 || reply.status == 429) && interval.has_replacement()) {
    ++tally_.refusals[model];
    return;
  }
  tally_.note(tally_.unexpected, name_ + ": status " + std::to_string(reply.status) + " of " +
                                     model + ": " + reply.body);
}

raw_client& soak_client::connection() {
  if (!connection_) {
    connection_ = std::make_unique<raw_client>(port_);
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
      (void)::setsockopt(connection_->descriptor(), SOL_SOCKET, option, &longest_wait,
                         sizeof longest_wait);
    }
  }
  return *connection_;
}

void soak_client::finish_connection() {
  if (!connection_) return;
  connection_->finish_sending();
  if (!connection_->is_at_end()) {
    tally_.note(tally_.surplus, name_ + ": bytes after the last reply");
  }
  connection_.reset();
}

std::vector<float> soak_client::rows(std::size_t count) {
  const auto first = generator_() % (pool_.size() - count * columns + 1);
  const auto begin = pool_.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count * columns)};
}

std::string soak_client::next_id() {
  return name_ + "-" + std::to_string(++sent_);
}

}  // namespace sluice::service::test
