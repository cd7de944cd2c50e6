// SPDX-License-Identifier: Apache-2.0
// Runs test cases in the layout of ONNX's own: a folder for each case, with `model.onnx` and the
// tensors of `test_data_set_<i>/input_<j>.pb` and `output_<j>.pb`. tools/onnx_node_tests writes
// them, and reads what this program prints: a line for each case, with fields between tabs.
//
//   node_cases <device> <list>
//
// A line of the list has the folder of a case, from that of the list, and its relative and absolute
// tolerance, between tabs.
#include "models/messages.hpp"
#include "models/tensor_reader.hpp"
#include "tests/models/model_run.hpp"
#include "tests/models/tensor_difference.hpp"

#include <sluice/models/model.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

struct node_case {
  fs::path folder;
  tolerance allowed;
};
struct verdict {
  std::string_view word;  // passed, failed, unsupported or error
  std::string reason;
};

std::vector<node_case> read_list(const fs::path& path) {
  std::vector<node_case> cases;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    node_case each;
    std::string folder;
    std::getline(fields, folder, '\t');
    fields >> each.allowed.relative >> each.allowed.absolute;
    each.folder = path.parent_path() / folder;
    cases.push_back(each);
  }
  return cases;
}

/// The tensors of the files `<kind>_0.pb`, `<kind>_1.pb` and so on of a folder.
std::vector<host_tensor> read_tensors(const fs::path& folder, const std::string& kind) {
  std::vector<host_tensor> tensors;
  for (;;) {
    std::ifstream file(folder / (kind + "_" + std::to_string(tensors.size()) + ".pb"),
                       std::ios::binary);
    if (!file) return tensors;
    onnx::TensorProto message;
    if (!message.ParseFromIstream(&file)) throw error(errc::invalid_argument, "not a tensor");
    tensors.push_back(models::read_tensor(message));
  }
}

verdict judge(const node_case& what, model_run& runs) {
  const auto network = model::open(what.folder / "model.onnx");
  std::set<std::string> bound;
  for (int set = 0;; ++set) {
    const auto data = what.folder / ("test_data_set_" + std::to_string(set));
    if (!fs::exists(data)) break;
    const auto tensors = read_tensors(data, "input");
    const auto expected = read_tensors(data, "output");
    std::map<std::string, host_tensor> inputs;
    const auto count = std::min(tensors.size(), network.inputs().size());
    for (std::size_t i = 0; i < count; ++i) inputs.emplace(network.inputs()[i].name, tensors[i]);
    const auto found = runs.run(network, inputs, bound);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto why = difference(found[i], expected[i], what.allowed);
      if (!why.empty()) return {"failed", "output " + std::to_string(i) + ": " + why};
    }
  }
  std::string names;
  for (const auto& name : bound) names += (names.empty() ? "bound: " : ", ") + name;
  return {"passed", names};
}

int run_cases(std::string_view device, const fs::path& list) {
  model_run runs(device);
  for (const auto& each : read_list(list)) {
    verdict result;
    try {
      result = judge(each, runs);
    } catch (const error& e) {
      result = {e.code() == errc::unsupported ? "unsupported" : "error", e.what()};
    } catch (const std::exception& e) {
      result = {"error", e.what()};
    }
    std::replace(result.reason.begin(), result.reason.end(), '\n', ' ');
    std::cout << each.folder.filename().string() << '\t' << result.word << '\t' << result.reason
              << std::endl;  // NOLINT(performance-avoid-endl): the reader names the case of a crash
  }
  return 0;
}

}  // namespace
}  // namespace sluice::test

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: node_cases <device> <list>\n";
    return 2;
  }
  try {
    return sluice::test::run_cases(argv[1], argv[2]);
  } catch (const std::exception& e) {
    std::cerr << "node_cases: " << e.what() << '\n';
    return 1;
  }
}
