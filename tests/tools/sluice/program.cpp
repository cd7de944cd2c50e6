// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <unistd.h>

namespace sluice::test {

namespace fs = std::filesystem;

namespace {

/// What the folder holds, by name.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

void redirect(int descriptor, const fs::path& file) {
  const int opened = ::open(file.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(126);
  ::close(opened);
}

}  // namespace

fs::path program_path() {
  if (const char* path = std::getenv("SLUICE_PROGRAM"); path != nullptr && *path != '\0')
    return path;
  return fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "sluice";
}

program_outcome run_program(const fs::path& folder, const std::vector<std::string>& arguments,
                            const std::function<void()>& prepare) {
  const temporary_folder captured;
  const std::string program = fs::absolute(program_path()).string();
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const fs::path output = captured / "output";
  const fs::path errors = captured / "errors";

  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    redirect(STDOUT_FILENO, output);
    redirect(STDERR_FILENO, errors);
    // OpenBLAS starts a thread for each processor, of which sluice uses none. They take half of the
    // time of a short command.
    (void)::setenv("OPENBLAS_NUM_THREADS", "1", 0);
    prepare();
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::runtime_error("waitpid failed");
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(output),
          read_text(errors)};
}

const std::vector<std::string>& program_devices() {
  static const std::vector<std::string> devices = [] {
    std::vector<std::string> found{"host"};
    const auto list = run_program(fs::temp_directory_path(), {"devices", "--json"});
    const auto json = nlohmann::json::parse(list.output, nullptr, false);
    if (json.is_discarded()) return found;
    for (const auto& device : json.at("devices")) {
      if (device.at("kind") == "cuda") {
        found.push_back("cuda");
        break;
      }
    }
    return found;
  }();
  return devices;
}

void program_test::expect_success(const std::vector<std::string>& arguments) const {
  const program_outcome outcome = run(arguments);
  ASSERT_EQ(outcome.status, 0) << ::testing::PrintToString(arguments) << "\n" << outcome.errors;
  EXPECT_EQ(outcome.errors, "") << ::testing::PrintToString(arguments);
}

void program_test::expect_error(int status, const std::vector<std::string>& words,
                                const std::vector<std::string>& arguments,
                                const std::function<void()>& prepare) const {
  SCOPED_TRACE(::testing::PrintToString(arguments));
  const fs::path existing = folder_ / "out.npy";
  const std::string before = "an earlier result";
  write_text(existing, before);
  const auto names = names_in(folder_.path());

  const program_outcome outcome = run(arguments, prepare);

  EXPECT_EQ(outcome.status, status) << outcome.errors;
  EXPECT_EQ(outcome.output, "");
  EXPECT_EQ(std::count(outcome.errors.begin(), outcome.errors.end(), '\n'), 1) << outcome.errors;
  EXPECT_TRUE(outcome.errors.starts_with("sluice")) << outcome.errors;
  EXPECT_TRUE(outcome.errors.ends_with('\n')) << outcome.errors;
  for (const std::string& word : words)
    EXPECT_NE(outcome.errors.find(word), std::string::npos) << outcome.errors << word;
  EXPECT_EQ(read_text(existing), before);
  EXPECT_EQ(names_in(folder_.path()), names);
}

void expect_npy_header(const fs::path& file, std::string_view descr,
                       const std::vector<std::int64_t>& shape) {
  std::string dictionary = "{'descr': '" + std::string(descr) + "', 'fortran_order': False, ";
  dictionary += "'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    dictionary += (axis == 0 ? "" : ", ") + std::to_string(shape[axis]);
  dictionary += shape.size() == 1 ? ",), }" : "), }";
  const std::string text = read_text(file);
  EXPECT_EQ(text.substr(0, 8), std::string("\x93NUMPY\x01\0", 8));
  EXPECT_EQ(text.substr(10, dictionary.size()), dictionary);
}

std::string npy_file(std::string_view descr, bool fortran_order, std::string_view shape,
                     std::string_view elements) {
  std::string dictionary = "{'descr': '" + std::string(descr) + "', 'fortran_order': ";
  dictionary += fortran_order ? "True" : "False";
  dictionary += ", 'shape': " + std::string(shape) + ", }";
  while ((10 + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  return std::string("\x93NUMPY\x01\0", 8) +
         little_endian(static_cast<std::uint16_t>(dictionary.size())) + dictionary +
         std::string(elements);
}

}  // namespace sluice::test
