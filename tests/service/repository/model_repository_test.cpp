// SPDX-License-Identifier: Apache-2.0
#include "service/repository/model_repository.hpp"

#include "tests/service/repository/repository_files.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sluice::service {
namespace {

using test::repository_files;

model_index scan(const repository_files& files, std::vector<named_file> named = {}) {
  return model_repository({.folder = files.path(), .files = std::move(named)}).scan();
}

std::string text_of(const file_descriptor& file) {
  std::string text(64, '\0');
  const auto size = ::read(file.get(), text.data(), text.size());
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

/// The only file of a version.
std::shared_ptr<const file_descriptor> open_model(const model_repository& repository,
                                                  const model_index& index, std::string_view model,
                                                  std::uint64_t version) {
  return repository.open_files(index, model, version).at(0);
}

/// Writes a file, if its folder is still there.
void write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(model_repository, finds_models_and_versions) {
  const repository_files files;
  files.write("plain/1/model.onnx", "one");
  files.write("both/3/model.onnx", "three");
  files.write("both/12/model.onnx", "twelve");
  files.write("both/config.toml", "version_policy = { all = {} }\ninstance_group = { count = 2 }");
  files.write("text/1/model.onnx", "one");
  files.write("text/config.pbtxt", "name: 'text' max_batch_size: 4");
  const auto index = scan(files);
  ASSERT_EQ(index.models.size(), 3u);
  EXPECT_TRUE(index.ignored_folders.empty());
  for (const auto& [name, model] : index.models) EXPECT_EQ(model.problem, "") << name;
  EXPECT_EQ(index.models.at("plain").config, model_config());
  EXPECT_FALSE(index.models.at("plain").config_file.has_value());
  EXPECT_EQ(index.models.at("both").config->lanes, 2);
  EXPECT_TRUE(index.models.at("both").config_file.has_value());
  EXPECT_EQ(served_versions(index.models.at("both")), (std::vector<std::uint64_t>{3, 12}));
  EXPECT_EQ(index.models.at("text").config->max_batch_size, 4);
}

TEST(model_repository, ignores_what_is_no_model) {
  const repository_files files;
  files.write("model/1/model.onnx", "one");
  files.write("model/01/model.onnx", "x");
  files.write("model/0/model.onnx", "x");
  files.write("model/-1/model.onnx", "x");
  files.write("model/1a/model.onnx", "x");
  files.write("model/notes.txt", "x");
  files.write("README.md", "x");
  files.write(".git/1/model.onnx", "x");
  files.write("..2026/1/model.onnx", "x");
  files.write("a file", "x");
  const auto index = scan(files);
  ASSERT_EQ(index.models.size(), 1u);
  EXPECT_EQ(index.models.at("model").versions.size(), 1u);
  EXPECT_TRUE(index.ignored_folders.empty());
}

TEST(model_repository, tells_of_hostile_names) {
  const repository_files files;
  const std::vector<std::string> names{"a b", "a\nb", "\x01", "\xff\xfe", "%2e%2e", "a:b",
                                       "~",   "\"",   "<b>",  "a;b",      "a\\b",   "\xc3\xa9"};
  for (const auto& name : names) files.write(name + "/1/model.onnx", "x");
  const auto index = scan(files);
  EXPECT_TRUE(index.models.empty());
  ASSERT_EQ(index.ignored_folders.size(), names.size());
  for (const auto& name : index.ignored_folders)
    for (const char c : name) EXPECT_TRUE(c >= ' ' && c <= '~') << name;
}

TEST(model_repository, says_why_a_model_is_broken_and_serves_the_others) {
  const repository_files files;
  files.write("good/1/model.onnx", "one");
  files.write("both/1/model.onnx", "one");
  files.write("both/config.toml", "");
  files.write("both/config.pbtxt", "");
  files.write("wrong/1/model.onnx", "one");
  files.write("wrong/config.toml", "max_batch_sise = 3");
  files.write("renamed/1/model.onnx", "one");
  files.write("renamed/config.pbtxt", "name: 'other'");
  files.write("large/1/model.onnx", "one");
  files.write("large/config.toml", std::string(max_config_bytes + 1, '#'));
  files.write("none/notes", "");
  files.write("folder/1/model.onnx/x", "");
  files.write("empty/1/model.onnx", "");
  files.write("flat/1", "one");
  files.write("bare/1/other.onnx", "one");
  files.write("special/1/x", "one");
  ASSERT_EQ(::mkfifo((files / "special/1/model.onnx").c_str(), 0600), 0);
  files.write("config/1/model.onnx", "one");
  ASSERT_EQ(::mkfifo((files / "config/config.toml").c_str(), 0600), 0);
  const auto index = scan(files);

  const auto expect_problem = [&](const char* name, const std::string& text) {
    const auto& model = index.models.at(name);
    EXPECT_EQ(model.problem, text) << name;
    EXPECT_TRUE(served_versions(model).empty()) << name;
  };
  const auto expect_version_problem = [&](const char* name, const std::string& text) {
    expect_problem(name, "there is no version that can be served");
    EXPECT_EQ(index.models.at(name).versions.at(1).problem, text) << name;
  };
  EXPECT_EQ(index.models.at("good").problem, "");
  EXPECT_EQ(served_versions(index.models.at("good")), std::vector<std::uint64_t>{1});
  expect_problem("both", "there are both config.toml and config.pbtxt");
  expect_problem("wrong", "config.toml: the key max_batch_sise is unknown");
  expect_problem("renamed", "config.pbtxt: name must be the name of the folder, or missing");
  expect_problem("large", "config.toml: has more than 64 KiB");
  expect_problem("config", "config.toml: it is not a regular file");
  expect_problem("none", "there is no version that can be served");
  expect_version_problem("folder", "the model file: it is not a regular file");
  expect_version_problem("special", "the model file: it is not a regular file");
  expect_version_problem("empty", "the model file is empty");
  expect_version_problem("flat", "the model file: Not a directory");
  expect_version_problem("bare", "there is no model file");
}

TEST(model_repository, refuses_links_that_leave_it) {
  const repository_files files;
  files.write("outside/model/1/model.onnx", "secret");
  files.write("outside/config.toml", "max_batch_size = 7");
  files.link("../outside/model", "inside/folder");
  files.link("../../outside/model/1", "inside/version/1");
  files.link("../../../outside/model/1/model.onnx", "inside/file/1/model.onnx");
  files.link("/etc/passwd", "inside/passwd/1/model.onnx");
  files.write("inside/config/1/model.onnx", "one");
  files.link("../../outside/config.toml", "inside/config/config.toml");
  files.write("inside/good/1/model.onnx", "one");
  files.link("good", "inside/second_name");
  files.link("../good/1", "inside/other_model/1");
  files.write("inside/same_model/drafts/model.onnx", "one");
  files.link("drafts", "inside/same_model/1");
  const auto index = model_repository({.folder = files / "inside"}).scan();
  ASSERT_EQ(index.models.size(), 9u);
  const std::string reason = "a symbolic link leaves the folder";
  EXPECT_EQ(index.models.at("folder").problem, reason);
  for (const char* name : {"version", "file", "passwd", "other_model"})
    EXPECT_EQ(index.models.at(name).versions.at(1).problem, "the model file: " + reason) << name;
  EXPECT_EQ(index.models.at("config").problem, "config.toml: " + reason);
  for (const char* name : {"good", "second_name", "same_model"})
    EXPECT_EQ(index.models.at(name).problem, "") << name;
}

TEST(model_repository, serves_the_links_of_kubernetes) {
  const repository_files files;
  files.write("mount/..2026_01/m/1/model.onnx", "first");
  files.link("..2026_01", "mount/..data");
  files.link("..data/m", "mount/m");
  const auto before = model_repository({.folder = files / "mount"}).scan();
  ASSERT_EQ(before.models.size(), 1u);
  EXPECT_EQ(before.models.at("m").problem, "");

  // The repository itself is a link.
  files.link("mount/..data", "repository");
  const model_repository repository({.folder = files / "repository"});
  EXPECT_EQ(repository.scan().models.at("m"), before.models.at("m"));

  files.write("mount/..2026_02/m/1/model.onnx", "second");
  files.write("mount/..2026_02/m/2/model.onnx", "second");
  files.switch_link("..2026_02", "mount/..data");
  files.remove("mount/..2026_01");
  for (const auto& index :
       {repository.scan(), model_repository({.folder = files / "mount"}).scan()})
    EXPECT_EQ(served_versions(index.models.at("m")), std::vector<std::uint64_t>{2});
  const auto index = repository.scan();
  EXPECT_EQ(text_of(*open_model(repository, index, "m", 2)), "second");
}

TEST(model_repository, opens_the_indexed_file_only) {
  const repository_files files;
  files.write("m/1/model.onnx", "first");
  const model_repository repository({.folder = files.path()});
  const auto index = repository.scan();
  EXPECT_EQ(text_of(*open_model(repository, index, "m", 1)), "first");
  EXPECT_THROW((void)open_model(repository, index, "m", 2), repository_error);
  for (const char* name : {"", "n", "..", "m/1", "../m", ".", "m/../m", "M"})
    EXPECT_THROW((void)open_model(repository, index, name, 1), repository_error) << name;

  files.write("m/1/model.onnx", "longer than the first");
  EXPECT_THROW((void)open_model(repository, index, "m", 1), repository_error);
  const auto next = repository.scan();
  EXPECT_EQ(text_of(*open_model(repository, next, "m", 1)), "longer than the first");
  files.write("n", "longer than the first");
  files.rename("n", "m/1/model.onnx");
  EXPECT_THROW((void)open_model(repository, next, "m", 1), repository_error) << "another inode";
  files.remove("m");
  EXPECT_THROW((void)open_model(repository, next, "m", 1), repository_error);
  files.write("outside", "longer than the first");
}

TEST(model_repository, keeps_an_open_model_that_is_removed) {
  const repository_files files;
  files.write("m/1/model.onnx", "first");
  const model_repository repository({.folder = files.path()});
  const auto file = open_model(repository, repository.scan(), "m", 1);
  files.remove("m");
  EXPECT_EQ(text_of(*file), "first");
}

TEST(model_repository, serves_named_files) {
  const repository_files files;
  files.write("hidden/4/model.onnx", "folder");
  const repository_files elsewhere;
  elsewhere.write("file.onnx", "one");
  elsewhere.link((elsewhere / "file.onnx").string(), "link.onnx");
  const std::vector<named_file> named{{"hidden", elsewhere / "file.onnx"},
                                      {"linked", elsewhere / "link.onnx"},
                                      {"missing", elsewhere / "missing.onnx"},
                                      {"device", "/dev/null"}};
  const model_repository repository({.folder = files.path(), .files = named});
  const auto index = repository.scan();
  ASSERT_EQ(index.models.size(), 4u);
  EXPECT_EQ(served_versions(index.models.at("hidden")), std::vector<std::uint64_t>{1});
  EXPECT_EQ(text_of(*open_model(repository, index, "hidden", 1)), "one");
  EXPECT_EQ(text_of(*open_model(repository, index, "linked", 1)), "one");
  EXPECT_EQ(index.models.at("missing").problem, "there is no model file");
  EXPECT_EQ(index.models.at("device").problem, "the model file: it is not a regular file");

  const model_repository without({.files = named});
  EXPECT_EQ(without.scan().models.size(), 4u);
  EXPECT_THROW((void)open_model(without, scan(files), "hidden", 4), repository_error);
}

TEST(model_repository, parses_named_files) {
  const auto file = parse_named_file("net=/models/a=b.onnx");
  EXPECT_EQ(file.name, "net");
  EXPECT_EQ(file.path, "/models/a=b.onnx");
  for (const char* argument : {"", "net", "net="})
    EXPECT_THROW((void)parse_named_file(argument), repository_error) << argument;
  for (const char* argument : {"=x", "../net=x", ".net=x", "a/b=x"})
    EXPECT_THROW(model_repository({.files = {parse_named_file(argument)}}), repository_error)
        << argument;
  EXPECT_THROW(model_repository({.files = {{"a", "x"}, {"a", "y"}}}), repository_error);
}

TEST(model_repository, needs_its_folder) {
  const repository_files files;
  EXPECT_THROW((void)model_repository({.folder = files / "nothing"}).scan(), repository_error);
  files.write("file", "");
  EXPECT_THROW((void)model_repository({.folder = files / "file"}).scan(), repository_error);
  EXPECT_TRUE(scan(repository_files()).models.empty());
}

// Links take less time to make than folders and files.
TEST(model_repository, reads_thousands_of_entries) {
  const repository_files files;
  files.write("m1/1/model.onnx", "x");
  for (std::size_t i = 2; i <= model_repository::max_names_in_model; ++i)
    files.link("1", "m1/" + std::to_string(i));
  files.write("m2/1/model.onnx", "x");
  for (std::size_t i = 3; i <= 3'000; ++i) files.link("m2", "m" + std::to_string(i));
  auto index = scan(files);
  EXPECT_EQ(index.models.size(), 3'000u);
  EXPECT_EQ(index.models.at("m1").versions.size(), model_repository::max_names_in_model);
  EXPECT_EQ(served_versions(index.models.at("m1")), std::vector<std::uint64_t>{1'000});
  EXPECT_EQ(served_versions(index.models.at("m3000")), std::vector<std::uint64_t>{1});

  files.write("m1/notes", "");
  index = scan(files);
  EXPECT_EQ(index.models.at("m1").problem, "the folder has more than 1000 entries");
  EXPECT_EQ(index.models.at("m2").problem, "");
}

// A lack of descriptors is no reason to take a version for broken.
TEST(model_repository, does_not_blame_a_version_for_a_lack_of_descriptors) {
  const repository_files files;
  files.write("m/1/model.onnx", "one");
  const model_repository repository({.folder = files.path()});
  rlimit limits{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limits), 0);
  const file_descriptor last(::dup(0));
  std::size_t failures = 0;
  // From no descriptor to enough of them: each of the opens fails once.
  for (rlim_t more = 0; more < 6; ++more) {
    const rlimit few{.rlim_cur = static_cast<rlim_t>(last.get()) + 1 + more,
                     .rlim_max = limits.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    std::optional<model_index> index;
    try {
      index = repository.scan();
    } catch (const repository_error&) {
      ++failures;
    }
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limits), 0);
    if (!index) continue;
    const auto& model = index->models.at("m");
    if (model.problem.empty()) {
      EXPECT_EQ(served_versions(model), std::vector<std::uint64_t>{1});
    } else {
      ++failures;
      EXPECT_FALSE(model.config.has_value()) << model.problem;
    }
  }
  EXPECT_GE(failures, 3u);
  EXPECT_LT(failures, 6u);
}

// An error of a kind that may pass is one of the model, which a watch keeps then. This one stands
// for those of a network file system.
TEST(model_repository, takes_an_error_that_may_pass_for_one_of_the_model) {
  const repository_files files;
  files.write("m/1/model.onnx", "one");
  files.link(std::string(300, 'x'), "m/2/model.onnx");
  const auto model = scan(files).models.at("m");
  EXPECT_EQ(model.problem, "File name too long");
  EXPECT_FALSE(model.config.has_value());
}

// Two states of a model alternate while it is read. No index mixes them.
TEST(model_repository, sees_one_state_while_links_are_switched) {
  const repository_files files;
  for (const std::string state : {"1", "2"}) {
    files.write("..state_" + state + "/m/" + state + "/model.onnx", state);
    files.write("..state_" + state + "/m/config.toml",
                "instance_group = { count = " + state + " }");
  }
  files.link("..state_1", "..data");
  files.link("..data/m", "m");
  std::atomic<bool> has_ended{false};
  std::thread writer([&] {
    for (bool first = false; !has_ended.load(); first = !first)
      files.switch_link(first ? "..state_1" : "..state_2", "..data");
  });
  const model_repository repository({.folder = files.path()});
  for (int i = 0; i < 2'000; ++i) {
    const auto index = repository.scan();
    ASSERT_EQ(index.models.size(), 1u);
    const auto& model = index.models.at("m");
    EXPECT_EQ(model.problem, "");
    ASSERT_EQ(model.versions.size(), 1u);
    EXPECT_EQ(static_cast<std::uint64_t>(model.config->lanes), model.versions.begin()->first);
  }
  has_ended.store(true);
  writer.join();
}

// Models, versions and configs come and go while they are read and opened.
TEST(model_repository, survives_changes_while_it_is_read) {
  const repository_files files;
  files.write("steady/1/model.onnx", "steady");
  auto generator = test::make_generator();
  std::atomic<bool> has_ended{false};
  std::thread writer([&] {
    while (!has_ended.load()) {
      const std::string model = "m" + std::to_string(generator() % 3);
      std::error_code ignored;
      switch (generator() % 5) {
        case 0:
          std::filesystem::remove_all(files / model, ignored);
          break;
        case 1:
          files.write(model + "/config.toml",
                      generator() % 2 == 0 ? "max_batch_size = 2" : "x = 1");
          break;
        case 2:
          std::filesystem::rename(files / model, files / "m0", ignored);
          break;
        case 3:
          std::filesystem::remove_all(files / (model + "/1"), ignored);
          break;
        default:
          std::filesystem::create_directories(files / (model + "/1"), ignored);
          write(files / (model + "/1/model.onnx"), "model");
      }
    }
  });
  const model_repository repository({.folder = files.path()});
  for (int i = 0; i < 1'000; ++i) {
    const auto index = repository.scan();
    EXPECT_EQ(index.models.at("steady").problem, "");
    EXPECT_TRUE(index.ignored_folders.empty());
    for (const auto& [name, model] : index.models) {
      EXPECT_TRUE(model.config.has_value() || !model.problem.empty());
      for (const auto version : served_versions(model)) {
        try {
          const auto file = open_model(repository, index, name, version);
          const std::string text = text_of(*file);
          // The file may be written again after it has been opened.
          EXPECT_TRUE(name == "steady" ? text == name : std::string("model").starts_with(text));
        } catch (const repository_error&) {
          EXPECT_NE(name, "steady");
        }
      }
    }
  }
  has_ended.store(true);
  writer.join();
}

}  // namespace
}  // namespace sluice::service
