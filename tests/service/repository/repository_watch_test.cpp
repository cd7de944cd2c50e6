// SPDX-License-Identifier: Apache-2.0
#include "service/repository/repository_watch.hpp"

#include "tests/service/repository/repository_files.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using namespace std::chrono_literals;
using test::repository_files;
using versions = std::vector<version_of_model>;
using names = std::vector<std::string>;

/// A watch with a clock that the test moves.
struct repository_watch_test : ::testing::Test {
  /// Polls after some time.
  repository_changes poll(std::chrono::milliseconds later) {
    now_ += later;
    return watch_.poll(now_);
  }
  const indexed_model& model(const std::string& name) { return watch_.index()->models.at(name); }

  repository_files files_{};
  repository_watch watch_{model_repository({.folder = files_.path()})};
  repository_watch::time_point now_{};
};

void expect_load(const repository_changes& changes, const versions& expected) {
  EXPECT_EQ(changes.loads, expected);
  EXPECT_TRUE(changes.replaces.empty() && changes.unloads.empty());
}

TEST_F(repository_watch_test, takes_the_repository_as_it_is_at_first) {
  files_.write("a/1/model.onnx", "one");
  files_.write("b/2/model.onnx", "two");
  files_.write("c/notes", "");
  EXPECT_EQ(watch_.index(), nullptr);
  const auto changes = poll(0s);
  expect_load(changes, {{"a", 1}, {"b", 2}});
  EXPECT_EQ(changes.problems, names{"c"});
  EXPECT_TRUE(poll(10s).empty());
}

TEST_F(repository_watch_test, waits_until_a_file_is_written) {
  (void)poll(0s);
  files_.write("a/1/model.onnx", "1");
  EXPECT_TRUE(poll(1s).empty());
  files_.write("a/1/model.onnx", "12");
  EXPECT_TRUE(poll(1s).empty());
  files_.write("a/1/model.onnx", "123");
  EXPECT_TRUE(poll(1999ms).empty());
  EXPECT_TRUE(poll(1999ms).empty());
  EXPECT_TRUE(watch_.index()->models.empty());
  expect_load(poll(1ms), {{"a", 1}});
  EXPECT_EQ(model("a").versions.at(1).file->identity.size, 3u);
  EXPECT_TRUE(poll(10s).empty());
}

TEST_F(repository_watch_test, takes_a_finished_file_that_is_renamed_into_place) {
  files_.write("a/1/model.onnx", "first");
  expect_load(poll(0s), {{"a", 1}});
  files_.write_and_rename("a/1/model.onnx", "other");
  EXPECT_EQ(poll(1ms).replaces, (versions{{"a", 1}}));
  EXPECT_TRUE(poll(10s).empty());

  // Its last write is too close to the rename to tell it from a file that is being written.
  files_.write_and_rename("a/1/model.onnx", "third", 0);
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_EQ(poll(2s).replaces, (versions{{"a", 1}}));
}

TEST_F(repository_watch_test, waits_for_a_known_inode_with_an_old_time) {
  files_.write("a/1/model.onnx", "first");
  (void)poll(0s);
  files_.write("a/1/model.onnx", "written in place");
  files_.set_back("a/1/model.onnx", 60);
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_EQ(poll(2s).replaces, (versions{{"a", 1}}));
}

TEST_F(repository_watch_test, waits_for_all_files_of_a_model) {
  (void)poll(0s);
  files_.write_and_rename("b/1/model.onnx", "first");
  files_.write("b/config.toml", "max_batch_size = 1");
  EXPECT_TRUE(poll(1s).empty());
  files_.write_and_rename("c/1/model.onnx", "first");
  expect_load(poll(1s), {{"c", 1}});
  expect_load(poll(1s), {{"b", 1}});
}

TEST_F(repository_watch_test, follows_versions) {
  files_.write("a/1/model.onnx", "one");
  (void)poll(0s);
  files_.write_and_rename("a/2/model.onnx", "two");
  const auto newer = poll(1s);
  EXPECT_EQ(newer.loads, (versions{{"a", 2}}));
  EXPECT_EQ(newer.unloads, (versions{{"a", 1}}));

  files_.remove("a/2");
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_TRUE(poll(1s).empty());
  const auto older = poll(1s);
  EXPECT_EQ(older.loads, (versions{{"a", 1}}));
  EXPECT_EQ(older.unloads, (versions{{"a", 2}}));

  // A version without a file does not take the place of one with a file.
  files_.write("a/3/notes", "");
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_TRUE(poll(2s).empty());
}

TEST_F(repository_watch_test, unloads_what_stays_away) {
  files_.write("a/1/model.onnx", "one");
  files_.write("b/1/model.onnx", "one");
  (void)poll(0s);
  files_.rename("a", ".a");
  files_.rename("b", ".b");
  EXPECT_TRUE(poll(1s).empty());
  files_.rename(".b", "b");
  EXPECT_TRUE(poll(1s).empty());
  const auto changes = poll(1s);
  EXPECT_EQ(changes.unloads, (versions{{"a", 1}}));
  EXPECT_TRUE(changes.loads.empty() && changes.replaces.empty());
  EXPECT_FALSE(watch_.index()->models.contains("a"));
  EXPECT_TRUE(poll(10s).empty());
}

