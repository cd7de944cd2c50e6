// SPDX-License-Identifier: Apache-2.0
#include "service/repository/key_reader.hpp"

#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"

#include <array>
#include <charconv>
#include <limits>
#include <optional>

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

/// The bytes of a text such as "512MiB", which are positive and fit into 63 bits.
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  constexpr std::array<std::string_view, 5> units{"B", "KiB", "MiB", "GiB", "TiB"};
  std::uint64_t count = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (failure != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  for (std::size_t i = 0; i < units.size(); ++i) {
    const std::size_t shift = 10 * i;
    if (text != units[i]) continue;
    if (count == 0 || count > most >> shift) return std::nullopt;
    return count << shift;
  }
  return std::nullopt;
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

std::uint64_t key_reader::bytes(std::string_view key, std::uint64_t missing) {
  const auto* value = find(key);
  if (value == nullptr) return missing;
  if (value->is_number_integer() && value->get<std::int64_t>() > 0)
    return value->get<std::uint64_t>();
  const auto size =
      value->is_string() ? bytes_of(value->get_ref<const std::string&>()) : std::nullopt;
  if (!size)
    throw config_error(path_of(key) +
                       R"( must be a number of bytes from 1, or a text such as "512MiB")");
  return *size;
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

std::map<std::string, std::string> key_reader::texts(std::string_view key) {
  std::map<std::string, std::string> texts;
  if (!has(key)) return texts;
  auto named = table(key);
  for (const auto& [name, value] : named.tree_->items()) texts.emplace(name, named.text(name));
  return texts;
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
