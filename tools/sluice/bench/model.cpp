// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/model.hpp"

#include "tools/io/displayed.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/model_tensors.hpp"
#include "tools/sluice/option_values.hpp"

#include <sluice/operations/blas.hpp>
#include <sluice/operations/convolution.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <span>

namespace sluice::cli {

namespace {

constexpr std::size_t window = 8;         // requests in flight of the row with a window
constexpr std::size_t max_in_batch = 64;  // requests in a batch
constexpr std::size_t most_clients = 1024;
constexpr std::int64_t requests_in_round = 4;  // the fewest of a client

/// The first number of a list, and what follows the comma.
std::vector<std::size_t> parse_clients(const std::string& text) {
  std::vector<std::size_t> clients;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find(',', start), text.size());
    const auto count = static_cast<std::size_t>(
        parse_integer("--clients", text.substr(start, end - start), 1, most_clients));
    if (std::find(clients.begin(), clients.end(), count) != clients.end())
      throw error(errc::invalid_argument, fmt::format("--clients: {} is named twice", count));
    clients.push_back(count);
    start = end + 1;
  }
  return clients;
}

std::string clients_text(std::size_t count) {
  return fmt::format("{} client{}", count, count == 1 ? "" : "s");
}

/// "scores.onnx: image 1x3x224x224 f16"
std::string title_of(const std::string& path, const model_program& compiled,
                     const named_specs& specs, model_precision precision) {
  std::vector<std::string> inputs;
  for (const auto& name : compiled.inputs) {
    const auto& spec = specs.at(name);
    inputs.push_back(fmt::format("{} {} {}", io::displayed(name),
                                 shape_text(std::span(spec.shape.begin(), spec.shape.end())),
                                 to_string(spec.type)));
  }
  return fmt::format(
      "{}: {}{}", io::displayed(std::filesystem::path(path).filename().string()),
      fmt::join(inputs, ", "),
      precision == model_precision::original ? "" : fmt::format(", as {}", name_of(precision)));
}

class model_suite {
 public:
  explicit model_suite(bench_run& run)
      : run_(run),
        session_(run.current),
        bench_(*run.model),
        network_(bench_.opened->network),
        stated_(bench_.opened->read(bench_.source)) {
    auto shapes = shapes_of(network_, stated_);
    if (!shapes.problem.empty())
      throw error(errc::invalid_argument,
                  fmt::format("{}: {}", io::displayed(bench_.source.path), shapes.problem));
    specs_ = std::move(shapes.specs);
  }

  void measure() {
    measure_first_answer();
    prepare_batches();
    measure_rates();
  }

 private:
  /// The inputs of requests, each on the host and on the device.
  struct input_set {
    std::vector<host_tensor> on_host;
    std::vector<tensor> on_device;
  };

  void measure_first_answer() {
    auto start = clock::now();
    single_ =
        program_for(network_, stated_.tensors, specs_, values_, {.precision = bench_.precision});
    const auto program_us = microseconds_since(start);
    const auto clients = *std::max_element(bench_.clients.begin(), bench_.clients.end());
    const auto set_count = std::max(clients, window);
    require_memory_for("MODEL", session_, single_, specs_, 2 * set_count);
    auto inputs = new_inputs();
    start = clock::now();
    (void)session_.ask<host_tensors>(session_.device().programs(),
                                     request<run_to_host>(single_, inputs));
    const auto run_us = microseconds_since(start);
    run_.report.add(
        "model/first_answer", "The first answer",
        std::vector<time_row>{{"open_us", "reading of the file", bench_.opening_us},
                              {"program_us", "making of the program", program_us},
                              {"run_us", "first run, from and to the host", run_us},
                              {"total_us", "together", bench_.opening_us + program_us + run_us}});
    const auto add_set = [&](std::vector<host_tensor> on_host) {
      auto on_device = upload_tensors(session_, on_host);
      sets_.push_back({std::move(on_host), std::move(on_device)});
    };
    add_set(std::move(inputs));
    while (sets_.size() < set_count) add_set(new_inputs());
  }

  void prepare_batches() {
    const auto start = clock::now();
    batched_ = program_for(network_, stated_.tensors, specs_, values_,
                           {.max_in_batch = max_in_batch, .precision = bench_.precision});
    auto not_batched = prepare(batched_).not_batched;
    (void)prepare(batched_, true);
    run_.report.add_value("model/first_answer/batches_prepared_us", microseconds_since(start));
    if (batched_.max_in_batch == 1) not_batched = batched_.batching.reason;
    run_.report.add_value("model/precision", name_of(bench_.precision));
    run_.report.add_value("model/max_in_batch", batched_.max_in_batch);
    run_.report.add_value("model/not_batched", not_batched);
    run_.report.add_line(fmt::format(
        "  requests are {}", not_batched.empty()
                                 ? fmt::format("launched together, up to {}", batched_.max_in_batch)
                                 : "launched alone: " + not_batched));
  }

