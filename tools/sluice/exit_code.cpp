// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/exit_code.hpp"

namespace sluice::cli {

exit_status exit_code(const error& e) noexcept {
  switch (e.code()) {
    case errc::invalid_argument:
    case errc::unsupported:
    case errc::out_of_memory:
    case errc::over_budget:
      return exit_status::refused;
    default:
      return exit_status::failed;
  }
}

std::string error_line(std::string_view command, std::string_view text) {
  std::string line = "sluice";
  if (!command.empty()) line.append(" ").append(command);
  line.append(": ").append(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return line + '\n';
}

}  // namespace sluice::cli
