// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/service/service_command.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/bench/service/echo_server.hpp"
#include "tools/sluice/bench/service/grpc_load.hpp"
#include "tools/sluice/bench/service/load_loop.hpp"
#include "tools/sluice/bench/service/served_model.hpp"
#include "tools/sluice/bench/service/service_rounds.hpp"
#include "tools/sluice/memory.hpp"
#include "tools/sluice/option_values.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/version.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

namespace sluice::cli {

namespace {

struct service_options {
  std::string http = "127.0.0.1:8000";
  std::string grpc{};
  std::string model{};
  requested_inputs inputs{};
  std::string token_file{};
  std::size_t clients = 1;
  std::size_t threads = 1;
  std::size_t rounds = 9;
  double seconds = 1;
  bool floor = false;
  bool json = false;
};

/// What the clients take in turns.
struct variant {
  std::vector<std::string> inputs;
  std::string request;      ///< of HTTP
  std::uint64_t reply = 0;  ///< bytes of the reply of HTTP
  std::uint64_t reply_json = 0;
  std::uint64_t data = 0;  ///< bytes of outputs
};

std::string read_token(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream file(path);
  std::string token;
  if (!std::getline(file, token) || token.empty() ||
      !std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < '\x7f'; })) {
    throw error(errc::invalid_argument,
                fmt::format("--token-file: {}: the first line is no token", io::displayed(path)));
  }
  return token;
}

/// A server under load of the options.
class service_bench {
 public:
  explicit service_bench(const service_options& options)
      : options_(options),
        http_{resolve_server("--http", options.http), read_token(options.token_file)},
        model_(describe_model(http_, options.model, options.inputs)) {
    if (!options.grpc.empty()) (void)resolve_server("--grpc", options.grpc);
    require_memory();
    make_variants();
  }

  void measure() {
    const auto first = options_.floor ? add_floors() : std::size_t{0};
    const auto echo = options_.floor ? std::optional(first) : std::nullopt;
    rounds_.add(
        {.name = "HTTP", .load = http_load(http_.server), .bytes = message_bytes(), .echo = echo});
    if (!options_.grpc.empty()) add_grpc();
    rounds_.measure(options_.rounds,
                    std::chrono::duration_cast<load_counts::clock::duration>(
                        std::chrono::duration<double>(options_.seconds)),
                    source_);
    print_report();
    if (const auto errors = rounds_.errors_text(); !errors.empty())
      throw error(errc::library_failure, errors);
  }

 private:
  /// Requests are kept as they are sent, and a floor has buffers for each connection.
  void require_memory() const {
    const auto copies = options_.floor ? 6 * options_.clients + 16 : 16;
    if (saturating_multiply(model_.bytes, copies) <= available_memory()) return;
    throw error(
        errc::invalid_argument,
        fmt::format("--shape: requests of {} bytes need more memory than there is", model_.bytes));
  }

  /// Makes the requests, and asks the service for the sizes of their replies.
  void make_variants() {
    constexpr std::size_t most_variants = 16;
    constexpr std::uint64_t most_bytes = std::uint64_t{64} << 20;
    const auto count =
        std::clamp<std::uint64_t>(most_bytes / std::max<std::uint64_t>(model_.bytes, 1), 1,
                                  std::min(options_.clients, most_variants));
    while (variants_.size() < count) {
      auto inputs = random_inputs(model_, source_);
      auto request = http_request(http_, model_, inputs);
      const auto reply = call_http(http_.server, request);
      if (reply.head.status != 200) {
        throw error(errc::library_failure,
                    fmt::format("{}: {}", io::displayed(options_.http),
                                http_error_text(reply.head.status, reply.body)));
      }
      // Only gRPC needs the inputs again.
      if (options_.grpc.empty()) inputs.clear();
      variants_.push_back({.inputs = std::move(inputs),
                           .request = std::move(request),
                           .reply = reply.head.size + reply.head.body,
                           .reply_json = reply.head.json,
                           .data = reply.head.data()});
    }
  }

