// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/base/file_descriptor.hpp"
#include "service/front/model_backend.hpp"
#include "service/front/repository_poller.hpp"
#include "service/metrics/backend_status.hpp"
#include "service/protocol/model_metadata.hpp"
#include "service/protocol/repository_entry.hpp"
#include "service/repository/model_index.hpp"
#include "service/repository/repository_watch.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::service {

/// The content of one version of a model, which workers load. Immutable once it is served.
struct loaded_version {
  std::uint32_t handle = 0;  ///< no other content ever has it
  std::string model{};
  std::uint64_t version = 0;
  model_config config{};
  /// What workers load, also later ones: one, or for a chain one for each step.
  std::vector<std::shared_ptr<const file_descriptor>> files{};
  bool is_requested = false;  ///< whether a request waits for it
  std::vector<tensor_metadata> inputs{};
  std::vector<tensor_metadata> outputs{};
  std::unordered_map<std::string, std::uint32_t> input_numbers{};
  std::unordered_map<std::string, std::uint32_t> output_numbers{};
  std::shared_ptr<model_statistics> statistics{};  ///< of the version, whatever its content
};

/// The models that the service knows: what they are, and whether they are served.
///
/// A version is served once the workers have loaded it. A new content of a version is loaded beside
/// the one that is served, and takes its place then. A version that is not wanted any more is
/// served until the new versions of its model are, or for ever if none of them can be loaded. A
/// model that is unloaded by request is not served, whatever the repository has, until it is
/// requested. Not thread-safe.
class model_catalog {
 public:
  /// What the workers have to do.
  struct orders {
    std::vector<std::shared_ptr<loaded_version>> loads{};
    std::vector<std::uint32_t> unloads{};
  };

  /// Takes over changes of the repository.
  /// @param requested  models that are to be loaded if they are not, or were refused; `news` has
  /// their files
  [[nodiscard]] orders apply(const repository_news& news,
                             const std::vector<std::string>& requested = {});
  /// Ends all versions of a model. Returns their contents.
  /// @throws request_error `not_found` if there is no such model
  [[nodiscard]] std::vector<std::uint32_t> unload(const std::string& model);
  /// The workers have loaded a content. It is refused if its inputs and outputs are not those of
  /// its config. Returns the contents that are to be unloaded because of it.
  [[nodiscard]] std::vector<std::uint32_t> note_loaded(std::uint32_t handle,
                                                       std::vector<tensor_metadata> inputs,
                                                       std::vector<tensor_metadata> outputs);
  /// A worker cannot load a content, because of `problem`. It is not served then, also if it was.
  /// Returns what is to be unloaded.
  [[nodiscard]] std::vector<std::uint32_t> note_refused(std::uint32_t handle, std::string problem);
  /// The contents that a new worker has to load.
  [[nodiscard]] std::vector<std::shared_ptr<loaded_version>> wanted() const;
  /// Those of them that are served, or are not served yet.
  ///@{
  [[nodiscard]] std::vector<std::shared_ptr<loaded_version>> served() const;
  [[nodiscard]] std::vector<std::shared_ptr<loaded_version>> loading() const;
  ///@}
  /// The one with this handle, or null.
  [[nodiscard]] std::shared_ptr<const loaded_version> content_of(std::uint32_t handle) const;
  /// Whether a content is one of them.
  [[nodiscard]] bool wants(std::uint32_t handle) const { return content_of(handle) != nullptr; }

  /// The content that is served.
  /// @param version  empty: the highest that is served
  /// @throws request_error `not_found` if there is no such model or version, `unavailable` with the
  /// reason if it is not served
  [[nodiscard]] std::shared_ptr<const loaded_version> find(std::string_view model,
                                                           std::string_view version) const;
  /// @throws request_error as `find`
  ///@{
  [[nodiscard]] model_metadata describe(std::string_view model, std::string_view version) const;
  /// The config with its name, and the inputs and outputs of the content.
  [[nodiscard]] model_config configuration(std::string_view model, std::string_view version) const;
  /// The state that the config names.
  [[nodiscard]] state_descriptor state_of(std::string_view model, std::string_view version) const;
  ///@}
  /// Whether a content is served.
  [[nodiscard]] bool serves(std::uint32_t handle) const;
  /// All versions of all models.
  [[nodiscard]] std::vector<repository_entry> index() const;
  /// Why a model, or one of its versions, cannot be served as the repository has it; empty if it
  /// is. Nothing while it is being loaded.
  [[nodiscard]] std::optional<std::string> load_problem(const std::string& model) const;
  /// All versions, and the models that have none because of a problem.
  [[nodiscard]] std::vector<version_status> status() const;
  /// Whether all models that are required are served, and no version has yet to be loaded for the
  /// first time, except by request.
  [[nodiscard]] bool is_ready() const;

 private:
  struct version_state {
    std::shared_ptr<loaded_version> served{};
    std::shared_ptr<loaded_version> loading{};
    std::shared_ptr<model_statistics> statistics = std::make_shared<model_statistics>();
    std::string problem{};    ///< why there is nothing that is served
    bool is_leaving = false;  ///< whether it ends once other versions are served
  };
  struct model_state {
    std::map<std::uint64_t, version_state> versions{};
    std::string problem{};
    bool is_required = false;
  };

  void load(const version_of_model& version, const repository_news& news, orders& due);
  void load_missing(const std::string& model, const repository_news& news, orders& due);
  void take_problem(const std::string& model, const model_index& index);
  /// The model and the version whose content has this handle.
  [[nodiscard]] std::pair<model_state*, version_state*> find_content(std::uint32_t handle);
  /// Ends the versions that are leaving, unless others of the model are being loaded or none would
  /// be left. Returns their contents.
  [[nodiscard]] static std::vector<std::uint32_t> end_leaving(model_state& model);

  std::map<std::string, model_state, std::less<>> models_;
  std::set<std::string, std::less<>> unloaded_;  ///< by request; also models that are gone
  std::uint32_t next_handle_ = 1;
};

}  // namespace sluice::service
