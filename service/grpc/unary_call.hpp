// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/grpc/send_deadlines.hpp"
#include "service/grpc/wire_reader.hpp"
#include "service/protocol/request_error.hpp"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

namespace sluice::service {

/// A call with one request and one reply. It destroys itself when gRPC has done with it.
class unary_call : public grpc::ServerGenericBidiReactor {
 public:
  void OnReadDone(bool is_read) final;
  void OnDone() final;

 protected:
  /// Begins to read the request.
  unary_call(send_deadlines& sends, grpc::CallbackServerContext& call)
      : sends_(sends), call_(call) {
    StartRead(&request_);
  }
  ~unary_call() override = default;

  /// The request was read. Either this throws, or one of the functions `finish` is called once,
  /// now or later, on any thread.
  virtual void answer(wire_reader request) = 0;

  /// Ends the call. The object may be gone when they return, unless gRPC calls one of its
  /// functions.
  ///@{
  void finish(const grpc::ByteBuffer& reply);
  void finish(const request_error& error);
  ///@}

 private:
  send_deadlines& sends_;
  grpc::CallbackServerContext& call_;
  grpc::ByteBuffer request_{};
  grpc::ByteBuffer reply_{};
};

}  // namespace sluice::service