  [[nodiscard]] const variant& variant_of(std::size_t client) const {
    return variants_[client % variants_.size()];
  }
  [[nodiscard]] std::uint64_t message_bytes() const {
    return variants_.front().request.size() + variants_.front().reply;
  }

  [[nodiscard]] std::function<load_counts(load_counts::clock::duration)> load(
      load_loop loop) const {
    loop.clients = options_.clients;
    loop.threads = options_.threads;
    return [loop = std::move(loop)](auto time) {
      return loop.run(time);
    };
  }

  [[nodiscard]] std::function<load_counts(load_counts::clock::duration)> http_load(
      server_address server) const {
    return load(
        {.server = std::move(server), .client = [this](std::size_t client) {
           const auto& variant = variant_of(client);
           return load_client{&variant.request, std::make_unique<http_reply_reader>(variant.data)};
         }});
  }

  /// Adds the servers that do nothing. Returns the number of that of HTTP.
  std::size_t add_floors() {
    const auto& model = variants_.front();
    const echo_sizes sizes{model.request.size(), model.reply, model.reply_json, model.data};
    servers_.push_back(echo_server::of_bytes(sizes));
    rounds_.add({.name = "raw socket",
                 .load = load({.server = servers_.back().address(),
                               .client =
                                   [this, sizes](std::size_t) {
                                     return load_client{
                                         &variants_.front().request,
                                         std::make_unique<sized_reply_reader>(sizes.reply)};
                                   }}),
                 .bytes = message_bytes()});
    servers_.push_back(echo_server::of_http(sizes));
    return rounds_.add({.name = "HTTP echo",
                        .load = load({.server = servers_.back().address(),
                                      .client =
                                          [this, data = model.data](std::size_t) {
                                            return load_client{
                                                &variants_.front().request,
                                                std::make_unique<http_reply_reader>(data)};
                                          }}),
                        .bytes = message_bytes()});
  }

  void add_grpc() {
    std::vector<grpc_load::exchange> exchanges;
    for (const auto& variant : variants_)
      exchanges.push_back({grpc_message(model_, variant.inputs), variant.data});
    const auto bytes = exchanges.front().message.size() + exchanges.front().data;
    auto load =
        std::make_shared<grpc_load>(options_.grpc, http_.token, options_.clients, exchanges);
    rounds_.add(
        {.name = "gRPC",
         .load = [load, threads = options_.threads](auto time) { return load->run(threads, time); },
         .bytes = bytes});
  }

  void print_report() const {
    bench_report report;
    report.add_value("service/model", model_.name);
    report.add_value("service/clients", options_.clients);
    report.add_value("service/seconds", options_.seconds);
    report.add_value("service/input_bytes", model_.bytes);
    report.add_value("service/output_bytes", variants_.front().data);
    rounds_.add_to(
        report, fmt::format("{}: {}; {} bytes of inputs, {} of outputs", io::displayed(model_.name),
                            model_.inputs_text(), model_.bytes, variants_.front().data));
    const auto threads = std::thread::hardware_concurrency();
    if (options_.json) {
      nlohmann::ordered_json json = {
          {"version", version},
          {"machine", {{"hardware_threads", threads}}},
          {"conditions",
           {{"threads", options_.threads}, {"rounds", {{"measured", options_.rounds}}}}}};
      json.update(report.json());
      print(json.dump(2) + '\n');
      return;
    }
    print(fmt::format(
        "sluice {}: {} with {} processors; {} client{} on {} thread{}; {} round{} of "
        "{} s\n\n{}",
        version, io::displayed(options_.http), threads, options_.clients,
        options_.clients == 1 ? "" : "s", options_.threads, options_.threads == 1 ? "" : "s",
        options_.rounds, options_.rounds == 1 ? "" : "s", options_.seconds, report.text()));
  }

