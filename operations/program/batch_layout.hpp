// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::operations {

/// How the inputs and outputs of runs lie in the memory of a batch: one run behind the other along
/// an axis. Immutable.
///
/// Each run has a place of the same size, which consists of rows. Those of a padded input or output
/// are the elements behind one index of the axes in front of the padded one in memory, and a row of
/// a run begins where that of its place begins. Otherwise they are the rows that `run_rows` states.
struct batch_layout {
  /// An input or output of which each run has a part.
  struct part {
    std::uint32_t number = 0;    ///< of the input or output
    std::uint32_t external = 0;  ///< its number for one run; see `executable`
    std::size_t axis = 0;        ///< that is padded; 0: none
    std::size_t rows = 1;
    std::size_t row_bytes = 0;  ///< of the place
    bool interleaves = false;   ///< see `member_places`
    [[nodiscard]] std::size_t bytes() const noexcept { return rows * row_bytes; }
  };

  std::vector<tensor_spec> input_specs{};               ///< the padded inputs; empty if none is
  std::shared_ptr<const program_inference> full_run{};  ///< a run that fills its place; see `fits`
  std::size_t externals = 0;                            ///< of one run
  std::vector<part> inputs{};
  std::vector<part> outputs{};
  std::string key{};  ///< of the executable; empty if no run is padded
};

/// The number of the external that holds an output of a run.
[[nodiscard]] std::uint32_t external_of_output(const detail::program_graph& graph,
                                               const program_inference& run, std::uint32_t output);
/// The layout of runs like `alone`, which fill their places. Only if `may_share_batch`.
[[nodiscard]] batch_layout layout_of(const detail::program_graph& graph,
                                     std::shared_ptr<const program_inference> alone);

/// The inputs of runs like `alone` with rounded extents; see `padded`. Nothing if such a run is
/// computed as it is.
/// @throws error `invalid_argument` if an input has no such axis
[[nodiscard]] std::optional<std::vector<tensor_spec>> padded_inputs(
    const detail::program_graph& graph, const program_inference& alone);
/// Whether a run like `alone` with the padded inputs `inputs` has the layout `layout`, as far as
/// its inputs and its externals say.
[[nodiscard]] bool has_layout(const detail::program_graph& graph, const program_inference& alone,
                              const std::vector<tensor_spec>& inputs, const batch_layout& layout);
/// The layout of runs like `alone` with the padded inputs `inputs`. `full_run` is null if such runs
/// cannot be padded.
[[nodiscard]] batch_layout padded_layout(const detail::program_graph& graph,
                                         const program_inference& alone,
                                         const std::vector<tensor_spec>& inputs);
/// Whether runs can be padded so, and all outputs of a run like `alone` fit into their places.
[[nodiscard]] bool fits(const detail::program_graph& graph, const program_inference& alone,
                        const batch_layout& layout) noexcept;
/// The bytes of the rows of a run like `alone`, which has the layout `layout`: those of its inputs,
/// then those of its outputs.
[[nodiscard]] std::vector<std::uint32_t> row_bytes(const detail::program_graph& graph,
                                                   const program_inference& alone,
                                                   const batch_layout& layout);

}  // namespace sluice::operations
