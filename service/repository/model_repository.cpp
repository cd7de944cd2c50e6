// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_repository.hpp"

#include "service/repository/chain_steps.hpp"
#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"
#include "service/repository/repository_folder.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

constexpr const char* model_file = "model.onnx";
constexpr const char* toml_file = "config.toml";
constexpr const char* pbtxt_file = "config.pbtxt";

/// In the folder of its model.
std::string path_of(std::uint64_t version) {
  return std::to_string(version) + "/" + model_file;
}

/// Whether a file cannot be served until it changes. Other errors, such as a lack of descriptors or
/// a server that does not answer, may pass.
bool is_lasting(const repository_error& e) {
  constexpr int lasting[] = {0, ENOENT, ENOTDIR, EXDEV, ELOOP, EACCES, EPERM, ENXIO, ENODEV};
  return std::find(std::begin(lasting), std::end(lasting), e.number()) != std::end(lasting);
}

/// The file that is opened, or why it cannot be served.
/// @throws repository_error if the error may pass
template <class Open>
model_version version_of(Open open) {
  try {
    const auto file = open();
    if (file.status.identity.size == 0) return {.problem = "the model file is empty"};
    return {.file = file.status};
  } catch (const repository_error& e) {
    if (!is_lasting(e)) throw;
    if (e.number() == ENOENT) return {.problem = "there is no model file"};
    return {.problem = std::string("the model file: ") + e.what()};
  }
}

