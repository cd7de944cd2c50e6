// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/status_files.hpp"

#include <stdexcept>
#include <string>

namespace sluice::service {
namespace {

struct status_page_file {
  std::string_view name;
  std::string_view text;
};

constexpr status_page_file status_page_files[] = {
#include "status_files.inc"
};

}  // namespace

std::string_view status_file(std::string_view name) {
  for (const auto& each : status_page_files) {
    if (each.name == name) return each.text;
  }
  throw std::out_of_range("no file " + std::string(name));
}

}  // namespace sluice::service
