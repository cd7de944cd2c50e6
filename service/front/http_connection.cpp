// SPDX-License-Identifier: Apache-2.0
#include "service/front/http_connection.hpp"

#include "service/front/connection_loop.hpp"

#include <boost/asio/error.hpp>
#include <boost/asio/write.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::service {
namespace {

namespace asio = boost::asio;

constexpr std::size_t least_buffer_bytes = std::size_t{32} << 10;
constexpr std::size_t most_bytes_a_write = std::size_t{256} << 10;

[[nodiscard]] asio::mutable_buffer to_buffer(std::span<std::byte> bytes) noexcept {
  return {bytes.data(), bytes.size()};
}

/// Buffers that their owner keeps until they are written.
struct buffers_view {
  using value_type = asio::const_buffer;
  using const_iterator = const asio::const_buffer*;
  const_iterator first;
  const_iterator last;
  [[nodiscard]] const_iterator begin() const noexcept { return first; }
  [[nodiscard]] const_iterator end() const noexcept { return last; }
};

}  // namespace

http_connection::http_connection(client accepted, std::uint64_t number, front_context& context,
                                 connection_loop& loop)
    : stream_(std::move(accepted.socket), std::move(accepted.tls)),
      origin_(accepted.origin),
      number_(number),
      context_(context),
      loop_(loop),
      buffer_(std::max(least_buffer_bytes, context.options.limits.head_bytes)),
      reader_(context.backend, context.json, *context.options.tenants, *context.options.regions) {}

void http_connection::start() {
  loop_.insert(*this);
  if (!stream_.has_tls()) return read_more();
  enter(state::handshake);
  stream_.async_handshake([self = shared_from_this()](const boost::system::error_code& failure) {
    if (self->state_ == state::closed) return;
    if (failure) return self->close();
    self->enter(state::head);
    self->read_more();
  });
}

void http_connection::enter(state next) {
  state_ = next;
  state_since_ = clock::now();
  state_bytes_ = 0;
}

void http_connection::advance() {
  continue_with([] {});
}

void http_connection::step() {
  while (true) {
    bool goes_on = false;
    switch (state_) {
      case state::head:
        goes_on = read_head();
        break;
      case state::body:
        goes_on = read_body();
        break;
      case state::discarding:
        goes_on = discard_body();
        break;
      case state::lingering:
        buffer_.consume(buffer_.size());
        break;
      case state::running:
        break;
      case state::handshake:
      case state::inviting:
      case state::parsing:
      case state::composing:
      case state::writing:
      case state::closed:
        return;
    }
    if (!goes_on) return read_more();
  }
}

/// Reads into the tensor that is due, if any, and the buffer.
void http_connection::read_more() {
  if (is_reading_ || state_ == state::closed) return;
  std::span<std::byte> direct{};
  // With TLS, a read that was cancelled may still write when the tensor is gone.
  if (state_ == state::body && buffer_.empty() && !stream_.has_tls()) {
    direct = reader_.direct_target(body_);
  }
  const auto room = buffer_.prepare();
  if (direct.empty() && room.empty()) return;
  is_reading_ = true;
  auto handler = [self = shared_from_this(), direct_bytes = direct.size()](
                     const boost::system::error_code& failure, std::size_t bytes) {
    self->on_read(failure, bytes, std::min(bytes, direct_bytes));
  };
  if (direct.empty()) {
    stream_.async_read_some(to_buffer(room), std::move(handler));
  } else {
    stream_.async_read_some(std::array{to_buffer(direct), to_buffer(room)}, std::move(handler));
  }
}

void http_connection::on_read(const boost::system::error_code& failure, std::size_t bytes,
                              std::size_t direct) {
  is_reading_ = false;
  if (state_ == state::closed) return;
  if (state_ == state::head && buffer_.empty() && bytes > 0) enter(state::head);
  state_bytes_ += bytes;
  context_.statistics.count_received(bytes);
  if (direct > 0 && state_ == state::body) reader_.take_direct(direct, body_);
  buffer_.commit(bytes - direct);
  // A deadline that ends the reading of a body aborts the read.
  if (!failure || failure == asio::error::operation_aborted) return advance();

  has_hung_up_ = true;
  switch (state_) {
    case state::running:
      cancel_run();
      return close();
    case state::head:
    case state::body:
    case state::discarding:
    case state::lingering:
      return close();
    default:
      return;  // the write or the other thread notices
  }
}

void http_connection::write_reply() {
  closes_ = closes_ || !keeps_alive_ || has_hung_up_ || loop_.is_draining() || !body_.is_done();
  const auto option = closes_        ? connection_option::close
                      : is_http_1_0_ ? connection_option::named_keep_alive
                                     : connection_option::keep_alive;
  write_reply_head(head_, reply_, option);
  written_.clear();
  written_.emplace_back(head_.data(), head_.size());
  if (!is_head_request_) {
    if (!reply_.text.empty()) written_.emplace_back(reply_.text.data(), reply_.text.size());
    for (const auto& tensor : reply_.binary) {
      if (!tensor.empty()) written_.emplace_back(tensor.data(), tensor.size());
    }
  }
  // Before the first byte: a client that has its reply finds it counted.
  context_.statistics.count_reply(reply_.status);
  end_request();
  enter(state::writing);
  write(written_);
}

