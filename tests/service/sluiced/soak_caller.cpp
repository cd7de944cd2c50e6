// SPDX-License-Identifier: Apache-2.0
#include "tests/service/sluiced/soak_caller.hpp"

#include "tests/service/grpc/wire_message.hpp"
#include "tests/service/sluiced/served_folder.hpp"
#include "tests/support/random_values.hpp"

#include <chrono>
#include <cstring>
#include <exception>
#include <vector>

namespace sluice::service::test {
namespace {

// Longer than the service looks for a worker. A call that takes longer counts as lost.
constexpr std::chrono::milliseconds longest_call{90'000};

std::string infer_message(const std::string& model, const std::string& id,
                          const std::vector<float>& x, std::size_t extent) {
  const auto shape =
      packed({static_cast<std::int64_t>(x.size() / columns), static_cast<std::int64_t>(extent)});
  return bytes(1, model) + bytes(3, id) +
         bytes(5, bytes(1, "x") + bytes(2, "FP32") + bytes(3, shape)) + bytes(7, memory_of(x));
}

/// Whether a reply has the id, and ends with the elements factor * x.
bool is_reply(const std::string& reply, const std::string& id, const std::vector<float>& x,
              double factor) {
  std::vector<float> y(x.size());
  const auto end = bytes(6, memory_of(y));
  if (reply.size() < end.size() || reply.find(bytes(3, id)) == std::string::npos) return false;
  const auto size = y.size() * sizeof(float);
  const auto start = reply.size() - end.size();
  // The tag and the length of the elements do not depend on their values.
  if (reply.compare(start, end.size() - size, end, 0, end.size() - size) != 0) return false;
  std::memcpy(y.data(), reply.data() + reply.size() - size, size);
  return is_scaled(y, x, factor);
}

}  // namespace

soak_caller::soak_caller(std::uint16_t port, std::size_t number, std::uint64_t seed,
                         soak_state& state)
    : name_("caller-" + std::to_string(number)), generator_(seed), state_(state), client_(port) {}

void soak_caller::run() {
  try {
    while (!state_.is_over && tally_.lost == 0) send_one();
  } catch (const std::exception& e) {
    tally_.note(tally_.lost, name_ + ": " + e.what());
  }
}

void soak_caller::send_one() {
  const std::vector<float> x(columns, 1);
  const auto expect = [&](const std::string& model, std::size_t extent, grpc::StatusCode code) {
    const soak_interval interval(state_);
    unary_request request(client_, inference_method("ModelInfer"),
                          infer_message(model, "", x, extent), longest_call);
    judge(request.wait(), interval, model, code);
  };
  switch (generator_() % 16) {
    case 0:
      return expect("unknown", columns, grpc::StatusCode::NOT_FOUND);
    case 1:
      return expect("busy", columns + 1, grpc::StatusCode::INVALID_ARGUMENT);
    case 2:
      return cancel_one();
    default:
      return send_small();
  }
}

void soak_caller::send_small() {
  const auto x = sluice::test::random_values<float>(generator_, (1 + generator_() % 4) * columns);
  const auto id = name_ + "-" + std::to_string(++sent_);
  const soak_interval interval(state_);
  unary_request request(client_, inference_method("ModelInfer"),
                        infer_message("small", id, x, columns), longest_call);
  const auto status = request.wait();
  judge(status, interval, "small", grpc::StatusCode::OK);
  if (!status.ok()) return;
  if (is_reply(request.reply(), id, x, 2)) {
    ++tally_.results["small"];
  } else {
    tally_.note(tally_.wrong, name_ + ": wrong result of small");
  }
}

void soak_caller::cancel_one() {
  const std::vector<float> x(columns, 1);
  ++tally_.abandoned["busy"];
  const soak_interval interval(state_);
  unary_request request(client_, inference_method("ModelInfer"),
                        infer_message("busy", "", x, columns), longest_call);
  request.cancel();
  const auto status = request.wait();
  if (!status.ok()) return judge(status, interval, "busy", grpc::StatusCode::CANCELLED);
  ++tally_.calls;
}

void soak_caller::judge(const grpc::Status& status, const soak_interval& interval,
                        const std::string& model, grpc::StatusCode code) {
  ++tally_.calls;
  ++state_.finished;
  if (status.error_code() == code) return;
  const auto text = name_ + ": status " + std::to_string(status.error_code()) + " of " + model +
                    ": " + status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return tally_.note(tally_.lost, text);
  }
  const bool is_refusal = status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                          status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED;
  if (is_refusal && interval.has_replacement()) {
    ++tally_.refusals[model];
    return;
  }
  tally_.note(tally_.unexpected, text);
}

}  // namespace sluice::service::test
