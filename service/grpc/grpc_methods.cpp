// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/grpc_methods.hpp"

#include "service/front/listen_address.hpp"
#include "service/front/queries.hpp"
#include "service/front/routes.hpp"
#include "service/grpc/call_admission.hpp"
#include "service/grpc/call_status.hpp"
#include "service/grpc/config_message.hpp"
#include "service/grpc/infer_call.hpp"
#include "service/grpc/message_buffer.hpp"
#include "service/grpc/query_messages.hpp"
#include "service/grpc/reflection_call.hpp"
#include "service/grpc/region_call.hpp"
#include "service/grpc/repository_call.hpp"
#include "service/grpc/repository_messages.hpp"
#include "service/grpc/statistics_message.hpp"
#include "service/grpc/stream_call.hpp"
#include "service/grpc/unary_call.hpp"
#include "service/grpc/watch_call.hpp"
#include "service/protocol/quoted_name.hpp"

#include <sluice/version.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::service {
namespace {

/// Makes the reply to a request that needs no worker.
/// @throws request_error if there is none
using query_handler = std::string (*)(wire_reader request, grpc_context& context);

class query_call final : public unary_call {
 public:
  query_call(grpc_context& context, grpc::CallbackServerContext& call, query_handler handler)
      : unary_call(context, call), handler_(handler) {}

 private:
  void answer(wire_reader request) override {
    finish(to_byte_buffer(handler_(request, context())));
  }