void http_connection::end_request() noexcept {
  if (std::exchange(is_counted_, false)) {
    context_.statistics.end_request(clock::now() - request_since_);
  }
}

void http_connection::write(std::span<const asio::const_buffer> buffers) {
  asio::async_write(
      stream_, buffers_view{buffers.data(), buffers.data() + buffers.size()},
      [this](const boost::system::error_code& failure, std::size_t total) -> std::size_t {
        state_bytes_ = total;
        return failure ? 0 : most_bytes_a_write;
      },
      [self = shared_from_this()](const boost::system::error_code& failure, std::size_t bytes) {
        self->context_.statistics.count_sent(bytes);
        self->on_written(failure);
      });
}

void http_connection::on_written(const boost::system::error_code& failure) {
  if (state_ == state::closed) return;
  if (failure) return close();
  if (state_ == state::inviting) {
    enter(state::body);
    return advance();
  }
  const bool has_unread_bytes = !body_.is_done() || !buffer_.empty();
  std::string().swap(reply_.text);  // an assignment might keep its memory
  reply_ = {};
  reply_charge_.release();
  result_ = {};
  reader_.reset();
  // A drain that began during the write has left the connection alone.
  closes_ = closes_ || (loop_.is_draining() && buffer_.empty());
  if (closes_) return has_unread_bytes && !has_hung_up_ ? linger() : end();
  enter(state::head);
  searched_ = 0;
  skips_empty_line_ = true;
  advance();
}

/// With TLS the client learns that nothing was cut off.
void http_connection::end() {
  stream_.has_tls() && !has_hung_up_ ? linger() : close();
}

/// Closing a socket with unread bytes resets the connection, which can take the reply from a client
/// that is still sending.
void http_connection::linger() {
  enter(state::lingering);
  const auto discard = [this] {
    stream_.begin_discarding();
    advance();
  };
  if (!stream_.has_tls()) return discard();
  // It fails at bytes that the client has sent meanwhile, but it tells the client first.
  stream_.async_shutdown([self = shared_from_this(), discard](const boost::system::error_code&) {
    if (self->state_ == state::lingering) discard();
  });
}

void http_connection::close() noexcept {
  if (state_ == state::closed) return;
  state_ = state::closed;
  if (is_counted_) context_.statistics.count_reply(499);
  end_request();
  stream_.close();
  loop_.erase(*this);
}

void http_connection::drain() {
  if (state_ == state::handshake) close();
  if (state_ == state::head && buffer_.empty()) end();
}

void http_connection::abort() noexcept {
  if (state_ == state::running) cancel_run();
  close();
}

bool http_connection::is_too_slow(clock::time_point now, std::chrono::milliseconds longest) const {
  using seconds = std::chrono::duration<double>;
  const auto& deadlines = context_.options.deadlines;
  const auto elapsed = now - state_since_;
  if (elapsed > longest) return true;
  const double due = static_cast<double>(deadlines.least_rate) *
                     std::chrono::duration_cast<seconds>(elapsed - deadlines.grace).count();
  return static_cast<double>(state_bytes_) < due;
}

void http_connection::check_deadlines(clock::time_point now) {
  const auto& deadlines = context_.options.deadlines;
  const auto elapsed = now - state_since_;
  const auto time_out = [&](unsigned status, const char* message) {
    // A read into the memory of a tensor must not outlive that memory.
    stream_.cancel();
    closes_ = closes_ || status == 408;  // only there part of the request is unread
    reply_ = make_error_reply(status, message);
    write_reply();
  };
  switch (state_) {
    case state::handshake:
      if (elapsed > deadlines.head) close();
      return;
    case state::head:
      if (buffer_.empty()) {
        if (elapsed > deadlines.idle) end();
      } else if (elapsed > deadlines.head) {
        is_head_request_ = false;
        time_out(408, "the head of the request took too long");
      }
      return;
    case state::body:
      if (is_too_slow(now, deadlines.body)) time_out(408, "the body of the request took too long");
      return;
    case state::running:
      if (deadline_ && now > *deadline_) {
        cancel_run();
        time_out(504, "the deadline passed before the result was there");
      }
      return;
    case state::discarding:
      if (is_too_slow(now, deadlines.body)) close();
      return;
    case state::inviting:
    case state::writing:
      if (is_too_slow(now, deadlines.write)) close();
      return;
    case state::lingering:
      if (elapsed > deadlines.linger) close();
      return;
    case state::parsing:
    case state::composing:
    case state::closed:
      return;
  }
}

}  // namespace sluice::service
