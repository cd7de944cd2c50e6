// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/repository/model_config.hpp"
#include "service/repository/repository_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// The file of the model that is a step of a chain.
struct step_file {
  std::string model{};
  std::uint64_t version = 0;
  file_status file{};
  std::filesystem::path named_file{};  ///< as in `indexed_model`

  friend bool operator==(const step_file&, const step_file&) = default;
};

/// A version of a model: a file, or for a chain those of its steps. Without them it cannot be
/// served.
struct model_version {
  std::optional<file_status> file{};
  std::vector<step_file> steps{};  ///< in the order of the config
  std::string problem{};           ///< why there is no file: one printable line

  [[nodiscard]] bool has_files() const noexcept { return file || !steps.empty(); }
  friend bool operator==(const model_version&, const model_version&) = default;
};

/// A model of the repository.
struct indexed_model {
  std::optional<model_config> config{};  ///< nothing: the model cannot be served
  std::optional<file_status> config_file{};
  std::map<std::uint64_t, model_version> versions{};
  /// Why the model, or what its folder has now, cannot be served: one printable line. Empty if all
  /// is well.
  std::string problem{};
  /// The file of a model that is named by itself; empty for a model of the folder.
  std::filesystem::path named_file{};

  friend bool operator==(const indexed_model&, const indexed_model&) = default;
};

/// The versions that the config chooses among those with files, in ascending order.
[[nodiscard]] std::vector<std::uint64_t> served_versions(const indexed_model& model);

/// The models of a repository at one time. A value: nothing changes it.
struct model_index {
  std::map<std::string, indexed_model, std::less<>> models{};
  /// Folders whose names no model can have, printable.
  std::vector<std::string> ignored_folders{};
};

/// Whether a model may have this name: 1 to 255 letters, digits, '_', '-' and '.', and no '.' at
/// the beginning.
[[nodiscard]] bool is_model_name(std::string_view name) noexcept;

/// The number of a version, from 1 to 2^63 - 1, if `name` is one without leading zeros.
[[nodiscard]] std::optional<std::uint64_t> version_number(std::string_view name) noexcept;

}  // namespace sluice::service
