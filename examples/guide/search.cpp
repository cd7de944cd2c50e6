// SPDX-License-Identifier: Apache-2.0
// The service of docs/guide.md: how well documents fit queries.
#include "index_of_max.hpp"

#include <sluice/actors/device.hpp>
#include <sluice/envelope/chrome_trace.hpp>
#include <sluice/operations/indexed_operation.hpp>
#include <sluice/runtime/dlpack.hpp>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

using namespace sluice;
using std::chrono::milliseconds;

// 1 if index_of_max.cu is compiled, too.
#ifndef SEARCH_HAS_CUDA
#define SEARCH_HAS_CUDA 0
#endif

/// The position of the largest element of each row of X, a matrix of f32.
struct index_of_max {
  operand x{};
  operand y{};
  static constexpr auto members() {
    return std::make_tuple(input("x", &index_of_max::x), output("y", &index_of_max::y));
  }
  static constexpr std::string_view name = "index_of_max";
  static constexpr bool has_kernel = SEARCH_HAS_CUDA;
  struct call {
    std::size_t count;
    std::size_t columns;
  };
  static call infer(const index_of_max& op, inference& inference) {
    const auto& x = inference.require(op.x);
    if (x.type != element_type::f32) throw inference.refusal(op.x, "is not f32");
    if (x.rank() != 2 || x.shape[1] == 0)
      throw inference.refusal(op.x, "is no matrix with columns");
    inference.result(op.y, element_type::i64, {x.shape[0]});
    return {static_cast<std::size_t>(x.shape[0]), static_cast<std::size_t>(x.shape[1])};
  }
  static index_of_max_body body(const call& c, const launch_of<index_of_max>& launch) {
    return {c.columns, launch.get<const float>(&index_of_max::x),
            launch.get<std::int64_t>(&index_of_max::y)};
  }
};

program make_program(host_tensor documents) {
  program_builder p;
  const auto queries = p.input("queries");
  const auto table = p.constant("documents", std::move(documents));
  const auto scaled = p.add("scaled", affine{.x = queries, .factor = p.scalar("factor")});
  const auto scores = p.add("scores", gemm{.a = scaled, .b = table.transposed()});
  const auto best = p.add("best", reduce{.x = scores, .kind = reduction::max, .axes = {1}});
  const auto found = p.add("found", index_of_max{.x = scores});
  return std::move(p).build({scores, best, found});
}

/// Asks for the scores of all documents, and for the best score of each query with its document.
/// The answer stays on the device.
struct score {
  run_input queries{};     ///< f32, of shape [queries, features]
  double temperature = 1;  ///< divides the scores; positive
};
/// Asks for the same in host memory, within a time limit.
struct best_score {
  run_input queries{};     ///< f32, of shape [queries, features]
  milliseconds limit{20};  ///< the time for the answer
};
using search_service =
    caf::typed_actor<takes<tensors(score)>, takes<tensors(score, request_options)>,
                     takes<host_tensors(best_score)>, takes<void(cancel_request)>>;

SLUICE_MESSAGES(guide, 210, score, best_score)

struct search_state {
  const char* name = "guide.search";
  program_actor programs;
  program search;
};
using service = search_service::stateful_pointer<search_state>;

/// Refuses queries that the program would treat as a batch of matrices.
void require_matrix(const run_input& queries) {
  if (queries.shape().size() != 2) {
    throw error(errc::invalid_argument, "queries: must be a matrix");
  }
}

caf::result<tensors> answer(service self, score& request, const request_options& options) {
  try {
    const auto& state = state_of(self);
    require_matrix(request.queries);
    if (!(request.temperature > 0)) {
      throw error(errc::invalid_argument, "temperature: must be positive");
    }
    return delegate(self, state.programs,
                    run{.what = state.search,
                        .inputs = {std::move(request.queries)},
                        .scalars = {1 / request.temperature}},
                    options);
  } catch (...) {
    return to_caf_error(current_error());
  }
}

