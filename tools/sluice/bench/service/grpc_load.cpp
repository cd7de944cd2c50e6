// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/grpc_load.hpp"

#include "service/grpc/wire_reader.hpp"
#include "service/grpc/wire_writer.hpp"
#include "tools/io/displayed.hpp"

#include <fmt/format.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <array>
#include <exception>
#include <optional>
#include <span>
#include <thread>

namespace sluice::cli {

namespace {

using clock = load_counts::clock;

grpc::ByteBuffer buffer_of(const std::string& message) {
  const grpc::Slice slice(message);
  return {&slice, 1};
}

/// The bytes of the raw outputs of ModelInferResponse.
std::uint64_t data_of(const grpc::ByteBuffer& reply) {
  constexpr std::uint32_t raw_output_contents = 6;
  std::vector<grpc::Slice> slices;
  if (reply.Valid()) (void)reply.Dump(&slices);
  std::vector<std::span<const std::byte>> pieces;
  pieces.reserve(slices.size());
  for (const auto& slice : slices)
    pieces.push_back(std::as_bytes(std::span(slice.begin(), slice.size())));
  service::wire_reader reader{std::span<const std::span<const std::byte>>(pieces)};
  std::uint64_t bytes = 0;
  while (reader.next()) {
    if (reader.is(raw_output_contents, service::wire_type::bytes)) {
      bytes += reader.bytes().size();
    } else {
      reader.skip();
    }
  }
  return bytes;
}

std::string status_name(grpc::StatusCode code) {
  constexpr std::array names{"OK",
                             "CANCELLED",
                             "UNKNOWN",
                             "INVALID_ARGUMENT",
                             "DEADLINE_EXCEEDED",
                             "NOT_FOUND",
                             "ALREADY_EXISTS",
                             "PERMISSION_DENIED",
                             "RESOURCE_EXHAUSTED",
                             "FAILED_PRECONDITION",
                             "ABORTED",
                             "OUT_OF_RANGE",
                             "UNIMPLEMENTED",
                             "INTERNAL",
                             "UNAVAILABLE",
                             "DATA_LOSS",
                             "UNAUTHENTICATED"};
  const auto number = static_cast<std::size_t>(code);
  return number < names.size() ? names[number] : std::to_string(number);
}

/// Why a reply is not what it should be; empty if it is.
std::string problem_of(const grpc::Status& status, const grpc::ByteBuffer& reply,
                       std::uint64_t expected) {
  if (!status.ok()) {
    return fmt::format("gRPC {}: {}", status_name(status.error_code()),
                       io::displayed(status.error_message()));
  }
  try {
    const auto data = data_of(reply);
    return data == expected ? "" : fmt::format("{} bytes of outputs instead of {}", data, expected);
  } catch (const std::exception& e) {
    return fmt::format("gRPC: the reply is no message: {}", e.what());
  }
}

}  // namespace

struct grpc_load::client {
  grpc::GenericStub stub;
  std::string authorization;
  grpc::ByteBuffer request;
  std::uint64_t data;
  // Of the call in flight:
  clock::time_point start{};
  std::optional<grpc::ClientContext> context{};
  std::unique_ptr<grpc::ClientAsyncResponseReader<grpc::ByteBuffer>> call{};
  grpc::ByteBuffer reply{};
  grpc::Status status{};

  void begin(grpc::CompletionQueue& completions, clock::time_point now) {
    start = now;
    context.emplace();
    context->set_deadline(std::chrono::system_clock::now() + reply_timeout);
    if (!authorization.empty()) context->AddMetadata("authorization", authorization);
    call = stub.PrepareUnaryCall(&*context, "/inference.GRPCInferenceService/ModelInfer", request,
                                 &completions);
    call->StartCall();
    call->Finish(&reply, &status, this);
  }
};

/// Some of the clients, which one thread drives.
class grpc_load::queue {
 public:
  explicit queue(std::vector<client*> clients) : clients_(std::move(clients)) {}

  void run(clock::time_point end) {
    auto waiting = clients_.size();
    for (auto* const client : clients_) client->begin(completions_, clock::now());
    void* tag = nullptr;
    bool is_ok = false;
    while (waiting > 0 && completions_.Next(&tag, &is_ok)) {
      auto& client = *static_cast<grpc_load::client*>(tag);
      const auto problem = problem_of(client.status, client.reply, client.data);
      const auto now = clock::now();
      if (problem.empty()) {
        counts_.add_latency(now - client.start);
      } else {
        counts_.add_error(problem);
      }
      // A connection that is lost would fail at once, again and again.
      const bool is_lost = client.status.error_code() == grpc::StatusCode::UNAVAILABLE;
      if (now < end && !is_lost) {
        client.begin(completions_, now);
      } else {
        --waiting;
      }
    }
    completions_.Shutdown();
    while (completions_.Next(&tag, &is_ok)) {
    }
  }
  [[nodiscard]] const load_counts& counts() const noexcept { return counts_; }

 private:
  std::vector<client*> clients_;
  grpc::CompletionQueue completions_{};
  load_counts counts_{};
};

grpc_load::grpc_load(const std::string& address, const std::string& token, std::size_t clients,
                     const std::vector<exchange>& exchanges) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  std::vector<grpc::ByteBuffer> requests;
  requests.reserve(exchanges.size());
  for (const auto& each : exchanges) requests.push_back(buffer_of(each.message));
  for (std::size_t i = 0; i < clients; ++i) {
    const auto turn = i % exchanges.size();
    auto channel =
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
    clients_.push_back(std::unique_ptr<client>(new client{grpc::GenericStub(std::move(channel)),
                                                          token.empty() ? "" : "Bearer " + token,
                                                          requests[turn], exchanges[turn].data}));
  }
}

grpc_load::~grpc_load() = default;

load_counts grpc_load::run(std::size_t threads, clock::duration time) {
  std::vector<std::vector<client*>> shares(std::min(threads, clients_.size()));
  for (std::size_t i = 0; i < clients_.size(); ++i)
    shares[i % shares.size()].push_back(clients_[i].get());
  std::vector<std::unique_ptr<queue>> queues;
  queues.reserve(shares.size());
  for (auto& share : shares) queues.push_back(std::make_unique<queue>(std::move(share)));
  const auto start = clock::now();
  {
    std::vector<std::jthread> helpers;
    helpers.reserve(queues.size());
    for (const auto& each : queues)
      helpers.emplace_back([&thread = *each, end = start + time] { thread.run(end); });
  }
  load_counts counts;
  counts.time = clock::now() - start;
  for (const auto& each : queues) counts.add(each->counts());
  return counts;
}

std::string grpc_message(const served_model& model, const std::vector<std::string>& inputs) {
  std::string message;
  service::append_text(message, 1, model.name);
  for (const auto& input : model.inputs) {
    std::string shape;
    for (const auto extent : input.shape)
      service::append_varint(shape, static_cast<std::uint64_t>(extent));
    std::string tensor;
    service::append_text(tensor, 1, input.name);
    service::append_text(tensor, 2, service::to_string(input.type));
    service::append_bytes(tensor, 3, shape);
    service::append_bytes(message, 5, tensor);
  }
  for (const auto& bytes : inputs) service::append_bytes(message, 7, bytes);
  return message;
}

}  // namespace sluice::cli
