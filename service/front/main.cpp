// SPDX-License-Identifier: Apache-2.0
// sluiced serves models over the Open Inference Protocol.
#include "service/base/log.hpp"
#include "service/front/http_server.hpp"
#include "service/front/listen_address.hpp"
#include "service/front/sequence_backend.hpp"
#include "service/front/status_router.hpp"
#include "service/front/worker_backend.hpp"
#include "service/grpc/grpc_front.hpp"

#include <sluice/version.hpp>

#include <CLI/CLI.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

struct settings {
  std::string models{};
  std::vector<std::string> files{};
  std::vector<std::string> http{"127.0.0.1:8000"};
  std::string grpc{};  // empty: the default
  std::string metrics = "127.0.0.1:8002";
  tls_files tls{};
  std::string token_file{};
  bool is_insecure = false;
  std::string log = "text";
  std::vector<std::string> devices{"auto"};
  unsigned threads = 1;
  unsigned drain_delay = 0;               // in seconds
  unsigned drain_timeout = 30;            // in seconds
  unsigned hang_timeout = 60;             // in seconds
  std::optional<std::uint64_t> memory{};  // in bytes
};

/// The options of the server: at most one address and one Unix socket.
/// @throws std::invalid_argument if there are more, or if one needs protection
[[nodiscard]] http_options http_options_of(const settings& settings) {
  http_options options{.address = {}, .threads = settings.threads};
  if (!settings.tls.certificate.empty()) {
    options.tls = std::make_shared<tls_credentials>(settings.tls);
  }
  for (const auto& text : settings.http) {
    const auto where = parse_listen_address("--http", text);
    check_listen_address("--http", where,
                         {.has_tls = options.tls != nullptr, .is_insecure = settings.is_insecure});
    const bool is_unix = !where.unix_path.empty();
    if (!(is_unix ? options.unix_path : options.address).empty()) {
      throw std::invalid_argument("--http: there are two addresses of one kind");
    }
    options.unix_path += where.unix_path;
    if (is_unix) continue;
    options.address = where.address;
    options.port = where.port;
  }
  if (!settings.token_file.empty()) {
    options.access = std::make_shared<access_policy>(settings.token_file);
  }
  return options;
}

/// The options of gRPC; nothing if it is off.
/// @throws std::invalid_argument if its address needs protection
[[nodiscard]] std::optional<grpc_options> grpc_options_of(const settings& settings) {
  if (settings.grpc == "off") return std::nullopt;
  // It would let clients in that HTTP keeps out.
  if (!settings.token_file.empty() || !settings.tls.certificate.empty()) {
    if (settings.grpc.empty()) return std::nullopt;
    throw std::invalid_argument("--grpc: it has neither tokens nor TLS: give off");
  }
  const auto where =
      parse_listen_address("--grpc", settings.grpc.empty() ? "127.0.0.1:8001" : settings.grpc);
  if (!where.unix_path.empty()) throw std::invalid_argument("--grpc: it has no Unix socket");
  check_listen_address("--grpc", where, {.is_insecure = settings.is_insecure});
  return grpc_options{.address = where.address, .port = where.port};
}

/// The options of the metrics; nothing if they are off.
/// @throws std::invalid_argument if their address needs protection
[[nodiscard]] std::optional<http_options> metrics_options_of(const settings& settings) {
  if (settings.metrics == "off") return std::nullopt;
  const auto where = parse_listen_address("--metrics", settings.metrics);
  if (!where.unix_path.empty()) throw std::invalid_argument("--metrics: it has no Unix socket");
  check_listen_address("--metrics", where, {.is_insecure = settings.is_insecure});
  return http_options{.address = where.address, .port = where.port};
}

/// The program of a worker, which lies beside this one.
[[nodiscard]] std::string worker_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice-worker";
}

