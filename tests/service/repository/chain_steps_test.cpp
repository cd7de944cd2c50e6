// SPDX-License-Identifier: Apache-2.0
// The files of chains, and when they count.
#include "service/repository/chain_steps.hpp"

#include "service/repository/repository_watch.hpp"
#include "tests/service/repository/repository_files.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace sluice::service {
namespace {

using namespace std::chrono_literals;
using test::repository_files;
using versions = std::vector<version_of_model>;

/// A step that reads `from` and makes `to`.
std::string step_text(const std::string& model, const std::string& from, const std::string& to,
                      const std::string& version = "-1") {
  return "step { model_name: '" + model + "' model_version: " + version +
         " input_map { key: 'x' value: '" + from + "' } output_map { key: 'y' value: '" + to +
         "' } }";
}

std::string chain_text(const std::string& steps) {
  return "platform: 'ensemble' input { name: 'a' data_type: TYPE_FP32 dims: 1 } "
         "output { name: 'c' data_type: TYPE_FP32 dims: 1 } ensemble_scheduling { " +
         steps + " }";
}

std::string text_of_descriptor(const file_descriptor& file) {
  std::string text(64, '\0');
  const auto size = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
  return text;
}

/// A chain of two models, and a watch with a clock that the test moves.
struct chain_steps_test : ::testing::Test {
  void SetUp() override {
    files_.write("first/1/model.onnx", "first 1");
    files_.write("first/2/model.onnx", "first 2");
    files_.write("second/3/model.onnx", "second 3");
    put_chain(step_text("first", "a", "b") + step_text("second", "b", "c"));
    std::filesystem::create_directories(files_ / "chain/1");
  }
  void put_chain(const std::string& steps) {
    files_.write("chain/config.pbtxt", chain_text(steps));
  }
  /// Polls after some time.
  repository_changes poll(std::chrono::milliseconds later) {
    now_ += later;
    return watch_.poll(now_);
  }
  [[nodiscard]] const indexed_model& chain() { return watch_.index()->models.at("chain"); }
  /// The contents of the files of the chain.
  [[nodiscard]] std::vector<std::string> texts() {
    std::vector<std::string> texts;
    for (const auto& file : watch_.repository().open_files(*watch_.index(), "chain", 1))
      texts.push_back(text_of_descriptor(*file));
    return texts;
  }
  /// The problem of the chain with these steps, which has no version then.
  [[nodiscard]] std::string problem_of(const std::string& steps) {
    put_chain(steps);
    const auto index = watch_.repository().scan();
    EXPECT_TRUE(served_versions(index.models.at("chain")).empty()) << steps;
    EXPECT_EQ(index.models.at("first").problem, "");
    return index.models.at("chain").problem;
  }

  repository_files files_{};
  repository_watch watch_{model_repository({.folder = files_.path()})};
  repository_watch::time_point now_{};
};

TEST_F(chain_steps_test, finds_the_highest_versions) {
  EXPECT_EQ(poll(0s).loads, (versions{{"chain", 1}, {"first", 2}, {"second", 3}}));
  EXPECT_EQ(chain().problem, "");
  EXPECT_EQ(texts(), (std::vector<std::string>{"first 2", "second 3"}));
  EXPECT_TRUE(poll(10s).empty());
}

TEST_F(chain_steps_test, finds_fixed_versions_and_shares_files) {
  put_chain(step_text("first", "a", "b", "1") + step_text("first", "b", "d", "1") +
            step_text("first", "d", "c", "2"));
  (void)poll(0s);
  const auto files = watch_.repository().open_files(*watch_.index(), "chain", 1);
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0], files[1]);
  EXPECT_NE(files[0], files[2]);
  EXPECT_EQ(texts(), (std::vector<std::string>{"first 1", "first 1", "first 2"}));
}

TEST_F(chain_steps_test, follows_the_policy_of_a_step) {
  files_.write("first/config.toml", "version_policy = { specific = { versions = [1] } }");
  (void)poll(0s);
  EXPECT_EQ(texts().at(0), "first 1");
}

TEST_F(chain_steps_test, takes_models_that_are_named_by_themselves) {
  const repository_files elsewhere;
  elsewhere.write("net.onnx", "named");
  const model_repository repository(
      {.folder = files_.path(), .files = {{"second", elsewhere / "net.onnx"}}});
  const auto index = repository.scan();
  const auto opened = repository.open_files(index, "chain", 1);
  ASSERT_EQ(opened.size(), 2U);
  EXPECT_EQ(text_of_descriptor(*opened[1]), "named");
}

TEST_F(chain_steps_test, changes_with_a_file_of_a_step) {
  (void)poll(0s);
  files_.write("second/3/model.onnx", "second, written");
  EXPECT_TRUE(poll(1s).empty());
  files_.write("second/3/model.onnx", "second, written in place");
  EXPECT_TRUE(poll(1999ms).empty());
  EXPECT_TRUE(poll(1999ms).empty());
  EXPECT_EQ(poll(1ms).replaces, (versions{{"chain", 1}, {"second", 3}}));
  EXPECT_EQ(texts().at(1), "second, written in place");
  files_.write_and_rename("first/2/model.onnx", "first, renamed");
  EXPECT_EQ(poll(1ms).replaces, (versions{{"chain", 1}, {"first", 2}}));
  EXPECT_EQ(texts().at(0), "first, renamed");
  files_.write_and_rename("first/4/model.onnx", "first 4");
  const auto newer = poll(3s);
  EXPECT_EQ(newer.replaces, (versions{{"chain", 1}}));
  EXPECT_EQ(texts().at(0), "first 4");
  files_.write("other/1/model.onnx", "no step");
  EXPECT_TRUE(poll(0s).empty());
  EXPECT_EQ(poll(2s).loads, (versions{{"other", 1}})) << "nothing else changes";
}

