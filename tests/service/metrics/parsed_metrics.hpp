// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice::service::test {

using metric_labels = std::map<std::string, std::string>;

/// The metrics of a text in the format of Prometheus.
class parsed_metrics {
 public:
  /// @throws std::runtime_error if the text is not in the format
  explicit parsed_metrics(std::string_view text) {
    while (!text.empty()) {
      const auto end = text.find('\n');
      if (end == std::string_view::npos) throw std::runtime_error("no line break at the end");
      parse_line(text.substr(0, end));
      text.remove_prefix(end + 1);
    }
  }

  /// The value of a series.
  /// @throws std::out_of_range if there is none
  [[nodiscard]] double value(const std::string& name, const metric_labels& labels = {}) const {
    return series_.at({name, labels});
  }
  [[nodiscard]] bool contains(const std::string& name, const metric_labels& labels) const {
    return series_.contains({name, labels});
  }
  /// The values that a label has in any series.
  [[nodiscard]] std::set<std::string> values_of(const std::string& label) const {
    std::set<std::string> values;
    for (const auto& [key, value] : series_) {
      const auto found = key.second.find(label);
      if (found != key.second.end()) values.insert(found->second);
    }
    return values;
  }
  [[nodiscard]] std::set<std::string> label_names() const {
    std::set<std::string> names;
    for (const auto& [key, value] : series_) {
      for (const auto& [name, text] : key.second) names.insert(name);
    }
    return names;
  }
  [[nodiscard]] std::size_t size() const noexcept { return series_.size(); }

 private:
  static std::string take_name(std::string_view& text) {
    const auto end =
        text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
    if (end == 0 || end == std::string_view::npos) throw std::runtime_error("no name");
    std::string name(text.substr(0, end));
    text.remove_prefix(end);
    return name;
  }
  static void take(std::string_view& text, std::string_view token) {
    if (text.substr(0, token.size()) != token) {
      throw std::runtime_error("no " + std::string(token) + " at " + std::string(text));
    }
    text.remove_prefix(token.size());
  }
  static std::string take_string(std::string_view& text) {
    take(text, "\"");
    std::string value;
    while (text.at(0) != '"') {
      char c = text.at(0);
      if (c == '\\') {
        text.remove_prefix(1);
        c = text.at(0) == 'n' ? '\n' : text.at(0);
        if (c != '\n' && c != '\\' && c != '"') throw std::runtime_error("no escape");
      }
      value.push_back(c);
      text.remove_prefix(1);
    }
    text.remove_prefix(1);
    return value;
  }
  void parse_line(std::string_view line) {
    if (line.substr(0, 7) == "# TYPE ") {
      line.remove_prefix(7);
      if (!types_.insert(take_name(line)).second) throw std::runtime_error("a type twice");
      return;
    }
    if (line.substr(0, 7) == "# HELP ") return;
    const auto name = take_name(line);
    metric_labels labels;
    if (line.substr(0, 1) == "{") {
      do {
        line.remove_prefix(1);
        const auto label = take_name(line);
        take(line, "=");
        if (!labels.emplace(label, take_string(line)).second) {
          throw std::runtime_error("a label twice");
        }
      } while (line.substr(0, 1) == ",");
      take(line, "}");
    }
    take(line, " ");
    std::size_t read = 0;
    const auto value = std::stod(std::string(line), &read);
    if (read != line.size()) throw std::runtime_error("no number");
    if (!series_.emplace(std::pair(name, labels), value).second) {
      throw std::runtime_error("a series twice");
    }
  }

  std::set<std::string> types_{};
  std::map<std::pair<std::string, metric_labels>, double> series_{};
};

}  // namespace sluice::service::test
