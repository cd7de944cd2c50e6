// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/trace_context.hpp"

#include <cstddef>

namespace sluice::service {
namespace {

constexpr std::string_view digits = "0123456789abcdef";
constexpr std::string_view form = "VV-TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT-SSSSSSSSSSSSSSSS-FF";

[[nodiscard]] bool has_form(std::string_view text) noexcept {
  if (text.size() < form.size()) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    const bool is_dash = text[i] == '-';
    if (form[i] == '-' ? !is_dash : digits.find(text[i]) == std::string_view::npos) return false;
  }
  return true;
}

[[nodiscard]] bool is_zero(std::string_view text) noexcept {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

std::optional<trace_context> parse_trace_parent(std::string_view text) {
  if (!has_form(text)) return std::nullopt;
  const auto version = text.substr(0, 2);
  const bool has_more = text.size() > form.size();
  if (version == "ff" || (has_more && (version == "00" || text[form.size()] != '-'))) {
    return std::nullopt;
  }
  const auto trace = text.substr(form.find('T'), 32);
  const auto span = text.substr(form.find('S'), 16);
  if (is_zero(trace) || is_zero(span)) return std::nullopt;
  return trace_context{.trace = std::string(trace),
                       .span = std::string(span),
                       .is_sampled = digits.find(text[form.size() - 1]) % 2 == 1};
}

}  // namespace sluice::service
