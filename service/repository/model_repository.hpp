// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"
#include "service/repository/model_index.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::service {

/// A model that is one file, as its version 1.
struct named_file {
  std::string name{};
  std::filesystem::path path{};
};

/// The named file of an argument "NAME=PATH".
/// @throws repository_error if it has another form, or no model can have the name
[[nodiscard]] named_file parse_named_file(std::string_view argument);

/// Where models come from.
struct model_sources {
  std::optional<std::filesystem::path> folder{};
  /// They hide folders of the same names.
  std::vector<named_file> files{};
};

/// The models on disk. The functions read the disk, so they may take as long as the disk does. They
/// are thread-safe.
class model_repository {
 public:
  static constexpr std::size_t max_models = 10'000;
  static constexpr std::size_t max_names_in_model = 1'000;

  /// Reads nothing. Relative paths count from the current folder.
  /// @throws repository_error if two files have one name, or no model can have a name
  explicit model_repository(model_sources sources);

  /// Reads names, configs and the status of files, but no model. A model that cannot be read has
  /// its `problem`. The config and the versions of a model come from one folder, also if another
  /// one takes its name in the meantime.
  /// @throws repository_error if the folder of the repository cannot be read, or has more than
  /// `max_models` entries
  [[nodiscard]] model_index scan() const;

  /// Opens the files of a version for reading, for a worker that gets the descriptors: one, or for
  /// a chain one for each step. Steps with the same file share a descriptor. The worker should
  /// compare `status_of` after it has read a file: a writer may change it meanwhile.
  /// @throws repository_error if the index has no such version, or a file is not the one of the
  /// index any more
  [[nodiscard]] std::vector<std::shared_ptr<const file_descriptor>> open_files(
      const model_index& index, std::string_view model, std::uint64_t version) const;

 private:
  /// @throws repository_error if it cannot be read, or is not the file of this status
  [[nodiscard]] std::shared_ptr<const file_descriptor> open_file(
      const std::string& model, std::uint64_t version, const std::filesystem::path& named_file,
      const file_status& status) const;

  model_sources sources_;
};

}  // namespace sluice::service
