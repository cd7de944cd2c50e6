// SPDX-License-Identifier: Apache-2.0
// sluiced serves models over the Open Inference Protocol.
#include "service/base/log.hpp"
#include "service/front/http_server.hpp"
#include "service/front/sequence_backend.hpp"
#include "service/front/service_options.hpp"
#include "service/front/status_router.hpp"
#include "service/front/thread_filter.hpp"
#include "service/front/worker_backend.hpp"
#include "service/grpc/grpc_front.hpp"
#include "service/grpc/grpc_log.hpp"

#include <sluice/version.hpp>

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <future>
#include <optional>
#include <pthread.h>
#include <string>
#include <thread>

namespace sluice::service {
namespace {

/// Allows as many descriptors as the system does: each connection and each version of a model has
/// one.
void raise_descriptor_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

/// Reads files again, or logs why they stay as they were.
template <class Files>
void read_again(Files& files, const char* name) noexcept {
  try {
    files.reload();
    write_log(log_level::info, "files were read again", {{"files", name}});
  } catch (const std::exception& e) {
    write_log(log_level::error, "files cannot be read again",
              {{"files", name}, {"problem", e.what()}});
  }
}

/// Waits for SIGTERM or SIGINT, which are blocked in all threads. SIGHUP has files read again, and
/// meanwhile sequences expire.
void wait_for_end(const sigset_t& signals, const service_options& settings,
                  const http_options& options, sequence_backend& sequences) {
  constexpr timespec interval{.tv_sec = 0, .tv_nsec = 100'000'000};
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &interval);
    sequences.expire();
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal != SIGHUP) continue;
    if (!settings.token_file.empty()) read_again(*options.access, "tokens");
    if (!settings.tenant_file.empty()) {
      read_again(*options.tenants, "tenants");
      options.regions->remove_forbidden();
    }
    if (options.tls) read_again(*options.tls, "certificates");
  }
}

void print_address(const char* protocol, const std::string& host, std::uint16_t port) {
  std::printf("sluiced %s: %s on %s, port %u\n", sluice::version.data(), protocol, host.c_str(),
              static_cast<unsigned>(port));
}

void print_addresses(const http_options& options, std::uint16_t port) {
  if (!options.address.empty()) {
    print_address(options.tls ? "HTTPS" : "HTTP", options.address, port);
  }
  if (!options.unix_path.empty()) {
    std::printf("sluiced %s: HTTP on unix:%s\n", sluice::version.data(), options.unix_path.c_str());
  }
}

void serve(const service_options& settings) {
  sigset_t signals{};
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // Otherwise the kernel would reap the workers.
  (void)std::signal(SIGCHLD, SIG_DFL);
  raise_descriptor_limit();
  // Beyond the limit of a file's size, writing to shared memory of a client is then an error.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  // The reader of the log may go.
  (void)std::signal(SIGPIPE, SIG_IGN);

  set_log_format(settings.log == "json" ? log_format::json : log_format::text);
  const auto http = http_options_of(settings);
  const auto grpc = grpc_options_of(settings, http);
  const auto metrics = metrics_options_of(settings);
  worker_backend workers(worker_options_of(settings));
  sequence_backend backend(workers);
  std::optional<http_server> server;
  redirect_grpc_log();
  std::optional<grpc_front> calls;
  std::optional<status_router> pages;
  std::optional<http_server> page_server;
  // The threads of the servers inherit the restriction. That of the workers has started before.
  std::async(std::launch::async, [&] {
    if (!restrict_thread()) {
      write_log(log_level::warning, "the kernel cannot restrict the system calls of threads", {});
    }
    server.emplace(http, backend);
    if (grpc) calls.emplace(*grpc, backend);
    pages.emplace(backend, *server);
    if (metrics) page_server.emplace(*metrics, backend, *pages);
  }).get();
  print_addresses(http, server->port());
  if (page_server) print_address("metrics", metrics->address, page_server->port());
  if (calls) print_address(grpc->tls ? "gRPC with TLS" : "gRPC", grpc->address, calls->port());
  std::fflush(stdout);
  {
    const auto receiving = workers.receive_on(server->loops());
    wait_for_end(signals, settings, http, backend);
    workers.drain();
    if (calls) calls->check_health();
    std::this_thread::sleep_for(std::chrono::seconds(settings.drain_delay));
  }
  const std::chrono::seconds timeout(settings.drain_timeout);
  const std::jthread calls_end([&] {
    if (calls) calls->stop(timeout);
  });
  server->stop(timeout);
}

}  // namespace
}  // namespace sluice::service

int main(int argc, char** argv) {
  try {
    sluice::service::service_options settings;
    int code = 0;
    if (!sluice::service::read_options(argc, argv, settings, code)) return code;
    sluice::service::serve(settings);
  } catch (const std::exception& e) {
    sluice::service::write_log(sluice::service::log_level::error, "sluiced failed",
                               {{"problem", e.what()}});
    return 1;
  }
  return 0;
}
