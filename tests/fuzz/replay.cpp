// SPDX-License-Identifier: Apache-2.0
// The main function of a fuzz target where libFuzzer is not: calls it with the files of the folders
// that are named, so that what was found once stays found with every compiler.
#include "tests/fuzz/fuzz.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

int main(int argc, char** argv) {
  int files = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::vector<char> bytes(std::istreambuf_iterator<char>(file), {});
      std::printf("%s: %zu bytes\n", entry.path().c_str(), bytes.size());
      (void)std::fflush(stdout);
      (void)LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                   bytes.size());
      ++files;
    }
  }
  return files == 0 ? 1 : 0;
}