  void measure_rates() {
    const auto alone = session_.device().programs();
    paired_rounds ways(run_, "model/rates",
                       title_of(bench_.source.path, single_, specs_, bench_.precision),
                       {.unit = "a second", .pieces_per_second = 1});
    ways.add(way<sluice::run>("alone", alone, single_, 1, 1));
    ways.add(
        way<sluice::run>(fmt::format("alone, {} in flight", window), alone, single_, 1, window));
    const auto add = [&](way_of_work work, std::size_t clients) {
      work.mean_batch = [run = work.run, sizes = sizes_, clients] {
        sizes->clear();
        (void)run(requests_in_round * static_cast<std::int64_t>(clients));
        return sizes->mean();
      };
      ways.add(std::move(work));
    };
    for (const auto clients : bench_.clients)
      add(way<sluice::run>(clients_text(clients), together_, batched_, clients, 1), clients);
    const auto most = *std::max_element(bench_.clients.begin(), bench_.clients.end());
    add(way<run_to_host>(clients_text(most) + ", from and to the host", together_, batched_, most,
                         1),
        most);
    ways.measure();
  }

  [[nodiscard]] std::vector<host_tensor> new_inputs() {
    return input_tensors(single_, stated_.tensors, specs_, random_source());
  }

  template <class Request, class Tensor>
  [[nodiscard]] static Request request(const model_program& compiled,
                                       const std::vector<Tensor>& inputs) {
    Request request{.what = compiled.program};
    for (const auto& x : inputs) request.inputs.emplace_back(x);
    return request;
  }

  /// Waits until the executables of a program for batches are prepared and its kernels compiled.
  prepared prepare(const model_program& compiled, bool to_host = false) {
    sluice::prepare description{.what = compiled.program, .to_host = to_host};
    for (const auto& name : compiled.inputs) description.inputs.push_back(specs_.at(name));
    for (;;) {
      auto facts = session_.ask<prepared>(together_, description);
      // A GPU has the kernels a moment after the first run.
      (void)session_.ask<tensors>(together_,
                                  request<sluice::run>(compiled, sets_.front().on_device));
      if (facts.not_fused != "the kernels are being compiled") return facts;
    }
  }

  /// Requests with inputs in turns. While they exist, a waiting copy of one of them counts as a
  /// small part of the program, whose constants may exceed what a queue takes.
  template <class Request>
  [[nodiscard]] std::vector<Request> requests_of(const model_program& compiled,
                                                 std::size_t clients) const {
    std::vector<Request> requests;
    for (std::size_t i = 0; i < std::max(operand_sets, 4 * clients); ++i) {
      const auto& set = in_turns(sets_, static_cast<std::int64_t>(i));
      if constexpr (std::is_same_v<Request, run_to_host>) {
        requests.push_back(request<Request>(compiled, set.on_host));
      } else {
        requests.push_back(request<Request>(compiled, set.on_device));
      }
    }
    return requests;
  }

  /// The requests of clients.
  template <class Request>
  [[nodiscard]] way_of_work way(std::string name, const program_actor& target,
                                const model_program& compiled, std::size_t clients,
                                std::size_t in_flight) const {
    using reply = typename request_reply<Request>::type;
    auto latencies = std::make_shared<latency_log>();
    const auto load = std::make_shared<load_clients<reply>>(
        session_.system(), clients, in_flight, target,
        [requests = std::make_shared<const std::vector<Request>>(
             requests_of<Request>(compiled, clients))](std::size_t client, std::size_t i) {
          return std::tuple(in_turns(*requests, static_cast<std::int64_t>(client + i)));
        },
        latencies);
    return {.name = std::move(name),
            .run = sending(load),
            .fewest_pieces = requests_in_round * static_cast<std::int64_t>(clients * in_flight),
            .latencies = std::move(latencies)};
  }

  bench_run& run_;
  session& session_;
  const model_bench& bench_;
  const model& network_;
  stated_shapes stated_;
  named_specs specs_;
  named_tensors values_;
  model_program single_;
  model_program batched_;
  std::vector<input_set> sets_;
  std::shared_ptr<batch_sizes> sizes_ = std::make_shared<batch_sizes>();
  /// Of the requests that are launched together.
  program_actor together_ =
      spawn_programs(session_.system(), session_.device().shared_service(), sizes_);
};

}  // namespace

std::vector<named_file> model_bench::open() {
  const auto start = clock::now();
  opened = open_model(source);
  opening_us = microseconds_since(start);
  return opened->files(source);
}

void add_model_options(CLI::App& command, model_bench& bench) {
  add_model_argument(command, bench.source)
      ->description("With WHAT = model, the model, an ONNX file");
  add_shape_options(command, bench.source);
  add_precision_option(command, bench.precision);
  command
      .add_option_function<std::string>(
          "--clients", [&bench](const std::string& text) { bench.clients = parse_clients(text); },
          "With WHAT = model, the numbers of clients, each with one request in flight [1,8,64]")
      ->type_name("N,N,...");
}

void require_model_options(const CLI::App& command, bool is_model_suite) {
  if (is_model_suite && command.count("MODEL") == 0)
    throw error(errc::invalid_argument, "MODEL: the suite model needs a file");
  if (is_model_suite) return;
  for (const auto* const name :
       {"MODEL", "--dimension", "--shape", "--input", "--precision", "--clients"}) {
    if (command.count(name) != 0)
      throw error(errc::invalid_argument, fmt::format("{}: needs the suite model", name));
  }
}

void bench_model(bench_run& run) {
  model_suite(run).measure();
  run.report.set_library(run.library_of<gemm>() + ", " + run.library_of<convolution>());
}

}  // namespace sluice::cli
