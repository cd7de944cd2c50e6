// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/arena/run_statistics.hpp"
#include "service/metrics/backend_status.hpp"
#include "service/protocol/datatype.hpp"
#include "service/protocol/inference_request.hpp"
#include "service/protocol/model_metadata.hpp"
#include "service/protocol/repository_entry.hpp"
#include "service/protocol/request_error.hpp"
#include "service/protocol/trace_context.hpp"
#include "service/repository/model_config.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// Memory for the inputs of one request, which a worker reads in place. Each tensor begins at a
/// multiple of 256 bytes. Destroying it before it is submitted returns the memory.
class input_memory {
 public:
  input_memory() = default;
  input_memory(const input_memory&) = delete;
  input_memory& operator=(const input_memory&) = delete;
  virtual ~input_memory() = default;
  /// The bytes of the tensor `index`, of the size that was asked for.
  [[nodiscard]] virtual std::span<std::byte> tensor(std::size_t index) noexcept = 0;
};

/// A result of a model. The bytes are valid while `run_result::memory` lives.
struct result_tensor {
  std::string name{};
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};
  std::span<const std::byte> bytes{};  ///< row-major without gaps
};

/// The answer to a run: results, or an error.
struct run_result {
  std::optional<request_error> error{};
  std::vector<result_tensor> outputs{};  ///< in the order of the request
  std::shared_ptr<const void> memory{};  ///< keeps the bytes of the outputs
  std::string version{};                 ///< of the model that ran; empty: as in the request
  run_statistics statistics{};           ///< of a run with results
};

/// An input of a run. Its bytes are those of the tensor of `input_memory` with the same number.
struct run_tensor {
  std::string name{};
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};
};

/// A run of a model.
struct run_request {
  std::string model{};
  std::string version{};  ///< empty: the newest that is served
  std::vector<run_tensor> inputs{};
  std::vector<std::string> outputs{};  ///< names, none twice; empty: all
  std::uint64_t priority = 0;          ///< as in `inference_request`
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  std::string tenant{};          ///< for fairness and limits; empty: clients without a name
  std::uint64_t connection = 0;  ///< for fairness and hang-ups; no number is used again
  std::uint32_t content = 0;     ///< of `state_descriptor`: only this one may run; 0: any
  std::optional<request_sequence> sequence{};  ///< only `sequence_backend` reads it
  std::optional<trace_context> trace{};        ///< of a request that its client traces
  std::shared_ptr<const void> charge{};        ///< kept while a worker can read the inputs
};

/// A tensor that a model passes from one request of a sequence to the next.
struct state_tensor {
  std::string input{};   ///< the name of the input
  std::string output{};  ///< the name of the output, which is the next input
  datatype type = datatype::fp32;
  std::vector<std::int64_t> shape{};  ///< all extents are positive
};

/// The state of a served version of a model.
struct state_descriptor {
  std::string version{};
  /// The number of the file and the config of the version. Others have another one. Not 0.
  std::uint32_t content = 0;
  std::vector<state_tensor> tensors{};  ///< empty: the model has no state
  std::chrono::microseconds idle_timeout{0};
};

/// Called once with the outcome of a request to load or unload a model: nothing, or why it failed.
using load_answer = std::function<void(std::optional<request_error>)>;

/// What the front needs of models and workers. The functions are called by threads of the front.
class model_backend {
 public:
  using number = std::uint64_t;

  model_backend() = default;
  model_backend(const model_backend&) = delete;
  model_backend& operator=(const model_backend&) = delete;
  virtual ~model_backend() = default;

  /// Whether a worker answers and all required models are served.
  [[nodiscard]] virtual bool is_ready() const = 0;
  /// The model and its served versions.
  /// @throws request_error `not_found` if there is no such model or version, `unavailable` with the
  /// reason if it is not served
  [[nodiscard]] virtual model_metadata describe(std::string_view model,
                                                std::string_view version) const = 0;
  /// The config of a model with its defaults, its name, and the inputs and outputs of the version.
  /// @throws request_error as `describe`
  [[nodiscard]] virtual model_config configuration(std::string_view model,
                                                   std::string_view version) const = 0;
  /// The versions of all models, served or not, in ascending order.
  [[nodiscard]] virtual std::vector<repository_entry> index() const = 0;
  /// Loads a model as the repository has it now, also if it was unloaded. `done` is called once all
  /// workers serve it, on any thread, perhaps before this function returns; or with `not_found`,
  /// `invalid_argument` if it cannot be loaded, `deadline_exceeded` if that takes too long,
  /// `resource_exhausted` or `unavailable`. `done` must not throw or block.
  virtual void load(std::string model, load_answer done) = 0;
  /// Serves a model no more until it is loaded by request. Runs that were submitted before are
  /// answered. Calls `done` as `load` does, with `not_found` if there is no such model.
  virtual void unload(std::string model, load_answer done) = 0;
  /// What is served, by which processes, and what it has done. A backend without processes and
  /// statistics need not override it.
  [[nodiscard]] virtual backend_status status() const { return {}; }
  /// The state of a model according to its config. The default is none.
  /// @throws request_error as `describe`
  [[nodiscard]] virtual state_descriptor state_of(std::string_view /*model*/,
                                                  std::string_view /*version*/) const {
    return {};
  }
  /// Memory for inputs of these sizes in bytes.
  /// @throws request_error `too_large` or `resource_exhausted`
  [[nodiscard]] virtual std::unique_ptr<input_memory> allocate(
      std::span<const std::uint64_t> sizes) = 0;
  /// Runs a model and calls `done` once, on any thread, perhaps before this function returns. The
  /// memory returns once no worker can use it. `done` must not throw or block.
  /// @returns the number of the request
  virtual number submit(run_request request, std::unique_ptr<input_memory> inputs,
                        std::function<void(run_result)> done) = 0;
  /// Has `done` of a request called with `cancelled` soon, unless its result is there first.
  virtual void cancel(number request) noexcept = 0;
};

}  // namespace sluice::service