  query_handler handler_;
};

/// A call that ends before its message is read.
class refused_call final : public grpc::ServerGenericBidiReactor {
 public:
  explicit refused_call(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

std::string answer_live(wire_reader, grpc_context&) {
  return ready_message(true);
}

std::string answer_ready(wire_reader, grpc_context& context) {
  return ready_message(context.backend.is_ready());
}

std::string answer_metadata(wire_reader, grpc_context& context) {
  return server_metadata_message("sluiced", sluice::version,
                                 served_extensions(*context.options.regions).subspan(1));
}

std::string answer_model_ready(wire_reader request, grpc_context& context) {
  const auto model = read_model_name(request);
  try {
    (void)context.backend.describe(model.name, model.version);
    return ready_message(true);
  } catch (const request_error& reason) {
    if (reason.status() != request_status::not_found &&
        reason.status() != request_status::unavailable) {
      throw;
    }
    return ready_message(false);
  }
}

std::string answer_model_metadata(wire_reader request, grpc_context& context) {
  const auto model = read_model_name(request);
  return model_metadata_message(context.backend.describe(model.name, model.version));
}

std::string answer_config(wire_reader request, grpc_context& context) {
  const auto model = read_model_name(request);
  return config_message(context.backend.configuration(model.name, model.version));
}

std::string answer_statistics(wire_reader request, grpc_context& context) {
  const auto model = read_optional_model_name(request);
  return statistics_message(context.backend.status(), model.name, model.version);
}

std::string answer_index(wire_reader request, grpc_context& context) {
  const bool only_ready = read_index_request(request);
  return repository_index_message(context.backend.index(), only_ready);
}

std::string answer_health(wire_reader request, grpc_context& context) {
  const auto service = read_service_name(request);
  const auto status = health_of(service, context.backend);
  if (!status) {
    throw request_error(request_status::not_found, "there is no service " + quoted_name(service));
  }
  return health_message(*status);
}

template <query_handler handler>
grpc::ServerGenericBidiReactor* make_query(grpc_context& context, grpc::CallbackServerContext& call,
                                           const call_admission& /*admission*/) {
  return new query_call(context, call, handler);
}

template <region_action action>
grpc::ServerGenericBidiReactor* make_region(grpc_context& context,
                                            grpc::CallbackServerContext& call,
                                            const call_admission& admission) {
  return new region_call(context, call, admission.tenant(), action);
}

grpc::ServerGenericBidiReactor* make_infer(grpc_context& context, grpc::CallbackServerContext& call,
                                           const call_admission& admission) {
  return new infer_call(context, call, admission);
}

template <repository_action action>
grpc::ServerGenericBidiReactor* make_repository(grpc_context& context,
                                                grpc::CallbackServerContext& call,
                                                const call_admission& /*admission*/) {
  return new repository_call(context, call, action);
}

grpc::ServerGenericBidiReactor* start(grpc_context& context,
                                      const std::shared_ptr<streaming_call>& call) {
  call->start();
  context.calls.add(call);
  return call.get();
}

grpc::ServerGenericBidiReactor* make_stream(grpc_context& context,
                                            grpc::CallbackServerContext& call,
                                            const call_admission& admission) {
  return start(context, std::make_shared<stream_call>(context, call, admission));
}

grpc::ServerGenericBidiReactor* make_watch(grpc_context& context, grpc::CallbackServerContext& call,
                                           const call_admission& /*admission*/) {
  return start(context, std::make_shared<watch_call>(context, call));
}

grpc::ServerGenericBidiReactor* make_reflection(grpc_context& context,
                                                grpc::CallbackServerContext& call,
                                                const call_admission& /*admission*/) {
  return start(context, std::make_shared<reflection_call>(context, call));
}

/// Only a server on a loopback address describes its services.
[[nodiscard]] bool is_served(std::string_view path, const grpc_options& options) {
  return !path.starts_with("/grpc.reflection.") || is_loopback_address(options.address);
}

struct method {
  std::string_view path;
  endpoint target;  ///< of HTTP, which needs the same role
  grpc::ServerGenericBidiReactor* (*make)(grpc_context& context, grpc::CallbackServerContext& call,
                                          const call_admission& admission);
};

/// The methods that are served. The others of open_inference.proto would stand here, too.
constexpr std::array methods{
    method{"/inference.GRPCInferenceService/ServerLive", endpoint::server_live,
           make_query<answer_live>},
    method{"/inference.GRPCInferenceService/ServerReady", endpoint::server_ready,
           make_query<answer_ready>},
    method{"/inference.GRPCInferenceService/ServerMetadata", endpoint::server_metadata,
           make_query<answer_metadata>},
    method{"/inference.GRPCInferenceService/ModelReady", endpoint::model_ready,
           make_query<answer_model_ready>},
    method{"/inference.GRPCInferenceService/ModelMetadata", endpoint::model_metadata,
           make_query<answer_model_metadata>},
    method{"/inference.GRPCInferenceService/ModelConfig", endpoint::model_config,
           make_query<answer_config>},
    method{"/inference.GRPCInferenceService/ModelStatistics", endpoint::model_statistics,
           make_query<answer_statistics>},
    method{"/inference.GRPCInferenceService/ModelInfer", endpoint::infer, make_infer},
    method{"/inference.GRPCInferenceService/ModelStreamInfer", endpoint::infer, make_stream},
    method{"/inference.GRPCInferenceService/RepositoryIndex", endpoint::repository_index,
           make_query<answer_index>},
    method{"/inference.GRPCInferenceService/RepositoryModelLoad", endpoint::model_load,
           make_repository<repository_action::load>},
    method{"/inference.GRPCInferenceService/RepositoryModelUnload", endpoint::model_unload,
           make_repository<repository_action::unload>},
    method{"/inference.GRPCInferenceService/SystemSharedMemoryStatus", endpoint::region_status,
           make_region<region_action::status>},
    method{"/inference.GRPCInferenceService/SystemSharedMemoryRegister", endpoint::region_register,
           make_region<region_action::add>},
    method{"/inference.GRPCInferenceService/SystemSharedMemoryUnregister",
           endpoint::region_unregister, make_region<region_action::remove>},
    method{"/grpc.health.v1.Health/Check", endpoint::server_ready, make_query<answer_health>},
    method{"/grpc.health.v1.Health/Watch", endpoint::server_ready, make_watch},
    method{"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", endpoint::server_metadata,
           make_reflection},
    method{"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
           endpoint::server_metadata, make_reflection},
};

}  // namespace

grpc::ServerGenericBidiReactor* make_call(grpc_context& context,
                                          grpc::GenericCallbackServerContext& call) {
  const auto found = std::find_if(methods.begin(), methods.end(),
                                  [&](const method& each) { return each.path == call.method(); });
  std::optional<call_admission> admission;
  try {
    if (found == methods.end() || !is_served(found->path, context.options)) {
      throw request_error(request_status::unimplemented,
                          "the method " + quoted_name(call.method()) + " is not served");
    }
    admission.emplace(context.options, call, required_role(found->target));
  } catch (...) {
    return new refused_call(failed_status(error_of(std::current_exception()), call));
  }
  return found->make(context, call, *admission);
}

}  // namespace sluice::service
