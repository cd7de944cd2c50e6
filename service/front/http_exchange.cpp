// SPDX-License-Identifier: Apache-2.0
// The part of http_connection from the head of a request to its reply.
#include "service/front/http_connection.hpp"
#include "service/front/http_error.hpp"
#include "service/front/inference_run.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

namespace sluice::service {
namespace {

namespace asio = boost::asio;

// A short rest of a body is cheaper to read than a new connection is to set up.
constexpr std::uint64_t most_discarded = std::uint64_t{64} << 10;

// At most this text of each connection is left out of the budget of replies.
constexpr std::size_t most_uncounted_text = std::size_t{64} << 10;

constexpr std::string_view invitation = "HTTP/1.1 100 Continue\r\n\r\n";

[[nodiscard]] http_reply failure_reply(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const http_error& error) {
    return make_error_reply(error.status(), error.what());
  } catch (const request_error& error) {
    return make_error_reply(error);
  } catch (const std::bad_alloc&) {
    return make_error_reply(503, "the server is out of memory");
  } catch (...) {
    return make_error_reply(500, "the server failed");
  }
}

/// @throws http_error 403 if the request comes from a page, or for another name
void check_origin(const request_head& head, const host_policy& hosts) {
  if (!hosts.is_restricted()) return;
  if (head.has_origin) throw http_error(403, "the server does not answer to pages of browsers");
  const bool has_no_host = head.is_http_1_0 && head.host.empty();
  if (!has_no_host && !hosts.permits(head.host)) {
    throw http_error(403, "the server does not have the name in Host");
  }
}

}  // namespace

bool http_connection::read_head() {
  const auto& limits = context_.options.limits;
  // Some clients send an empty line after a body.
  if (skips_empty_line_ && buffer_.text().substr(0, 2) == "\r\n") {
    buffer_.consume(2);
    searched_ = 0;
    skips_empty_line_ = false;
  }
  const std::string_view text = buffer_.text();
  // Until the head is understood it is not known where the next request begins.
  closes_ = true;
  is_head_request_ = false;
  body_ = {};
  const auto length = find_head_end(text, searched_);
  if (length.value_or(text.size() + 1) > limits.head_bytes) {
    throw http_error(431, "the head of the request is too large");
  }
  if (!length) return false;
  const request_head head = parse_request_head(text.substr(0, *length), limits);
  closes_ = false;
  buffer_.consume(*length);
  begin_request(head);
  return true;
}

void http_connection::begin_request(const request_head& head) {
  const std::uint64_t body_limit = context_.options.limits.body_bytes;
  request_since_ = clock::now();
  deadline_.reset();
  if (head.timeout) deadline_ = request_since_ + *head.timeout;
  is_counted_ = true;
  context_.statistics.begin_request();
  is_head_request_ = head.method == http_method::head;
  is_http_1_0_ = head.is_http_1_0;
  keeps_alive_ = head.keeps_alive;
  body_ = request_body(head, body_limit);
  awaits_invitation_ = head.expects_continue && head.has_body() && !head.is_http_1_0;

  try {
    if (!origin_.is_unix) check_origin(head, context_.hosts);
  } catch (const http_error&) {
    context_.statistics.count_refused_origin();
    throw;
  }
  if (head.path == "*") {
    if (head.method != http_method::options) throw http_error(400, "the path is *");
    return reply_with({.status = 204, .allow = "GET, HEAD, POST, OPTIONS"});
  }
  route_ = context_.router.find(head.path);
  const auto allowed = allowed_methods(route_.target);
  if (!allows(route_.target, head.method)) {
    auto reply = make_error_reply(405, "the path does not have this method");
    reply.allow = allowed;
    return reply_with(std::move(reply));
  }
  if (head.method == http_method::options) return reply_with({.status = 204, .allow = allowed});
  tenant_.clear();
  trace_ = parse_trace_parent(head.trace_parent);
  const auto role = required_role(route_.target);
  if (role != access_role::none) {
    tenant_ = context_.options.access->admit(head.authorization, origin_, role);
  }
  if (route_.target == endpoint::region_status) return reply_with(make_region_status());
  if (!takes_body(route_.target)) return reply_with(context_.router.answer(route_));

  if (route_.target == endpoint::infer) {
    reader_.begin(body_, head.json_bytes, body_limit, tenant_);
  } else {
    begin_text();
  }
  if (awaits_invitation_ && buffer_.empty()) {
    awaits_invitation_ = false;
    written_.assign(1, asio::const_buffer(invitation.data(), invitation.size()));
    enter(state::inviting);
    return write(written_);
  }
  awaits_invitation_ = false;
  enter(state::body);
}

bool http_connection::read_body() {
  if (route_.target != endpoint::infer) return read_text();
  switch (reader_.read(buffer_, body_)) {
    case inference_reader::need::bytes:
      return false;
    case inference_reader::need::work:
      run_aside(
          reader_.regions().input_bytes() > 0 ? context_.copy_threads : context_.json_threads,
          state::parsing, [this] { reader_.work(); }, [this] { enter(state::body); });
      return true;
    case inference_reader::need::nothing:
      submit();
      return true;
  }
  return false;
}