TEST_F(repository_watch_test, replaces_versions_whose_config_changes) {
  files_.write("a/1/model.onnx", "one");
  files_.write("a/2/model.onnx", "two");
  files_.write("a/config.toml", "version_policy = { all = {} }");
  (void)poll(0s);
  files_.write_and_rename("a/config.toml", "max_batch_size = 8\nversion_policy = { all = {} }");
  EXPECT_EQ(poll(1s).replaces, (versions{{"a", 1}, {"a", 2}}));
  files_.write_and_rename("a/config.toml", "# the same\nmax_batch_size = 8");
  const auto changes = poll(1s);
  EXPECT_TRUE(changes.replaces.empty());
  EXPECT_EQ(changes.unloads, (versions{{"a", 1}}));
  files_.write_and_rename("a/config.toml", "max_batch_size = 8\nparameters.required = true");
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_TRUE(model("a").config->is_required);
}

TEST_F(repository_watch_test, keeps_a_model_whose_config_breaks) {
  files_.write("a/1/model.onnx", "one");
  (void)poll(0s);
  files_.write_and_rename("a/config.toml", "x = 1");
  auto changes = poll(1s);
  EXPECT_TRUE(changes.loads.empty() && changes.replaces.empty() && changes.unloads.empty());
  EXPECT_EQ(changes.problems, names{"a"});
  EXPECT_EQ(model("a").problem, "config.toml: the key x is unknown");
  EXPECT_EQ(served_versions(model("a")), std::vector<std::uint64_t>{1});
  EXPECT_TRUE(poll(10s).empty());

  files_.write_and_rename("a/2/model.onnx", "two");
  EXPECT_TRUE(poll(10s).empty());
  files_.write_and_rename("a/config.toml", "max_batch_size = 2");
  changes = poll(1s);
  EXPECT_EQ(changes.loads, (versions{{"a", 2}}));
  EXPECT_EQ(changes.unloads, (versions{{"a", 1}}));
  EXPECT_EQ(changes.problems, names{"a"});
  EXPECT_EQ(model("a").problem, "");

  files_.write_and_rename("a/config.pbtxt", "");
  EXPECT_TRUE(poll(1s).empty()) << "the old config does not count any more";
  EXPECT_EQ(poll(2s).problems, names{"a"});
  files_.remove("a");
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_EQ(poll(2s).unloads, (versions{{"a", 2}}));
}

TEST_F(repository_watch_test, keeps_everything_if_the_folder_cannot_be_read) {
  files_.write("models/a/1/model.onnx", "one");
  repository_watch watch(model_repository({.folder = files_ / "models"}));
  const repository_watch::time_point start{};
  (void)watch.poll(start);
  const auto index = watch.index();
  files_.rename("models", "elsewhere");
  EXPECT_THROW((void)watch.poll(start + 1s), repository_error);
  EXPECT_THROW((void)watch.poll(start + 5s), repository_error);
  EXPECT_EQ(watch.index(), index);
  files_.rename("elsewhere", "models");
  EXPECT_TRUE(watch.poll(start + 6s).empty());
}

TEST_F(repository_watch_test, follows_a_switch_of_kubernetes) {
  files_.write("..one/a/1/model.onnx", "one");
  files_.write("..two/a/1/model.onnx", "two");
  files_.write("..two/a/config.toml", "max_batch_size = 2");
  files_.link("..one", "..data");
  files_.link("..data/a", "a");
  expect_load(poll(0s), {{"a", 1}});
  files_.switch_link("..two", "..data");
  EXPECT_TRUE(poll(1s).empty());
  EXPECT_EQ(poll(2s).replaces, (versions{{"a", 1}}));
  EXPECT_EQ(model("a").config->max_batch_size, 2);
}

TEST_F(repository_watch_test, leaves_earlier_indices_alone) {
  files_.write("a/1/model.onnx", "one");
  (void)poll(0s);
  const auto before = watch_.index();
  files_.remove("a");
  (void)poll(1s);
  (void)poll(2s);
  EXPECT_TRUE(before->models.contains("a"));
  EXPECT_TRUE(watch_.index()->models.empty());
}

// After random changes and a quiet time, the changes that were reported add up to what a new watch
// finds.
TEST_F(repository_watch_test, reports_changes_that_add_up) {
  auto generator = test::make_generator();
  std::set<std::pair<std::string, std::uint64_t>> loaded;
  const auto apply = [&](const repository_changes& changes) {
    for (const auto& [name, version] : changes.loads)
      EXPECT_TRUE(loaded.emplace(name, version).second) << name << " " << version;
    for (const auto& [name, version] : changes.replaces)
      EXPECT_TRUE(loaded.contains({name, version})) << name << " " << version;
    for (const auto& [name, version] : changes.unloads)
      EXPECT_EQ(loaded.erase({name, version}), 1u) << name << " " << version;
  };
  for (int i = 0; i < 400; ++i) {
    const std::string name(1, static_cast<char>('a' + generator() % 3));
    const std::string version = name + "/" + std::to_string(1 + generator() % 3);
    switch (generator() % 6) {
      case 0:
        files_.remove(name);
        break;
      case 1:
        files_.remove(version);
        break;
      case 2:
        files_.write(name + "/config.toml", "version_policy = { latest = { num_versions = " +
                                                std::to_string(1 + generator() % 2) + " } }");
        break;
      case 3:
        files_.write_and_rename(version + "/model.onnx", std::string(1 + generator() % 9, 'x'));
        break;
      default:
        files_.write(version + "/model.onnx", std::string(1 + generator() % 9, 'x'));
    }
    apply(poll(std::chrono::milliseconds(generator() % 3'000)));
  }
  apply(poll(2s));
  apply(poll(2s));
  repository_watch fresh(model_repository({.folder = files_.path()}));
  std::set<std::pair<std::string, std::uint64_t>> expected;
  for (const auto& [name, version] : fresh.poll({}).loads) expected.emplace(name, version);
  EXPECT_EQ(loaded, expected);
  EXPECT_EQ(watch_.index()->models, fresh.index()->models);
}

}  // namespace
}  // namespace sluice::service
