// SPDX-License-Identifier: Apache-2.0
#include "service/repository/repository_watch.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace sluice::service {
namespace {

/// Files by version and by number of the step.
using file_map = std::map<std::pair<std::uint64_t, std::size_t>, file_status>;

/// The files of a version. One that is no chain has one step.
void add_files(std::uint64_t number, const model_version& version, file_map& files) {
  if (version.file) files.emplace(std::pair(number, std::size_t{0}), *version.file);
  for (std::size_t i = 0; i < version.steps.size(); ++i)
    files.emplace(std::pair(number, i), version.steps[i].file);
}

/// The files of a model, and its config as that of version 0, which no model has.
file_map files_of(const indexed_model* model) {
  file_map result;
  if (model == nullptr) return result;
  if (model->config_file) result.emplace(std::pair(0, 0), *model->config_file);
  for (const auto& [number, version] : model->versions) add_files(number, version, result);
  return result;
}

/// Whether all that differs are complete files that were renamed into their places.
bool is_renamed_into_place(const indexed_model* before, const indexed_model* after) {
  const auto old_files = files_of(before);
  const auto new_files = files_of(after);
  bool has_new_file = false;
  for (const auto& [number, file] : new_files) {
    const auto old = old_files.find(number);
    if (old != old_files.end()) {
      if (old->second.identity == file.identity) continue;
      if (old->second.identity.inode == file.identity.inode) return false;
    }
    if (!file.precedes_its_inode) return false;
    has_new_file = true;
  }
  const bool keeps_files = std::all_of(old_files.begin(), old_files.end(), [&](const auto& file) {
    return new_files.contains(file.first);
  });
  return has_new_file && keeps_files;
}

/// Whether a version is loaded differently with another config.
bool is_loaded_alike(model_config a, const model_config& b) {
  a.name = b.name;
  a.versions = b.versions;
  a.is_required = b.is_required;
  return a == b;
}

/// Whether a version has the same content, with the same config.
bool has_same_files(const model_version& a, const model_version& b) {
  file_map old_files;
  file_map new_files;
  add_files(1, a, old_files);
  add_files(1, b, new_files);
  return std::equal(
      old_files.begin(), old_files.end(), new_files.begin(), new_files.end(),
      [](const auto& x, const auto& y) { return x.second.identity == y.second.identity; });
}

/// What is known of a model after it has been read again: a model that cannot be served any more
/// keeps its former config and versions.
indexed_model merged(const indexed_model* before, const indexed_model& after) {
  if (after.config || before == nullptr || !before->config) return after;
  auto kept = *before;
  kept.problem = after.problem;
  return kept;
}

void add_changes(const std::string& name, const indexed_model* before, const indexed_model* after,
                 repository_changes& changes) {
  const auto old_versions = before ? served_versions(*before) : std::vector<std::uint64_t>();
  const auto new_versions = after ? served_versions(*after) : std::vector<std::uint64_t>();
  const std::set<std::uint64_t> kept(new_versions.begin(), new_versions.end());
  const std::set<std::uint64_t> served(old_versions.begin(), old_versions.end());
  for (const auto number : new_versions) {
    if (!served.contains(number)) {
      changes.loads.push_back({name, number});
    } else if (!has_same_files(before->versions.at(number), after->versions.at(number)) ||
               !is_loaded_alike(*before->config, *after->config)) {
      changes.replaces.push_back({name, number});
    }
  }
  for (const auto number : old_versions)
    if (!kept.contains(number)) changes.unloads.push_back({name, number});
  const std::string old_problem = before ? before->problem : "";
  const std::string new_problem = after ? after->problem : "";
  if (old_problem != new_problem) changes.problems.push_back(name);
}

template <class Map>
auto find_or_null(const Map& map, const std::string& name) {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

}  // namespace

repository_watch::repository_watch(model_repository repository)
    : repository_(std::move(repository)) {}

bool repository_watch::counts(const std::string& name, const indexed_model* before,
                              const indexed_model* after, time_point now) {
  const bool is_same = before && after ? *before == *after : before == after;
  if (is_same) {
    pending_.erase(name);
    return false;
  }
  const auto state = after ? std::optional(*after) : std::nullopt;
  auto [entry, is_new] = pending_.try_emplace(name, pending{state, now});
  if (!is_new && entry->second.model != state) entry->second = {state, now};
  const bool has_settled = now - entry->second.since >= settling_time;
  if (index_ && !has_settled && !is_renamed_into_place(before, after)) return false;
  pending_.erase(entry);
  return true;
}

repository_changes repository_watch::poll(time_point now, const std::set<std::string>& requested) {
  auto scanned = repository_.scan();
  std::set<std::string> names;
  for (const auto& [name, model] : settled_) names.insert(name);
  for (const auto& [name, model] : scanned.models) names.insert(name);
  for (const auto& [name, change] : pending_) names.insert(name);

  repository_changes changes;
  auto next = index_ ? *index_ : model_index();
  next.ignored_folders = std::move(scanned.ignored_folders);
  for (const auto& name : names) {
    const auto* after = find_or_null(scanned.models, name);
    const bool counts_now = counts(name, find_or_null(settled_, name), after, now);
    const bool is_requested = after != nullptr && requested.contains(name);
    if (!counts_now && !(is_requested && pending_.erase(name) > 0)) continue;
    const auto* served = find_or_null(next.models, name);
    if (after == nullptr) {
      add_changes(name, served, nullptr, changes);
      next.models.erase(name);
      settled_.erase(name);
    } else {
      auto model = merged(served, *after);
      add_changes(name, served, &model, changes);
      next.models.insert_or_assign(name, std::move(model));
      settled_.insert_or_assign(name, *after);
    }
  }
  index_ = std::make_shared<const model_index>(std::move(next));
  return changes;
}

}  // namespace sluice::service
