// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/grpc_front.hpp"

#include "service/grpc/grpc_context.hpp"
#include "service/grpc/grpc_methods.hpp"
#include "service/grpc/tls_server_credentials.hpp"

#include <grpc/grpc.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace sluice::service {
namespace {

constexpr std::chrono::seconds health_interval{1};

[[nodiscard]] int milliseconds_of(std::chrono::milliseconds time) noexcept {
  return static_cast<int>(time.count());
}

void set_limits(grpc::ServerBuilder& builder, const grpc_limits& limits) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(limits.message_bytes));
  builder.SetMaxSendMessageSize(-1);  // the calls compare with their own limit
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, limits.calls);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, limits.metadata_bytes);
  grpc::ResourceQuota quota("sluiced");
  quota.Resize(limits.memory_bytes);
  builder.SetResourceQuota(quota);
  // gRPC would not limit the size of what it decompresses.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

void set_deadlines(grpc::ServerBuilder& builder, const grpc_deadlines& deadlines) {
  const auto set = [&](const char* name, std::chrono::milliseconds time) {
    builder.AddChannelArgument(name, milliseconds_of(time));
  };
  set(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, deadlines.handshake);
  set(GRPC_ARG_MAX_CONNECTION_IDLE_MS, deadlines.idle);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, deadlines.keepalive);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, deadlines.keepalive_answer);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, deadlines.between_pings);
}

[[nodiscard]] std::string address_of(const grpc_options& options) {
  const bool is_ipv6 = options.address.find(':') != std::string::npos;
  return (is_ipv6 ? '[' + options.address + ']' : options.address) + ':' +
         std::to_string(options.port);
}

[[nodiscard]] std::shared_ptr<grpc::ServerCredentials> credentials_of(const grpc_options& options) {
  if (!options.tls) return grpc::InsecureServerCredentials();
  return std::make_shared<tls_server_credentials>(options.tls);
}

}  // namespace

struct grpc_front::state final : grpc::CallbackGenericService {
  state(grpc_options options, model_backend& backend)
      : context{.options = std::move(options), .backend = backend},
        credentials(credentials_of(context.options)) {
    grpc::ServerBuilder builder;
    int bound = 0;
    builder.AddListeningPort(address_of(context.options), credentials, &bound);
    // Another process on the same port would get a share of the connections.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    set_limits(builder, context.options.limits);
    set_deadlines(builder, context.options.deadlines);
    builder.RegisterCallbackGenericService(this);
    server = builder.BuildAndStart();
    if (!server || bound == 0) {
      throw std::runtime_error("the gRPC server cannot listen on " + address_of(context.options));
    }
    port = static_cast<std::uint16_t>(bound);
    health = std::thread([this] { watch_health(); });
  }

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* call) override {
    return make_call(context, *call);
  }

  void watch_health() {
    std::unique_lock lock(mutex);
    while (!is_stopping) {
      changed.wait_for(lock, health_interval, [this] { return is_stopping || wants_check; });
      wants_check = false;
      lock.unlock();
      context.calls.note_health(context.backend.is_ready());
      context.sends.cancel_overdue(std::chrono::steady_clock::now());
      lock.lock();
    }
  }

  void check_health() {
    const std::scoped_lock lock(mutex);
    wants_check = true;
    changed.notify_all();
  }

  void stop(std::chrono::milliseconds delay) {
    const std::scoped_lock once(stopping);
    if (std::exchange(is_stopped, true)) return;
    const auto deadline = std::chrono::system_clock::now() + delay;
    {
      const std::scoped_lock lock(mutex);
      is_stopping = true;
      changed.notify_all();
    }
    health.join();
    context.calls.drain();
    server->Shutdown(deadline);
    context.copy_threads.join();
    context.senders.join();
    context.deliveries->wait_until_none();
  }

  grpc_context context;
  const std::shared_ptr<grpc::ServerCredentials> credentials;  // outlives the server
  std::unique_ptr<grpc::Server> server{};
  std::uint16_t port = 0;
  std::thread health{};

  std::mutex mutex{};
  std::condition_variable changed{};
  bool is_stopping = false;  // guarded by mutex
  bool wants_check = false;  // guarded by mutex

  std::mutex stopping{};
  bool is_stopped = false;  // guarded by stopping
};

grpc_front::grpc_front(grpc_options options, model_backend& backend)
    : state_(std::make_unique<state>(std::move(options), backend)) {}

grpc_front::~grpc_front() {
  stop(std::chrono::milliseconds(0));
}

std::uint16_t grpc_front::port() const noexcept {
  return state_->port;
}

void grpc_front::check_health() {
  state_->check_health();
}

void grpc_front::stop(std::chrono::milliseconds delay) {
  state_->stop(delay);
}

}  // namespace sluice::service
