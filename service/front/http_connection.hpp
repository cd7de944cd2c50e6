// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/front/byte_budget.hpp"
#include "service/front/client_stream.hpp"
#include "service/front/front_context.hpp"
#include "service/front/http_reply.hpp"
#include "service/front/inference_reader.hpp"
#include "service/front/pending_run.hpp"
#include "service/front/read_buffer.hpp"
#include "service/front/request_body.hpp"
#include "service/front/request_head.hpp"
#include "service/front/routes.hpp"

#include <boost/asio/buffer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::service {

class connection_loop;

/// A connection of a client. It answers one request after the other.
///
/// While a run is in flight the connection goes on reading, at most one buffer, so that it sees
/// when the client hangs up. It then cancels the run. A client that ends its side of the connection
/// before it has its answer has hung up.
///
/// All functions are for the thread of the loop.
class http_connection : public std::enable_shared_from_this<http_connection> {
 public:
  using clock = std::chrono::steady_clock;
  /// What was accepted.
  struct client {
    client_stream::socket socket;
    std::shared_ptr<boost::asio::ssl::context> tls{};  ///< null: without TLS
    connection_origin origin{};
  };

  /// `number` is of this connection alone.
  http_connection(client accepted, std::uint64_t number, front_context& context,
                  connection_loop& loop);
  ~http_connection() { close(); }

  void start();
  /// Closes the connection if its client has taken too long.
  void check_deadlines(clock::time_point now);
  /// Closes the connection once it has answered.
  void drain();
  /// Closes the connection and cancels its run.
  void abort() noexcept;

 private:
  enum class state : std::uint8_t {
    handshake,   ///< agrees on the keys of TLS
    head,        ///< reads the head of a request, or waits for one
    inviting,    ///< writes 100 Continue
    body,        ///< reads the body of a request
    parsing,     ///< another thread parses, or reads shared memory
    running,     ///< the backend runs, loads or unloads the model
    composing,   ///< another thread writes the JSON text of the reply, or shared memory
    discarding,  ///< reads the rest of a body whose request is answered already
    writing,     ///< writes the reply
    lingering,   ///< discards what comes until the client closes
    closed
  };

  // http_connection.cpp: reading, writing and deadlines.
  void enter(state next);
  template <class Function>
  void continue_with(Function function);
  void advance();
  void step();
  void read_more();
  void on_read(const boost::system::error_code& failure, std::size_t bytes, std::size_t direct);
  void write_reply();
  void end_request() noexcept;
  void write(std::span<const boost::asio::const_buffer> buffers);
  void on_written(const boost::system::error_code& failure);
  void end();
  void linger();
  void close() noexcept;
  [[nodiscard]] bool is_too_slow(clock::time_point now, std::chrono::milliseconds longest) const;

  // http_exchange.cpp: from a head to the reply.
  [[nodiscard]] bool read_head();
  void begin_request(const request_head& head);
  [[nodiscard]] bool read_body();
  [[nodiscard]] bool discard_body();
  void run_aside(boost::asio::thread_pool& threads, state meanwhile, std::function<void()> work,
                 std::function<void()> then);
  void finish_aside(const std::exception_ptr& failure, const std::function<void()>& then);
  void submit();
  [[nodiscard]] std::shared_ptr<pending_run> begin_run();
  void on_result(std::uint64_t run, run_result result);
  void reply_with(http_reply reply);
  void reply_with_failure(const std::exception_ptr& failure);
  void cancel_run() noexcept;

  [[nodiscard]] http_reply make_reply(run_result result) const;
  [[nodiscard]] http_reply charged(http_reply reply);

  // http_repository.cpp: requests about the repository and shared memory.
  void begin_text();
  [[nodiscard]] bool read_text();
  void answer_repository_request();
  [[nodiscard]] http_reply make_region_status() const;
  [[nodiscard]] http_reply change_regions() const;

  client_stream stream_;
  const connection_origin origin_;
  const std::uint64_t number_;
  front_context& context_;
  connection_loop& loop_;

  state state_ = state::head;
  clock::time_point state_since_ = clock::now();
  std::uint64_t state_bytes_ = 0;  ///< read or written in the state
  bool is_reading_ = false;        ///< a read is in flight
  bool has_hung_up_ = false;       ///< the client has ended its side
  read_buffer buffer_;

  // The request.
  std::size_t searched_ = 0;  ///< bytes of the buffer that hold no end of a head
  bool skips_empty_line_ = true;
  bool is_head_request_ = false;
  bool is_http_1_0_ = false;
  bool keeps_alive_ = false;
  bool awaits_invitation_ = false;  ///< the client sends the body after 100 Continue
  route route_{};
  std::string tenant_{};
  std::optional<trace_context> trace_{};
  clock::time_point request_since_{};
  bool is_counted_ = false;  ///< among the requests in flight
  std::optional<clock::time_point> deadline_{};
  request_body body_{};
  inference_reader reader_;
  std::string text_{};  ///< the body of a request about the repository

  // The run.
  std::uint64_t runs_ = 0;  ///< of the connection so far
  std::shared_ptr<pending_run> run_{};
  model_backend::number run_number_ = 0;
  run_result result_{};  ///< while another thread reads it

  // The reply.
  http_reply reply_{};
  byte_charge reply_charge_{context_.replies};  ///< for its text, as long as that exists
  bool closes_ = false;                         ///< after the reply
  std::string head_{};
  std::vector<boost::asio::const_buffer> written_{};
};

/// Calls the function, then goes on until the client, the backend or another thread has to do
/// something. Answers with what is thrown.
template <class Function>
void http_connection::continue_with(Function function) {
  try {
    try {
      function();
      step();
    } catch (...) {
      reply_with_failure(std::current_exception());
      step();
    }
  } catch (...) {
    abort();
  }
}

}  // namespace sluice::service