[[nodiscard]] worker_options worker_options_of(const settings& settings) {
  worker_options options;
  if (!settings.models.empty()) options.models.folder = settings.models;
  for (const auto& file : settings.files) options.models.files.push_back(parse_named_file(file));
  for (const auto& device : settings.devices) {
    worker_program program{.path = worker_path(), .arguments = {"--device", device}};
    if (settings.memory) {
      program.arguments.insert(program.arguments.end(),
                               {"--memory", std::to_string(*settings.memory)});
    }
    options.workers.push_back(std::move(program));
  }
  options.hang_timeout = std::chrono::seconds(settings.hang_timeout);
  return options;
}

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
void wait_for_end(const sigset_t& signals, const settings& settings, const http_options& options,
                  sequence_backend& sequences) {
  constexpr timespec interval{.tv_sec = 0, .tv_nsec = 100'000'000};
  while (true) {
    const int signal = sigtimedwait(&signals, nullptr, &interval);
    sequences.expire();
    if (signal == SIGTERM || signal == SIGINT) return;
    if (signal != SIGHUP) continue;
    if (!settings.token_file.empty()) read_again(*options.access, "tokens");
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

void serve(const settings& settings) {
  sigset_t signals{};
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // Otherwise the kernel would reap the workers.
  (void)std::signal(SIGCHLD, SIG_DFL);
  raise_descriptor_limit();

  set_log_format(settings.log == "json" ? log_format::json : log_format::text);
  const auto http = http_options_of(settings);
  const auto grpc = grpc_options_of(settings);
  const auto metrics = metrics_options_of(settings);
  worker_backend workers(worker_options_of(settings));
  sequence_backend backend(workers);
  http_server server(http, backend);
  std::optional<grpc_front> calls;
  if (grpc) calls.emplace(*grpc, backend);
  const status_router pages(backend, server);
  std::optional<http_server> page_server;
  if (metrics) page_server.emplace(*metrics, backend, pages);
  print_addresses(http, server.port());
  if (page_server) print_address("metrics", metrics->address, page_server->port());
  if (calls) print_address("gRPC", grpc->address, calls->port());
  std::fflush(stdout);
  {
    const auto receiving = workers.receive_on(server.loops());
    wait_for_end(signals, settings, http, backend);
    workers.drain();
    if (calls) calls->check_health();
    std::this_thread::sleep_for(std::chrono::seconds(settings.drain_delay));
  }
  const std::chrono::seconds timeout(settings.drain_timeout);
  const std::jthread calls_end([&] {
    if (calls) calls->stop(timeout);
  });
  server.stop(timeout);
}

/// Reads the options. Returns whether there is something to do, else `code` is that of the process.
[[nodiscard]] bool read_options(int argc, char** argv, settings& settings, int& code) {
  CLI::App app("Serves ONNX models over the Open Inference Protocol");
  app.set_version_flag("--version", sluice::version.data());
  app.set_config("--config", "", "A file with these options (TOML)");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--models", settings.models, "Folder of a model repository")
      ->check(CLI::ExistingDirectory);
  app.add_option("--model", settings.files,
                 "NAME=PATH: a model in a file of its own; may be repeated");
  app.add_option("--http", settings.http,
                 "Where HTTP is served: ADDRESS:PORT or unix:PATH; may be repeated for both")
      ->capture_default_str();
  app.add_option("--grpc", settings.grpc,
                 "Address and port of gRPC, or off; 127.0.0.1:8001 unless there are tokens or TLS");
  app.add_option("--token-file", settings.token_file,
                 "File with the tokens of clients: lines NAME ROLE SHA256, role infer or admin");
  auto* const certificate =
      app.add_option("--tls-certificate", settings.tls.certificate,
                     "PEM file with the certificate of the server and those that sign it");
  auto* const key = app.add_option("--tls-key", settings.tls.key, "PEM file with its key");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--tls-client-ca", settings.tls.client_ca,
                 "PEM file with the certificates that sign those of clients, which all need then")
      ->needs(certificate);
  app.add_flag(
      "--insecure", settings.is_insecure,
      "Serve other machines without encryption, behind a proxy or on a network of your own");
  app.add_option("--metrics", settings.metrics,
                 "Address and port of the metrics and the status page, or off")
      ->capture_default_str();
  app.add_option("--log", settings.log, "Format of the log on standard error")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_option("--device", settings.devices,
                 "Device of a worker process: auto (the first GPU, else the host), host, cuda or "
                 "cuda:N; may be repeated")
      ->check(CLI::Validator(
          [](std::string& name) {
            const bool is_device = name == "auto" || name == "host" || name == "cuda" ||
                                   (name.rfind("cuda:", 0) == 0 && name.size() > 5 &&
                                    name.find_first_not_of("0123456789", 5) == std::string::npos);
            return is_device ? std::string() : "there is no device \"" + name + "\"";
          },
          "DEVICE"))
      ->capture_default_str();
  app.add_option("--threads", settings.threads, "Threads that read and write HTTP")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--drain-delay", settings.drain_delay,
                 "Seconds between the signal to end and the end of accepting connections")
      ->capture_default_str();
  app.add_option("--drain-timeout", settings.drain_timeout,
                 "Seconds that requests in flight have after that")
      ->capture_default_str();
  app.add_option("--hang-timeout", settings.hang_timeout,
                 "Seconds after which a worker that computes nothing is replaced")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
  app.add_option("--memory", settings.memory,
                 "Memory of a device that models may use, as in 8GiB (default: three quarters of "
                 "the free memory for host, all for a GPU)")
      ->transform(CLI::AsSizeValue(false));
  try {
    app.parse(argc, argv);
    if (settings.models.empty() && settings.files.empty()) {
      throw CLI::ValidationError("no models: give --models or --model");
    }
    return true;
  } catch (const CLI::ParseError& e) {
    constexpr int usage = 2;
    code = app.exit(e) == 0 ? 0 : usage;
    return false;
  }
}

}  // namespace
}  // namespace sluice::service

int main(int argc, char** argv) {
  try {
    sluice::service::settings settings;
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
