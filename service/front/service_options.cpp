// SPDX-License-Identifier: Apache-2.0
#include "service/front/service_options.hpp"

#include "service/front/listen_address.hpp"
#include "service/front/worker_device.hpp"

#include <sluice/version.hpp>

#include <CLI/CLI.hpp>

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <utility>

namespace sluice::service {
namespace {

/// The program of a worker, which lies beside this one.
[[nodiscard]] std::string worker_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "sluice-worker";
}

}  // namespace

bool read_options(int argc, char** argv, service_options& settings, int& code) {
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
  app.add_option("--grpc", settings.grpc, "Address and port of gRPC, or off")
      ->capture_default_str();
  app.add_option("--token-file", settings.token_file,
                 "File with the tokens of clients: lines NAME ROLE SHA256, role infer or admin");
  app.add_option("--tenant-file", settings.tenant_file,
                 "File with what tenants may do besides the roles of their tokens (TOML)");
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
                 "Device of a worker process: auto (the first GPU, else the host), host, cuda, "
                 "cuda:N or the UUID of a GPU; may be repeated")
      ->check(CLI::Validator(
          [](std::string& name) {
            return is_worker_device(name) ? std::string() : "there is no device \"" + name + "\"";
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

http_options http_options_of(const service_options& settings) {
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
  if (!settings.tenant_file.empty()) {
    options.tenants = std::make_shared<tenant_registry>(settings.tenant_file);
    options.regions = std::make_shared<region_registry>(options.tenants);
  }
  return options;
}

std::optional<grpc_options> grpc_options_of(const service_options& settings,
                                            const http_options& http) {
  if (settings.grpc == "off") return std::nullopt;
  const auto where = parse_listen_address("--grpc", settings.grpc);
  if (!where.unix_path.empty()) throw std::invalid_argument("--grpc: it has no Unix socket");
  // Strangers could use the denials of service of gRPC 1.51, which distributions package.
  const bool is_protected =
      settings.is_insecure || (http.tls && http.tls->needs_client_certificates());
  if (!is_protected && !is_loopback_address(where.address)) {
    throw std::invalid_argument(
        "--grpc: other machines reach " + where.address +
        ", which is safe only if their clients need certificates: give --tls-certificate, "
        "--tls-key and --tls-client-ca, or --insecure if a proxy or the network protects it");
  }
  return grpc_options{.address = where.address,
                      .port = where.port,
                      .tls = http.tls,
                      .access = http.access,
                      .tenants = http.tenants,
                      .regions = http.regions};
}

std::optional<http_options> metrics_options_of(const service_options& settings) {
  if (settings.metrics == "off") return std::nullopt;
  const auto where = parse_listen_address("--metrics", settings.metrics);
  if (!where.unix_path.empty()) throw std::invalid_argument("--metrics: it has no Unix socket");
  check_listen_address("--metrics", where, {.is_insecure = settings.is_insecure});
  return http_options{.address = where.address, .port = where.port};
}

worker_options worker_options_of(const service_options& settings) {
  worker_options options;
  if (!settings.models.empty()) options.models.folder = settings.models;
  for (const auto& file : settings.files) options.models.files.push_back(parse_named_file(file));
  for (const auto& device : settings.devices) {
    worker_program program{.path = worker_path()};
    set_worker_device(program, device);
    if (settings.memory) {
      program.arguments.insert(program.arguments.end(),
                               {"--memory", std::to_string(*settings.memory)});
    }
    options.workers.push_back(std::move(program));
  }
  options.hang_timeout = std::chrono::seconds(settings.hang_timeout);
  return options;
}

}  // namespace sluice::service
