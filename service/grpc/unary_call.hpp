// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/grpc/grpc_context.hpp"
#include "service/grpc/wire_reader.hpp"
#include "service/protocol/request_error.hpp"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

namespace sluice::service {

/// A call with one request and one reply. It destroys itself when gRPC has done with it.
class unary_call : public grpc::ServerGenericBidiReactor {
 public:
  void OnReadDone(bool is_read) final;
  void OnDone() final;

 protected:
  /// Begins to read the request.
  unary_call(grpc_context& context, grpc::CallbackServerContext& call)
      : context_(context), call_(call) {
    StartRead(&request_);
  }
  ~unary_call() override = default;

  /// The request was read. Either this throws, or one of the functions `finish` is called once,
  /// now or later, on any thread.
  virtual void answer(wire_reader request) = 0;

  /// Ends the call. The object may be gone when they return, unless gRPC calls one of its
  /// functions. A reply that does not fit into the budget of replies becomes an error.
  ///@{
  void finish(const grpc::ByteBuffer& reply);
  void finish(const request_error& error);
  ///@}

  [[nodiscard]] grpc_context& context() const noexcept { return context_; }

 private:
  grpc_context& context_;
  grpc::CallbackServerContext& call_;
  grpc::ByteBuffer request_{};
  grpc::ByteBuffer reply_{};
  std::unique_ptr<byte_charge> charge_{};  ///< for the reply
};

}  // namespace sluice::service
