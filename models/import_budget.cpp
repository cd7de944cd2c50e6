// SPDX-License-Identifier: Apache-2.0
#include "models/import_budget.hpp"

namespace sluice::models {

namespace {

/// Nodes of at most so many bytes compute shapes and parameters.
constexpr std::size_t small_bytes = 1024;
/// The work of a node beside that of its steps: to make a program and to run it.
constexpr double work_of_program = 20'000;

}  // namespace

error import_budget::excess(const std::string& text) {
  used_up_ = true;
  return {errc::unsupported, text};
}
error import_budget::excess(const char* what, std::uint64_t limit) {
  return excess(std::string("the program has too many ") + what + ": at most " +
                std::to_string(limit) + " are imported");
}

void import_budget::take_node() {
  if (++nodes_ > max_nodes) throw excess("nodes", max_nodes);
}
void import_budget::take_turn() {
  if (++turns_ > max_turns) throw excess("turns of loops", max_turns);
}
void import_budget::take_values(std::size_t count) {
  values_ += count;
  if (values_ > max_values) throw excess("values", max_values);
}
bool import_budget::take_computation(std::size_t bytes, double work) {
  if (bytes > max_bytes_of_node) return false;
  const bool small = bytes <= small_bytes;
  const bool fits = work_ + work + work_of_program <= max_work;
  if (!small && (!fits || bytes_ + bytes > max_bytes)) return false;
  if (!fits) throw excess("too much is computed while the program is made");
  bytes_ += bytes;
  work_ += work + work_of_program;
  return true;
}

}  // namespace sluice::models
