// SPDX-License-Identifier: Apache-2.0
// What is in the folder of a file that is written, and failed writes.
#include "models/export/model_stream.hpp"
#include "models/export/replacing_file.hpp"
#include "tests/models/written_model.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

#include <sluice/models/write_model.hpp>
#include <sluice/operations/unary.hpp>

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

program program_of_exp() {
  program_builder p;
  const auto y = p.add("y", exp(p.input("x")));
  return std::move(p).build({y});
}
void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path) << text;
}
std::string bytes_in(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(written_files, change_no_other_file) {
  const temporary_folder folder;
  const auto path = folder / "program.onnx";
  write_text(folder / "other", "other");
  fs::create_symlink(folder / "other", folder / "program.onnx.part");
  write_model(program_of_exp(), path);
  EXPECT_EQ(operators_of(path), "Exp");
  EXPECT_EQ(bytes_in(folder / "other"), "other");
  EXPECT_TRUE(fs::is_symlink(folder / "program.onnx.part"));
  EXPECT_EQ(folder.entries(), 3);
}

TEST(written_files, have_the_permissions_of_the_file_before) {
  const temporary_folder folder;
  write_text(folder / "usual", "");
  const auto path = folder / "program.onnx";
  const auto permissions = [](const fs::path& file) {
    return fs::status(file).permissions();
  };
  write_model(program_of_exp(), path);
  EXPECT_EQ(permissions(path), permissions(folder / "usual"));
  const auto narrow = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read;
  fs::permissions(path, narrow);
  write_model(program_of_exp(), path);
  EXPECT_EQ(permissions(path), narrow);
  EXPECT_EQ(operators_of(path), "Exp");
}

TEST(written_files, are_those_that_links_name) {
  const temporary_folder folder;
  fs::create_directory(folder / "models");
  fs::create_symlink("models/program.onnx", folder / "link");
  for (int i = 0; i < 2; ++i) {  // that does not exist, and that does
    write_model(program_of_exp(), folder / "link");
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "models/program.onnx")));
    EXPECT_EQ(operators_of(folder / "models/program.onnx"), "Exp");
  }
  fs::create_symlink("loop", folder / "loop");
  EXPECT_TRUE(throws(errc::invalid_argument, "loop: cannot be written",
                     [&] { write_model(program_of_exp(), folder / "loop"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "models: is a folder",
                     [&] { write_model(program_of_exp(), folder / "models"); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "is the name of a folder",
                     [&] { write_model(program_of_exp(), folder / "others/"); }));
}

TEST(written_files, stay_as_they_were_without_a_complete_one) {
  const temporary_folder folder;
  const auto path = folder / "program.onnx";
  write_text(path, "before");
  {
    const models::replacing_file file(path);
    ASSERT_EQ(::write(file.descriptor(), "after", 5), 5);
    EXPECT_EQ(folder.entries(), 2);
    EXPECT_EQ(bytes_in(path), "before");
  }
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(bytes_in(path), "before");
  models::replacing_file file(path);
  ASSERT_EQ(::write(file.descriptor(), "after", 5), 5);
  file.complete();
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(bytes_in(path), "after");
}

TEST(written_files, may_be_open_descriptors) {
  const temporary_folder folder;
  const auto path = folder / "program.onnx";
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(descriptor, 0);
  write_model(program_of_exp(), "/dev/fd/" + std::to_string(descriptor));
  EXPECT_GT(::lseek(descriptor, 0, SEEK_CUR), 0);
  ::close(descriptor);
  EXPECT_EQ(operators_of(path), "Exp");
  EXPECT_EQ(folder.entries(), 1);
  write_model(program_of_exp(), "/dev/null");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(written_files, state_why_a_write_fails) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no device without room";
  const auto failure = error_of([] {
    write_model(program_of_exp(), "/dev/full");
    return 0;
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->code(), errc::library_failure);
  EXPECT_EQ(failure->status(), (library_status{"libc", ENOSPC}));
}

/// A download of each constant would take long.
TEST(written_files, end_with_the_first_write_that_fails) {
  models::written_program written;
  const host_tensor elements(std::vector<float>(4096));
  for (int i = 0; i < 5; ++i) {
    auto& constant = written.constants.emplace_back();
    constant.on_host = elements;
    constant.header.set_name("c" + std::to_string(i));
  }
  std::array<char, 1000> room{};
  google::protobuf::io::ArrayOutputStream stream(room.data(), static_cast<int>(room.size()));
  int reads = 0;
  EXPECT_FALSE(models::write_stream(stream, written, [&](const models::written_constant& constant) {
    ++reads;
    return constant.on_host;
  }));
  EXPECT_EQ(reads, 1);
}

}  // namespace
}  // namespace sluice::test