TEST_F(chain_steps_test, counts_once_all_its_files_are_written) {
  (void)poll(0s);
  files_.write_and_rename("first/2/model.onnx", "first, renamed");
  files_.write("second/3/model.onnx", "second, in place");
  EXPECT_EQ(poll(1s).replaces, (versions{{"first", 2}}));
  EXPECT_EQ(poll(2s).replaces, (versions{{"chain", 1}, {"second", 3}}));
  EXPECT_EQ(texts(), (std::vector<std::string>{"first, renamed", "second, in place"}));
}

TEST_F(chain_steps_test, changes_with_its_own_config) {
  (void)poll(0s);
  put_chain(step_text("second", "a", "c"));
  EXPECT_TRUE(poll(0s).empty());
  EXPECT_EQ(poll(2s).replaces, (versions{{"chain", 1}}));
  EXPECT_EQ(texts(), std::vector<std::string>{"second 3"});
  std::filesystem::create_directories(files_ / "chain/2");
  EXPECT_TRUE(poll(1s).empty());
  const auto changes = poll(2s);
  EXPECT_EQ(changes.loads, (versions{{"chain", 2}}));
  EXPECT_EQ(changes.unloads, (versions{{"chain", 1}}));
}

TEST_F(chain_steps_test, ends_with_a_step_that_is_missing) {
  (void)poll(0s);
  files_.remove("second");
  EXPECT_TRUE(poll(1s).empty());
  const auto changes = poll(2s);
  EXPECT_EQ(changes.unloads, (versions{{"chain", 1}, {"second", 3}}));
  EXPECT_EQ(chain().problem, "step '1 (second)': there is no such model");
  files_.write("second/1/model.onnx", "again");
  (void)poll(0s);
  EXPECT_EQ(poll(2s).loads, (versions{{"chain", 1}, {"second", 1}}));
  EXPECT_EQ(chain().problem, "");
}

TEST_F(chain_steps_test, stays_while_the_config_of_a_step_is_broken) {
  (void)poll(0s);
  files_.write("second/config.toml", "nonsense = 1");
  (void)poll(0s);
  const auto changes = poll(2s);
  EXPECT_TRUE(changes.loads.empty() && changes.replaces.empty() && changes.unloads.empty());
  EXPECT_EQ(changes.problems, (std::vector<std::string>{"chain", "second"}));
  EXPECT_EQ(chain().problem, "step '1 (second)': config.toml: the key nonsense is unknown");
  EXPECT_EQ(served_versions(chain()), std::vector<std::uint64_t>{1});
}

TEST_F(chain_steps_test, opens_the_indexed_files_only) {
  const auto index = watch_.repository().scan();
  files_.write("first/2/model.onnx", "another first");
  try {
    (void)watch_.repository().open_files(index, "chain", 1);
    FAIL() << "the file has changed";
  } catch (const repository_error& e) {
    EXPECT_EQ(std::string(e.what()), "step '0 (first)': the file has changed since it was indexed");
  }
  EXPECT_THROW((void)watch_.repository().open_files(index, "chain", 2), repository_error);
}

TEST_F(chain_steps_test, needs_an_empty_folder_for_each_version) {
  files_.write("chain/1/model.onnx", "a file");
  std::filesystem::create_directories(files_ / "chain/2");
  files_.write("chain/3", "no folder");
  (void)poll(0s);
  EXPECT_EQ(served_versions(chain()), std::vector<std::uint64_t>{2});
  EXPECT_EQ(chain().versions.at(1).problem, "a version of a chain must have no model.onnx");
  EXPECT_NE(chain().versions.at(3).problem, "");
  files_.remove("chain/2");
  files_.remove("chain/3");
  const auto index = watch_.repository().scan();
  EXPECT_EQ(index.models.at("chain").problem, "there is no version that can be served");
}

TEST_F(chain_steps_test, names_the_step_that_cannot_be_one) {
  const auto first = step_text("first", "a", "b");
  EXPECT_EQ(problem_of(first + step_text("nothing", "b", "c")),
            "step '1 (nothing)': there is no such model");
  EXPECT_EQ(problem_of(first + step_text("../first", "b", "c")),
            "step '1 (../first)': there is no such model");
  EXPECT_EQ(problem_of(first + step_text("\\377", "b", "c")),
            "step '1 (\\xff)': there is no such model");
  EXPECT_EQ(problem_of(first + step_text("first", "b", "c", "3")),
            "step '1 (first)': there is no version 3");
  EXPECT_EQ(problem_of(first + step_text("chain", "b", "c")),
            "step '1 (chain)': a chain cannot be a step of a chain");
  files_.write("second/3/model.onnx", "");
  EXPECT_EQ(problem_of(first + step_text("second", "b", "c")),
            "step '1 (second)': there is no version that can be served");
  EXPECT_EQ(problem_of(first + step_text("second", "b", "c", "3")),
            "step '1 (second)': version 3: the model file is empty");
  files_.write("second/config.toml", "max_batch_size = 'x'");
  EXPECT_EQ(
      problem_of(first + step_text("second", "b", "c")).find("step '1 (second)': config.toml"), 0U);
  files_.write("second/config.toml",
               "[sequence_batching]\nstate = [{ input_name = 'h', output_name = 'g', data_type = "
               "'TYPE_FP32', dims = [1] }]");
  EXPECT_EQ(problem_of(first + step_text("second", "b", "c")),
            "step '1 (second)': a model with a state cannot be a step of a chain");
}

}  // namespace
}  // namespace sluice::service