std::string text_of(const open_file& file) {
  std::string text(max_config_bytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const auto count = ::read(file.descriptor.get(), text.data() + size, text.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw repository_error(std::generic_category().message(errno), errno);
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  text.resize(size);
  if (status_of(file.descriptor).identity != file.status.identity)
    throw repository_error("it is being written");
  return text;
}

void read_config(const repository_folder& folder, const std::string& name, const char* file_name,
                 indexed_model& model) {
  try {
    const auto file = folder.open(file_name);
    model.config_file = file.status;
    auto config =
        parse_config(text_of(file), file_name == std::string_view(toml_file) ? config_form::toml
                                                                             : config_form::pbtxt);
    if (!config.name.empty() && config.name != name)
      throw config_error("name must be the name of the folder, or missing");
    model.config = std::move(config);
  } catch (const std::runtime_error& e) {
    model.problem = std::string(file_name) + ": " + e.what();
  }
}

/// A version of a chain, whose files are those of its steps.
/// @throws repository_error if the error may pass
model_version chain_version_of(const repository_folder& folder, std::uint64_t number) {
  try {
    (void)folder.folder(std::to_string(number));
  } catch (const repository_error& e) {
    if (!is_lasting(e)) throw;
    return {.problem = std::string("the folder of the version: ") + e.what()};
  }
  try {
    (void)folder.open(path_of(number));
  } catch (const repository_error& e) {
    if (e.number() == ENOENT) return {};
    if (!is_lasting(e)) throw;
  }
  return {.problem = "a version of a chain must have no model.onnx"};
}

indexed_model read_model(const repository_folder& folder, const std::string& name) {
  indexed_model model;
  bool has_toml = false;
  bool has_pbtxt = false;
  std::vector<std::uint64_t> numbers;
  for (const auto& entry : folder.names(model_repository::max_names_in_model)) {
    has_toml = has_toml || entry == toml_file;
    has_pbtxt = has_pbtxt || entry == pbtxt_file;
    if (const auto number = version_number(entry)) numbers.push_back(*number);
  }
  if (has_toml && has_pbtxt) {
    model.problem = "there are both config.toml and config.pbtxt";
  } else if (has_toml || has_pbtxt) {
    read_config(folder, name, has_toml ? toml_file : pbtxt_file, model);
  } else {
    model.config = model_config();
  }
  const bool is_chain = model.config && !model.config->steps.empty();
  for (const auto number : numbers) {
    model.versions.emplace(number, is_chain ? chain_version_of(folder, number) : version_of([&] {
                             return folder.open(path_of(number));
                           }));
  }
  if (model.config && !is_chain && served_versions(model).empty())
    model.problem = "there is no version that can be served";
  return model;
}

/// The model in a folder of the repository; nothing if the name is not, or no longer, that of a
/// folder.
std::optional<indexed_model> model_of(const repository_folder& repository,
                                      const std::string& name) {
  try {
    return read_model(repository.folder(name), name);
  } catch (const repository_error& e) {
    if (e.number() == ENOENT || e.number() == ENOTDIR) return std::nullopt;
    return indexed_model{.problem = e.what()};
  }
}

indexed_model model_of(const named_file& file) {
  indexed_model model{.named_file = file.path};
  try {
    auto version = version_of([&] { return open_regular_file(file.path); });
    model.config = model_config();
    model.problem = version.problem;
    model.versions.emplace(1, std::move(version));
  } catch (const repository_error& e) {
    model.problem = e.what();
  }
  return model;
}

/// Whether the name is that of a folder now.
bool is_folder(const repository_folder& repository, const std::string& name) {
  try {
    (void)repository.folder(name);
    return true;
  } catch (const repository_error&) {
    return false;
  }
}

}  // namespace

named_file parse_named_file(std::string_view argument) {
  const auto separator = argument.find('=');
  if (separator == argument.npos || separator + 1 == argument.size())
    throw repository_error(printable(argument) + " is not of the form NAME=PATH");
  return {std::string(argument.substr(0, separator)),
          std::filesystem::path(argument.substr(separator + 1))};
}

model_repository::model_repository(model_sources sources) : sources_(std::move(sources)) {
  if (sources_.folder) sources_.folder = std::filesystem::absolute(*sources_.folder);
  std::set<std::string_view> names;
  for (auto& file : sources_.files) {
    if (!is_model_name(file.name))
      throw repository_error("no model can be called \"" + printable(file.name) + "\"");
    if (!names.insert(file.name).second)
      throw repository_error("two models are called " + file.name);
    file.path = std::filesystem::absolute(file.path);
  }
}

model_index model_repository::scan() const {
  model_index index;
  for (const auto& file : sources_.files) index.models.emplace(file.name, model_of(file));
  if (!sources_.folder) return index;

  // Opened for each scan, because the path may be a link that has been switched.
  const repository_folder folder(*sources_.folder);
  for (const auto& name : folder.names(max_models)) {
    if (index.models.contains(name)) continue;
    if (is_model_name(name)) {
      if (auto model = model_of(folder, name)) index.models.emplace(name, std::move(*model));
    } else if (is_folder(folder, name)) {
      index.ignored_folders.push_back(printable(name));
    }
  }
  std::sort(index.ignored_folders.begin(), index.ignored_folders.end());
  find_steps(index);
  return index;
}

std::shared_ptr<const file_descriptor> model_repository::open_file(
    const std::string& model, std::uint64_t version, const std::filesystem::path& named_file,
    const file_status& status) const {
  auto file = [&] {
    if (!named_file.empty()) return open_regular_file(named_file);
    if (!sources_.folder) throw repository_error("the index is that of another repository");
    return repository_folder(*sources_.folder).folder(model).open(path_of(version));
  }();
  if (file.status.identity != status.identity)
    throw repository_error("the file has changed since it was indexed");
  return std::make_shared<const file_descriptor>(std::move(file.descriptor));
}

std::vector<std::shared_ptr<const file_descriptor>> model_repository::open_files(
    const model_index& index, std::string_view model, std::uint64_t version) const {
  const auto found = index.models.find(model);
  if (found == index.models.end()) throw repository_error("there is no such model");
  const auto& [name, entry] = *found;
  const auto content = entry.versions.find(version);
  if (content == entry.versions.end() || !content->second.has_files())
    throw repository_error("the model has no such version");
  if (content->second.file)
    return {open_file(name, version, entry.named_file, *content->second.file)};

  std::vector<std::shared_ptr<const file_descriptor>> files;
  std::map<std::pair<std::string, std::uint64_t>, std::size_t> first_steps;
  const auto& steps = content->second.steps;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const auto [first, is_new] = first_steps.try_emplace({step.model, step.version}, i);
    if (!is_new) {
      files.push_back(files[first->second]);
      continue;
    }
    try {
      files.push_back(open_file(step.model, step.version, step.named_file, step.file));
    } catch (const repository_error& e) {
      throw repository_error("step '" + step_name(i, step.model) + "': " + e.what(), e.number());
    }
  }
  return files;
}

}  // namespace sluice::service