caf::result<host_tensors> answer(service self, best_score& request) {
  try {
    const auto& state = state_of(self);
    require_matrix(request.queries);
    return delegate(
        self, state.programs,
        run_to_host{.what = state.search, .inputs = {std::move(request.queries)}, .scalars = {1}},
        request_options{.deadline = deadline_after(request.limit), .tag = "best"});
  } catch (...) {
    return to_caf_error(current_error());
  }
}

search_service::behavior_type behavior(service self, const program_actor& programs,
                                       const program& search) {
  state_of(self).programs = programs;
  state_of(self).search = search;
  return {[self](score& request) { return answer(self, request, {}); },
          [self](score& request, const request_options& options) {
            return answer(self, request, options);
          },
          [self](best_score& request) { return answer(self, request); },
          [self](cancel_request request) {
            return delegate(self, state_of(self).programs, request);
          }};
}

search_service spawn_search(caf::actor_system& system, const device_actor& device,
                            const program& search) {
  return system.spawn<caf::detached>(behavior, ask<program_actor>(system, device, get_programs{}),
                                     search);
}

void print(const host_tensor& values) {
  for (const float value : values.values<float>()) std::cout << value << ' ';
  std::cout << '\n';
}

/// A client that is an actor.
void client(caf::event_based_actor* self, const search_service& search, const host_tensor& query) {
  request(self, search, caf::infinite, best_score{.queries = query, .limit = milliseconds(5000)})
      .then([](const host_tensors& results) { print(results[1]); },
            [self](const caf::error& why) {
              const auto known = from_caf_error(why);
              if (known && is_retryable(known->code())) std::cerr << "try again later: ";
              std::cerr << describe(self->system(), why) << '\n';
            });
}

// NOLINTNEXTLINE(bugprone-exception-escape): an error ends this example.
int main(int argc, char** argv) {
  caf::actor_system_config config;
  configure(config);
  caf::actor_system system{config};
  const auto trace = std::make_shared<chrome_trace>();
  scoped_device device{system, "auto", trace};  // the first GPU, else the host

  const host_tensor documents(std::vector<float>{1, 0, 0, 1, 3, 4}, {3, 2});
  const auto program = make_program(documents);
  std::cout << program.text();

  const auto spec = tensor_spec::row_major(element_type::f32, {1, 2});
  const auto known = ask<prepared>(system, device.programs(),
                                   prepare{.what = program, .inputs = {spec}, .scalars = {1}});
  std::cout << "scores of shape " << to_string(known.outputs[0].shape) << '\n';  // [1, 3]

  const auto search = spawn_search(system, device.actor(), program);
  const host_tensor query(std::vector<float>{1, 2}, {1, 2});
  const auto results = ask<tensors>(system, search, score{.queries = query, .temperature = 0.5});
  print(ask<host_tensor>(system, device.actor(), download{.x = results[0]}));  // 2 4 22
  const auto found = ask<host_tensor>(system, device.actor(), download{.x = results[2]});
  std::cout << "document " << found.values<std::int64_t>()[0] << '\n';  // 2

  caf::scoped_actor self{system};
  self->wait_for(system.spawn(client, search, query));

  try {
    (void)ask<tensors>(system, search, score{.queries = host_tensor(element_type::f32, {1, 3})});
  } catch (const error& why) {
    std::cout << to_string(why.code()) << ", " << why.what() << '\n';
    if (is_retryable(why.code())) std::cout << "try again later\n";
  }

  auto& runtime = device.service().runtime();
  auto* exported = export_dlpack(runtime, results[0]);  // for another library, in whose place
  tensor imported;                                      // this program imports it again
  try {
    imported = import_dlpack(runtime, exported, {.ready = true});
  } catch (...) {
    exported->deleter(exported);
    throw;
  }
  print(ask<host_tensor>(system, device.actor(), download{.x = imported}));  // 2 4 22

  if (argc > 1) std::ofstream(argv[1]) << trace->json();
}