  const service_options& options_;
  std::mt19937_64 source_{std::random_device()()};
  http_service http_;
  served_model model_;
  std::vector<variant> variants_{};
  std::vector<echo_server> servers_{};
  service_rounds rounds_{};
};

/// Takes "NAME=VALUE" or, for the only input, "VALUE". `parse` makes what is kept of the value.
template <class T, class Parse>
void add_by_input(const char* option, std::map<std::string, T>& requested, const std::string& text,
                  const Parse& parse) {
  const auto equals = text.rfind('=');
  const auto name = equals == std::string::npos ? "" : text.substr(0, equals);
  auto value = parse(equals == std::string::npos ? text : text.substr(equals + 1));
  if (!requested.emplace(name, std::move(value)).second)
    throw error(errc::invalid_argument,
                fmt::format("{}: '{}' has two", option, io::displayed(name)));
}

/// Refuses the options of `sluice bench` itself.
void require_no_options(const CLI::App& bench) {
  for (const auto* const option : bench.get_options()) {
    if (option->count() == 0) continue;
    throw error(errc::invalid_argument,
                fmt::format("{}: is no option of bench service", option->get_name()));
  }
}

}  // namespace

void add_bench_service_command(CLI::App& bench) {
  const auto options = std::make_shared<service_options>();
  CLI::App& command = *bench.add_subcommand("service", "Measure a running service");
  command.add_option("--http", options->http, "Where the service listens [127.0.0.1:8000]")
      ->type_name("HOST:PORT|unix:PATH");
  command.add_option("--grpc", options->grpc, "Also measure gRPC, here")->type_name("HOST:PORT");
  command.add_option("--model", options->model, "The model")->type_name("NAME")->required();
  const auto add_inputs = [&](const char* name, auto& requested, auto parse,
                              const std::string& description) {
    return command
        .add_option_function<std::vector<std::string>>(
            name,
            [options, name, parse, &requested](const std::vector<std::string>& texts) {
              for (const auto& text : texts) add_by_input(name, requested, text, parse);
            },
            description)
        ->allow_extra_args(false);
  };
  add_inputs(
      "--shape", options->inputs.shapes,
      [](const std::string& text) { return parse_shape("--shape", text); },
      "The shape of an input; may be repeated")
      ->type_name("[INPUT=]N,N,...");
  add_inputs(
      "--value", options->inputs.values, [](const std::string& text) { return text; },
      "The number that all elements of an input are, instead of random ones; may be repeated")
      ->type_name("[INPUT=]NUMBER");
  const auto add_count = [&](const char* name, auto& count, std::int64_t most,
                             const std::string& description) {
    command
        .add_option_function<std::string>(
            name,
            [options, name, most, &count](const std::string& text) {
              count =
                  static_cast<std::decay_t<decltype(count)>>(parse_integer(name, text, 1, most));
            },
            description)
        ->type_name("N");
  };
  add_count("--batch", options->inputs.batch, std::int64_t{1} << 32,
            "The first extent of inputs without a shape, where it is free [1]");
  add_count("--clients", options->clients, 4096, "Clients, each with one request in flight [1]");
  add_count("--threads", options->threads, 256, "Threads of the clients [1]");
  add_count("--rounds", options->rounds, 1000, "How often everything is measured [9]");
  command
      .add_option_function<std::string>(
          "--seconds",
          [options](const std::string& text) {
            options->seconds = parse_finite("--seconds", text);
            if (options->seconds <= 0 || options->seconds > 3600)
              throw error(errc::invalid_argument, "--seconds: not above 0 and at most 3600");
          },
          "The length of a load, of each protocol in each round [1]")
      ->type_name("S");
  command.add_flag("--floor", options->floor,
                   "Also measure servers of this process that only echo: a raw socket, and HTTP");
  add_input(command, "--token-file", options->token_file,
            "A file whose first line is the token of the clients")
      ->type_name("FILE");
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options, &bench] {
    require_no_options(bench);
    service_bench(*options).measure();
  });
}

}  // namespace sluice::cli
