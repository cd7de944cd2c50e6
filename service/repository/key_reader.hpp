// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::service {

/// Reads the keys of a table of a config. Each function throws `config_error` with the path of the
/// key if its value has another type or range. The tree must outlive the reader.
class key_reader {
 public:
  /// @param path of the table; empty for the whole config
  /// @throws config_error if `tree` is no table
  key_reader(const nlohmann::json& tree, std::string path);

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The path of a key of this table.
  [[nodiscard]] std::string path_of(std::string_view key) const;

  [[nodiscard]] bool has(std::string_view key) const;
  /// Text, which must be there.
  [[nodiscard]] std::string text(std::string_view key);
  [[nodiscard]] std::string text(std::string_view key, std::string_view missing);
  /// A Boolean value. The texts "true" and "false" count as well: parameters of a config.pbtxt are
  /// texts.
  [[nodiscard]] bool boolean(std::string_view key, bool missing);
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t missing, std::int64_t least,
                                     std::int64_t most);
  /// A size: a positive number of bytes, or a text such as "512MiB" with B, KiB, MiB, GiB or TiB.
  [[nodiscard]] std::uint64_t bytes(std::string_view key, std::uint64_t missing);
  /// A list of integers; empty if the key is missing.
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key, std::int64_t least,
                                                   std::int64_t most);
  /// A table of texts; empty if the key is missing.
  [[nodiscard]] std::map<std::string, std::string> texts(std::string_view key);
  /// A table, which must be there.
  [[nodiscard]] key_reader table(std::string_view key);
  /// A list of tables, or a single one; empty if the key is missing.
  [[nodiscard]] std::vector<key_reader> tables(std::string_view key);
  /// The tables in a table, by their names; empty if the key is missing.
  [[nodiscard]] std::vector<std::pair<std::string, key_reader>> named_tables(std::string_view key);

  /// @throws config_error if there is a key that none of the functions was asked for
  void finish() const;

 private:
  /// Null if the key is missing.
  [[nodiscard]] const nlohmann::json* find(std::string_view key);

  const nlohmann::json* tree_;
  std::string path_;
  std::set<std::string, std::less<>> known_{};
};

}  // namespace sluice::service
