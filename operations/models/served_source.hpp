// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/models/extent_rounding.hpp"
#include "operations/models/program_cache.hpp"
#include "operations/models/program_key.hpp"

#include <sluice/operations/model_source.hpp>
#include <sluice/operations/request_options.hpp>
#include <sluice/operations/run.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sluice::detail {

/// A name that a client has sent, for errors: printable, and not longer than a line.
[[nodiscard]] std::string displayed_name(std::string_view name);

/// The source of a model, and how its programs are made. Thread-safe.
class served_source {
 public:
  /// @throws error `invalid_argument` if there is no source, it has no outputs, two of its inputs
  /// or outputs have one name, an option is out of range, or `buckets` are not valid
  served_source(std::shared_ptr<const model_source> source, const model_options& options,
                const std::vector<extent_buckets>& buckets);

  [[nodiscard]] const model_source& source() const noexcept { return *source_; }
  /// The inputs of a request in the order of the model.
  /// @throws error `invalid_argument` if one is missing, unknown or does not fit its declaration
  [[nodiscard]] std::vector<run_input> order_inputs(
      std::map<std::string, run_input>&& inputs) const;
  /// The key of the program for a request with these inputs, in the order of the model.
  /// @throws std::bad_alloc if there is no memory
  [[nodiscard]] program_key key_of(const std::vector<run_input>& inputs, result_bits bits) const;
  /// The numbers of outputs of the model.
  /// @throws error `invalid_argument` if one is unknown or named twice
  [[nodiscard]] std::vector<std::uint32_t> number_outputs(
      const std::vector<std::string>& outputs) const;
  /// Binds the inputs `numbers`, whose elements must be known.
  /// @throws error `invalid_argument` if one does not lie in host memory, or is bound already
  /// @throws error `unsupported` if the values are too large
  void bind_inputs(program_key& key, const std::vector<std::size_t>& numbers,
                   const std::vector<run_input>& inputs) const;
  /// Makes a program, or of a key that is rounded the shapes of the results. Takes as long as
  /// `model_source::program_for`. A program that contradicts its description is a
  /// `library_failure`.
  [[nodiscard]] program_outcome make_program(const program_key& key) const noexcept;

 private:
  using numbers_by_name = std::unordered_map<std::string_view, std::size_t>;

  /// @throws error `library_failure` if the program does not have the inputs and outputs that the
  /// source states, or other results for inputs with the shapes of `key`
  [[nodiscard]] program_outcome outcome_of(const model_program& made, const program_key& key) const;
  /// The inputs that must be bound, each once.
  /// @throws error `library_failure` if the model has no such input
  [[nodiscard]] std::vector<std::size_t> numbers_of_unbound(
      const std::vector<std::string>& names) const;
  /// @throws error `invalid_argument` if `name` is none of the names in `numbers`
  [[nodiscard]] static std::size_t number_of(const numbers_by_name& numbers,
                                             const std::string& name, const char* kind);

  const std::shared_ptr<const model_source> source_;
  const model_options options_;
  const numbers_by_name inputs_;
  const numbers_by_name outputs_;
  const extent_rounding rounding_;
  mutable std::atomic<bool> states_results_{true};  ///< as far as is known
};

}  // namespace sluice::detail
