// SPDX-License-Identifier: Apache-2.0
#include "service/repository/config_text.hpp"
#include "service/repository/model_config.hpp"
#include "service/repository/printable.hpp"

#include <string>

namespace sluice::service {
namespace {

[[noreturn]] void refuse_text() {
  throw config_error("is no TOML: a name, a value or a bracket is missing");
}

}  // namespace
}  // namespace sluice::service

// Some malformed texts violate assertions of toml++, which has its parser abort the process or, in
// a release build, assume what is not true. They are checked in all builds, and refuse the text.
#define TOML_ASSERT(expression) ((expression) ? void() : sluice::service::refuse_text())
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

namespace sluice::service {
namespace {

// Of all tables and lists of a config, and more than any key needs.
constexpr int max_depth = 16;

/// Refuses what toml++ does not survive.
///
/// It limits lists and inline tables, but each dot of a key is a table in a table, and the
/// destructor of a table is recursive. Where it looks for white space, some characters that are not
/// ASCII lead it to code that is marked as unreachable (marzer/tomlplusplus, issues 190 and 295).
void check_text(std::string_view text) {
  // In a string of several lines, a line that begins with # is no comment.
  const bool has_comments =
      text.find("\"\"\"") == std::string_view::npos && text.find("'''") == std::string_view::npos;
  int line = 1;
  int dots = 0;
  bool is_comment = false;
  bool is_blank = true;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      is_comment = false;
      is_blank = true;
      continue;
    }
    if (is_blank && c == '#') is_comment = has_comments;
    if (c != ' ' && c != '\t') is_blank = false;
    if (is_comment) continue;
    if (c == '.' && ++dots > max_depth)
      throw config_error("line " + std::to_string(line) + ": has more than " +
                         std::to_string(max_depth) + " dots");
    if (static_cast<unsigned char>(c) >= 0x80)
      throw config_error("line " + std::to_string(line) +
                         ": only lines of comments may have characters that are not ASCII; "
                         "strings may have them as \\u and four digits");
  }
}

nlohmann::json tree_of(const toml::node& node, int depth = 0) {
  if (depth > max_depth) throw config_error("has too many tables in tables");
  if (const auto* table = node.as_table()) {
    auto object = nlohmann::json::object();
    for (const auto& [key, value] : *table)
      object[std::string(key.str())] = tree_of(value, depth + 1);
    return object;
  }
  if (const auto* list = node.as_array()) {
    auto array = nlohmann::json::array();
    for (const auto& value : *list) array.push_back(tree_of(value, depth + 1));
    return array;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* boolean = node.as_boolean()) return boolean->get();
  throw config_error("line " + std::to_string(node.source().begin.line) +
                     ": fractions, dates and times are no values of any key");
}

}  // namespace

nlohmann::json parse_toml(std::string_view text) {
  check_text(text);
  try {
    return tree_of(toml::parse(text));
  } catch (const toml::parse_error& e) {
    throw config_error("line " + std::to_string(e.source().begin.line) + ": " +
                       printable(e.description()));
  }
}

}  // namespace sluice::service