bool http_connection::discard_body() {
  const std::uint64_t bytes = std::min<std::uint64_t>(buffer_.size(), *body_.plain_bytes());
  buffer_.consume(static_cast<std::size_t>(bytes));
  body_.take_plain(bytes);
  if (!body_.is_done()) return false;
  write_reply();
  return true;
}

void http_connection::run_aside(asio::thread_pool& threads, state meanwhile,
                                std::function<void()> work, std::function<void()> then) {
  enter(meanwhile);
  asio::post(
      threads, [self = shared_from_this(), busy = asio::make_work_guard(stream_.get_executor()),
                work = std::move(work), then = std::move(then)]() mutable {
        std::exception_ptr failure;
        try {
          work();
        } catch (...) {
          failure = std::current_exception();
        }
        const auto executor = busy.get_executor();
        // The loop holds the connection from now on, so that its thread destroys it.
        asio::post(executor, [self = std::move(self), then = std::move(then),
                              failure = std::move(failure)] { self->finish_aside(failure, then); });
      });
}

void http_connection::finish_aside(const std::exception_ptr& failure,
                                   const std::function<void()>& then) {
  if (state_ == state::closed) return;
  if (has_hung_up_) return close();
  continue_with([&] {
    if (failure) std::rethrow_exception(failure);
    then();
  });
}

void http_connection::submit() {
  if (has_hung_up_) return close();
  deadline_ = deadline_of(reader_.request(), request_since_, deadline_);
  if (deadline_ && clock::now() > *deadline_) {
    throw request_error(request_status::deadline_exceeded,
                        "the deadline passed before the request was there");
  }
  auto run = make_run(reader_.request(), route_, deadline_, number_);
  run.tenant = tenant_;
  run.trace = trace_;
  run.charge = reader_.take_charge();
  auto pending = begin_run();
  try {
    run_number_ = context_.backend.submit(
        std::move(run), reader_.take_inputs(),
        [pending](run_result result) { pending->deliver(std::move(result)); });
  } catch (...) {
    pending->forget();
    throw;
  }
  run_ = std::move(pending);
}

std::shared_ptr<pending_run> http_connection::begin_run() {
  const std::uint64_t count = ++runs_;
  auto pending =
      std::make_shared<pending_run>([self = shared_from_this(), count](run_result result) mutable {
        const auto executor = self->stream_.get_executor();
        // The loop holds the connection from now on, so that its thread destroys it.
        asio::post(executor, [self = std::move(self), count, result = std::move(result)]() mutable {
          self->on_result(count, std::move(result));
        });
      });
  enter(state::running);
  return pending;
}

void http_connection::on_result(std::uint64_t run, run_result result) {
  if (state_ != state::running || run != runs_) return;
  run_.reset();
  continue_with([&] {
    const auto& request = reader_.request();
    if (route_.target != endpoint::infer) {
      return reply_with(result.error ? make_error_reply(*result.error) : http_reply{.text = "{}"});
    }
    const bool copies = reader_.regions().output_bytes(result) > 0;
    if (result.error ||
        (json_output_bytes(request, result) <= most_json_between_reads && !copies)) {
      return reply_with(make_reply(std::move(result)));
    }
    result_ = std::move(result);
    run_aside(
        copies ? context_.copy_threads : context_.json_threads, state::composing,
        [this] { reply_ = charged(make_reply(std::move(result_))); },
        [this] { reply_with(std::move(reply_)); });
  });
}

http_reply http_connection::make_reply(run_result result) const {
  return make_run_reply(reader_.request(), reader_.regions(), route_, std::move(result));
}

/// Such a reply, or 429 if clients have not taken too many bytes of replies.
http_reply http_connection::charged(http_reply reply) {
  const std::size_t bytes = reply.text.size();
  if (bytes <= most_uncounted_text || reply_charge_.try_grow_to(bytes)) return reply;
  return make_error_reply(
      request_error(request_status::resource_exhausted,
                    "clients have not taken their replies, which have too many bytes of text"));
}

void http_connection::cancel_run() noexcept {
  if (!run_) return;
  run_->forget();
  run_.reset();
  if (route_.target == endpoint::infer) context_.backend.cancel(run_number_);
}

void http_connection::reply_with(http_reply reply) {
  // A request that was not submitted ends now, before its client can send the next one.
  (void)reader_.take_charge();
  reply_ = charged(std::move(reply));
  const auto rest = body_.plain_bytes();
  const bool is_worth_reading = rest && *rest <= most_discarded && !awaits_invitation_;
  if (!body_.is_done() && is_worth_reading && keeps_alive_ && !closes_) {
    return enter(state::discarding);
  }
  write_reply();
}

void http_connection::reply_with_failure(const std::exception_ptr& failure) {
  reply_with(failure_reply(failure));
}

}  // namespace sluice::service
