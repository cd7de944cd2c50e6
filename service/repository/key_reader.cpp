// SPDX-License-Identifier: Apache-2.0
#include "service/repository/key_reader.hpp"

#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"

#include <limits>

namespace sluice::service {
namespace {

std::int64_t integer_of(const nlohmann::json& value, const std::string& path, std::int64_t least,
                        std::int64_t most) {
  if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (number >= least && number <= most) return number;
  }
  std::string range = " must be an integer from " + std::to_string(least);
  if (most != std::numeric_limits<std::int64_t>::max()) range += " to " + std::to_string(most);
  throw config_error(path + range);
}

}  // namespace

key_reader::key_reader(const nlohmann::json& tree, std::string path)
    : tree_(&tree), path_(std::move(path)) {
  if (!tree.is_object()) throw config_error(path_ + " must be a table");
}

std::string key_reader::path_of(std::string_view key) const {
  return path_.empty() ? printable(key) : path_ + "." + printable(key);
}

bool key_reader::has(std::string_view key) const {
  return tree_->contains(key);
}

const nlohmann::json* key_reader::find(std::string_view key) {
  const auto value = tree_->find(key);
  if (value == tree_->end()) return nullptr;
  known_.emplace(key);
  return &*value;
}

std::string key_reader::text(std::string_view key) {
  if (!has(key)) throw config_error(path_of(key) + " is missing");
  return text(key, "");
}

std::string key_reader::text(std::string_view key, std::string_view missing) {
  const auto* value = find(key);
  if (value == nullptr) return std::string(missing);
  if (!value->is_string()) throw config_error(path_of(key) + " must be a string");
  return value->get<std::string>();
}

bool key_reader::boolean(std::string_view key, bool missing) {
  const auto* value = find(key);
  if (value == nullptr) return missing;
  if (value->is_boolean()) return value->get<bool>();
  if (*value == "true") return true;
  if (*value == "false") return false;
  throw config_error(path_of(key) + " must be true or false");
}

std::int64_t key_reader::integer(std::string_view key, std::int64_t missing, std::int64_t least,
                                 std::int64_t most) {
  const auto* value = find(key);
  return value == nullptr ? missing : integer_of(*value, path_of(key), least, most);
}

std::vector<std::int64_t> key_reader::integers(std::string_view key, std::int64_t least,
                                               std::int64_t most) {
  std::vector<std::int64_t> numbers;
  const auto* value = find(key);
  if (value == nullptr) return numbers;
  if (!value->is_array()) throw config_error(path_of(key) + " must be a list of integers");
  for (const auto& number : *value)
    numbers.push_back(integer_of(number, path_of(key), least, most));
  return numbers;
}

key_reader key_reader::table(std::string_view key) {
  const auto* value = find(key);
  if (value == nullptr) throw config_error(path_of(key) + " is missing");
  return {*value, path_of(key)};
}

std::vector<key_reader> key_reader::tables(std::string_view key) {
  std::vector<key_reader> readers;
  const auto* value = find(key);
  if (value == nullptr) return readers;
  if (!value->is_array()) {
    readers.emplace_back(*value, path_of(key));
    return readers;
  }
  for (std::size_t i = 0; i < value->size(); ++i)
    readers.emplace_back((*value)[i], path_of(key) + "[" + std::to_string(i) + "]");
  return readers;
}

std::vector<std::pair<std::string, key_reader>> key_reader::named_tables(std::string_view key) {
  std::vector<std::pair<std::string, key_reader>> readers;
  if (!has(key)) return readers;
  auto named = table(key);
  for (const auto& [name, value] : named.tree_->items())
    readers.emplace_back(name, key_reader(value, named.path_of(name)));
  return readers;
}

void key_reader::finish() const {
  for (const auto& [key, value] : tree_->items())
    if (!known_.contains(key)) throw config_error("the key " + path_of(key) + " is unknown");
}

}  // namespace sluice::service
