// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/grpc/send_deadlines.hpp"
#include "service/grpc/wire_reader.hpp"
#include "service/protocol/request_error.hpp"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

namespace sluice::service {

/// A call with any number of requests, each of which is answered with one message, in any order.
///
/// It ends once the client has sent its last request and all are answered, when the client hangs
/// up, or when the server drains. It keeps itself alive until gRPC has done with it.
class streaming_call : public grpc::ServerGenericBidiReactor,
                       public std::enable_shared_from_this<streaming_call> {
 public:
  ~streaming_call() override = default;

  /// Begins to read. Called once.
  void start();
  /// Reads no further requests and ends once those that were read are answered. Thread-safe.
  void drain() noexcept;
  /// The server is ready, or is not any more. Thread-safe.
  virtual void note_health(bool /*is_ready*/) {}

  void OnReadDone(bool is_read) final;
  void OnWriteDone(bool is_written) final;
  void OnCancel() final;
  void OnDone() final;

 protected:
  /// @param most_unanswered  requests that are read and whose answers are not sent
  streaming_call(send_deadlines& sends, grpc::CallbackServerContext& call,
                 std::size_t most_unanswered)
      : sends_(sends), call_(call), most_unanswered_(most_unanswered) {}

  /// A request was read, which `answer` or `drop` has to follow, now or later. An exception ends
  /// the call.
  virtual void receive(wire_reader message) = 0;
  /// The client has hung up.
  virtual void on_hang_up() noexcept {}
  /// The server drains.
  virtual void on_drain() noexcept {}

  /// Answers a request.
  /// @param charge  is kept until the client has taken the message
  void answer(const grpc::ByteBuffer& message, std::unique_ptr<byte_charge> charge = nullptr);
  /// Ends the call with an error, which answers the request. Others are answered before.
  void fail(const request_error& error) noexcept;
  /// Requests will have no answer.
  void drop(std::size_t requests) noexcept;
  /// Reads no further requests until `resume_reading`, which has to follow. `receive` calls it.
  void hold_reading() noexcept;
  void resume_reading() noexcept;
  /// Sends a message that leaves the request unanswered.
  void send(const grpc::ByteBuffer& message);

 private:
  struct outgoing {
    grpc::ByteBuffer message{};
    std::unique_ptr<byte_charge> charge{};  ///< null: too short to count
  };

  /// Does what the state allows. Needs the mutex.
  void proceed();
  void hang_up() noexcept;

  send_deadlines& sends_;
  grpc::CallbackServerContext& call_;
  const std::size_t most_unanswered_;
  std::shared_ptr<streaming_call> self_{};  ///< until `OnDone`

  std::mutex mutex_{};
  // Guarded by mutex_.
  grpc::ByteBuffer received_{};
  outgoing sent_{};
  std::deque<outgoing> waiting_{};  ///< to be sent
  std::size_t unanswered_ = 0;
  bool is_reading_ = false;
  bool is_held_ = false;  ///< between `hold_reading` and `resume_reading`
  bool is_writing_ = false;
  bool is_input_over_ = false;
  bool has_hung_up_ = false;
  bool is_finished_ = false;
  std::optional<grpc::Status> end_{};  ///< why no further requests are read
};

}  // namespace sluice::service
