// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/grpc_methods.hpp"

#include "service/grpc/infer_call.hpp"
#include "service/grpc/message_buffer.hpp"
#include "service/grpc/query_messages.hpp"
#include "service/grpc/stream_call.hpp"
#include "service/grpc/unary_call.hpp"
#include "service/grpc/watch_call.hpp"
#include "service/protocol/quoted_name.hpp"

#include <sluice/version.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::service {
namespace {

/// Makes the reply to a request that needs no worker.
/// @throws request_error if there is none
using query_handler = std::string (*)(wire_reader request, model_backend& backend);

class query_call final : public unary_call {
 public:
  query_call(grpc_context& context, grpc::CallbackServerContext& call, query_handler handler)
      : unary_call(context.sends, call), context_(context), handler_(handler) {}

 private:
  void answer(wire_reader request) override {
    finish(to_byte_buffer(handler_(request, context_.backend)));
  }

  grpc_context& context_;
  query_handler handler_;
};

class unknown_call final : public grpc::ServerGenericBidiReactor {
 public:
  explicit unknown_call(const std::string& method) {
    Finish(
        {grpc::StatusCode::UNIMPLEMENTED, "the method " + quoted_name(method) + " is not served"});
  }
  void OnDone() override { delete this; }
};

std::string answer_live(wire_reader, model_backend&) {
  return ready_message(true);
}

std::string answer_ready(wire_reader, model_backend& backend) {
  return ready_message(backend.is_ready());
}

std::string answer_metadata(wire_reader, model_backend&) {
  constexpr std::array<std::string_view, 1> extensions{"sequence"};
  return server_metadata_message("sluiced", sluice::version, extensions);
}

std::string answer_model_ready(wire_reader request, model_backend& backend) {
  const auto model = read_model_name(request);
  try {
    (void)backend.describe(model.name, model.version);
    return ready_message(true);
  } catch (const request_error& reason) {
    if (reason.status() != request_status::not_found &&
        reason.status() != request_status::unavailable) {
      throw;
    }
    return ready_message(false);
  }
}

std::string answer_model_metadata(wire_reader request, model_backend& backend) {
  const auto model = read_model_name(request);
  return model_metadata_message(backend.describe(model.name, model.version));
}

std::string answer_health(wire_reader request, model_backend& backend) {
  const auto service = read_service_name(request);
  const auto status = health_of(service, backend);
  if (!status) {
    throw request_error(request_status::not_found, "there is no service " + quoted_name(service));
  }
  return health_message(*status);
}

template <query_handler handler>
grpc::ServerGenericBidiReactor* make_query(grpc_context& context,
                                           grpc::CallbackServerContext& call) {
  return new query_call(context, call, handler);
}

grpc::ServerGenericBidiReactor* make_infer(grpc_context& context,
                                           grpc::CallbackServerContext& call) {
  return new infer_call(context, call);
}

grpc::ServerGenericBidiReactor* start(grpc_context& context,
                                      const std::shared_ptr<streaming_call>& call) {
  call->start();
  context.calls.add(call);
  return call.get();
}

grpc::ServerGenericBidiReactor* make_stream(grpc_context& context,
                                            grpc::CallbackServerContext& call) {
  return start(context, std::make_shared<stream_call>(context, call));
}

grpc::ServerGenericBidiReactor* make_watch(grpc_context& context,
                                           grpc::CallbackServerContext& call) {
  return start(context, std::make_shared<watch_call>(context, call));
}

struct method {
  std::string_view path;
  grpc::ServerGenericBidiReactor* (*make)(grpc_context& context, grpc::CallbackServerContext& call);
};

/// The methods that are served. The others of open_inference.proto would stand here, too.
constexpr std::array methods{
    method{"/inference.GRPCInferenceService/ServerLive", make_query<answer_live>},
    method{"/inference.GRPCInferenceService/ServerReady", make_query<answer_ready>},
    method{"/inference.GRPCInferenceService/ServerMetadata", make_query<answer_metadata>},
    method{"/inference.GRPCInferenceService/ModelReady", make_query<answer_model_ready>},
    method{"/inference.GRPCInferenceService/ModelMetadata", make_query<answer_model_metadata>},
    method{"/inference.GRPCInferenceService/ModelInfer", make_infer},
    method{"/inference.GRPCInferenceService/ModelStreamInfer", make_stream},
    method{"/grpc.health.v1.Health/Check", make_query<answer_health>},
    method{"/grpc.health.v1.Health/Watch", make_watch},
};

}  // namespace

grpc::ServerGenericBidiReactor* make_call(grpc_context& context,
                                          grpc::GenericCallbackServerContext& call) {
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const method& each) { return each.path == call.method(); });
  if (found == methods.end()) return new unknown_call(call.method());
  return found->make(context, call);
}

}  // namespace sluice::service
