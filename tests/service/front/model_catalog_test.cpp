// SPDX-License-Identifier: Apache-2.0
// Which content of a model is served.
#include "service/front/model_catalog.hpp"

#include "service/protocol/request_error.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// The change of one version, whose file can be opened.
repository_news news_of(const char* model, std::uint64_t version, bool is_new, bool is_required) {
  auto index = std::make_shared<model_index>();
  auto& indexed = index->models[model];
  indexed.config.emplace();
  indexed.config->is_required = is_required;
  repository_news news{.index = index};
  (is_new ? news.changes.loads : news.changes.replaces).push_back({model, version});
  news.files[{model, version}].descriptors = {std::make_shared<const file_descriptor>()};
  return news;
}

repository_news removal_of(const char* model, std::uint64_t version) {
  repository_news news{.index = std::make_shared<model_index>()};
  news.changes.unloads.push_back({model, version});
  return news;
}

request_status status_of_find(const model_catalog& catalog, const char* model,
                              const char* version = "") {
  try {
    (void)catalog.find(model, version);
  } catch (const request_error& e) {
    return e.status();
  }
  return request_status::internal;  // it was found
}

const std::vector<tensor_metadata> one_tensor{{.name = "x", .shape = {-1}}};

TEST(model_catalog, keeps_the_statistics_of_a_version_while_it_has_the_version) {
  model_catalog catalog;
  EXPECT_TRUE(catalog.status().empty());
  const auto orders = catalog.apply(news_of("m", 1, true, false));
  ASSERT_EQ(catalog.status().size(), 1U);
  const auto before = catalog.status()[0];
  EXPECT_EQ(before.model, "m");
  EXPECT_EQ(before.version, 1U);
  EXPECT_EQ(before.state, serving_state::loading);
  ASSERT_TRUE(before.statistics);
  (void)catalog.note_loaded(orders.loads[0]->handle, one_tensor, one_tensor);
  EXPECT_EQ(catalog.status()[0].state, serving_state::ready);
  EXPECT_EQ(catalog.find("m", "1")->statistics, before.statistics);

  // Another content of the version goes on with them.
  const auto replaced = catalog.apply(news_of("m", 1, false, false));
  (void)catalog.note_loaded(replaced.loads[0]->handle, one_tensor, one_tensor);
  ASSERT_EQ(catalog.status().size(), 1U);
  EXPECT_EQ(catalog.find("m", "1")->statistics, before.statistics);
  const auto broken = catalog.apply(news_of("m", 1, false, false));
  (void)catalog.note_refused(broken.loads[0]->handle, "it is broken");
  EXPECT_EQ(catalog.status()[0].state, serving_state::ready);

  (void)catalog.apply(removal_of("m", 1));
  EXPECT_TRUE(catalog.status().empty());
  (void)catalog.apply(news_of("m", 1, true, false));
  EXPECT_NE(catalog.status().at(0).statistics, before.statistics) << "a new model begins anew";
}

TEST(model_catalog, serves_a_content_once_it_is_loaded) {
  model_catalog catalog;
  EXPECT_TRUE(catalog.is_ready());
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::not_found);
  const auto orders = catalog.apply(news_of("m", 1, true, false));
  ASSERT_EQ(orders.loads.size(), 1U);
  EXPECT_FALSE(catalog.is_ready()) << "the first content is being loaded";
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::unavailable);
  EXPECT_TRUE(catalog.note_loaded(orders.loads[0]->handle, one_tensor, one_tensor).empty());
  EXPECT_TRUE(catalog.is_ready());
  EXPECT_EQ(catalog.find("m", "")->version, 1U);
  EXPECT_EQ(catalog.find("m", "1")->input_numbers.at("x"), 0U);
  EXPECT_EQ(status_of_find(catalog, "m", "2"), request_status::not_found);
  EXPECT_EQ(status_of_find(catalog, "m", "01"), request_status::not_found);
}

TEST(model_catalog, serves_the_old_content_until_the_new_one_is_loaded) {
  model_catalog catalog;
  const auto first = catalog.apply(news_of("m", 1, true, false)).loads.at(0);
  (void)catalog.note_loaded(first->handle, one_tensor, one_tensor);
  const auto second = catalog.apply(news_of("m", 1, false, false)).loads.at(0);
  EXPECT_NE(second->handle, first->handle);
  EXPECT_EQ(catalog.find("m", ""), first);
  EXPECT_EQ(catalog.wanted().size(), 2U);
  EXPECT_EQ(catalog.note_loaded(second->handle, one_tensor, one_tensor),
            std::vector{first->handle});
  EXPECT_EQ(catalog.find("m", ""), second);
  // A third content replaces the second one, which is still being loaded.
  const auto third = catalog.apply(news_of("m", 1, false, false)).loads.at(0);
  const auto orders = catalog.apply(news_of("m", 1, false, false));
  EXPECT_EQ(orders.unloads, std::vector{third->handle});
  EXPECT_TRUE(catalog.note_loaded(third->handle, one_tensor, one_tensor).empty());
  EXPECT_EQ(catalog.find("m", ""), second);
}

TEST(model_catalog, keeps_the_old_content_if_the_new_one_is_refused) {
  model_catalog catalog;
  const auto first = catalog.apply(news_of("m", 1, true, true)).loads.at(0);
  EXPECT_EQ(catalog.note_refused(first->handle, "is no model"), std::vector{first->handle});
  EXPECT_FALSE(catalog.is_ready()) << "it is required";
  try {
    (void)catalog.find("m", "");
    FAIL();
  } catch (const request_error& e) {
    EXPECT_EQ(e.status(), request_status::unavailable);
    EXPECT_NE(std::string(e.what()).find("is no model"), std::string::npos);
  }
  const auto second = catalog.apply(news_of("m", 1, false, true)).loads.at(0);
  (void)catalog.note_loaded(second->handle, one_tensor, one_tensor);
  EXPECT_TRUE(catalog.is_ready());
  const auto third = catalog.apply(news_of("m", 1, false, true)).loads.at(0);
  (void)catalog.note_refused(third->handle, "is no model");
  EXPECT_EQ(catalog.find("m", ""), second);
}

TEST(model_catalog, serves_the_highest_version) {
  model_catalog catalog;
  for (const std::uint64_t version : {2U, 10U}) {
    const auto content = catalog.apply(news_of("m", version, true, false)).loads.at(0);
    (void)catalog.note_loaded(content->handle, one_tensor, one_tensor);
  }
  EXPECT_EQ(catalog.find("m", "")->version, 10U);
  EXPECT_EQ(catalog.describe("m", "").versions, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(catalog.apply(removal_of("m", 10)).unloads.size(), 1U);
  EXPECT_EQ(catalog.find("m", "")->version, 2U);
  EXPECT_EQ(catalog.apply(removal_of("m", 2)).unloads.size(), 1U);
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::not_found);
  EXPECT_TRUE(catalog.wanted().empty());
}

TEST(model_catalog, serves_the_old_version_until_the_new_one_is_loaded) {
  for (const bool is_loaded : {true, false}) {
    model_catalog catalog;
    const auto first = catalog.apply(news_of("m", 1, true, false)).loads.at(0);
    (void)catalog.note_loaded(first->handle, one_tensor, one_tensor);
    auto news = news_of("m", 2, true, false);
    news.changes.unloads.push_back({"m", 1});
    const auto orders = catalog.apply(news);
    EXPECT_TRUE(orders.unloads.empty());
    EXPECT_EQ(catalog.find("m", ""), first);
    const auto second = orders.loads.at(0);
    if (is_loaded) {
      EXPECT_EQ(catalog.note_loaded(second->handle, one_tensor, one_tensor),
                std::vector{first->handle});
      EXPECT_EQ(catalog.find("m", ""), second);
      EXPECT_EQ(catalog.describe("m", "").versions, std::vector<std::string>{"2"});
    } else {
      EXPECT_EQ(catalog.note_refused(second->handle, "is no model"), std::vector{second->handle});
      EXPECT_EQ(catalog.find("m", ""), first);
    }
  }
}

TEST(model_catalog, serves_no_content_that_a_new_worker_refuses) {
  model_catalog catalog;
  const auto content = catalog.apply(news_of("m", 1, true, false)).loads.at(0);
  (void)catalog.note_loaded(content->handle, one_tensor, one_tensor);
  EXPECT_TRUE(catalog.wants(content->handle));
  EXPECT_EQ(catalog.note_refused(content->handle, "no memory"), std::vector{content->handle});
  EXPECT_FALSE(catalog.wants(content->handle));
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::unavailable);
}

/// News of a look at a model for a request, with nothing that has changed.
repository_news look_at(const char* model, std::uint64_t version) {
  auto news = news_of(model, version, true, false);
  news.changes = {};
  auto index = std::make_shared<model_index>(*news.index);
  index->models[model].versions[version].file.emplace();
  news.index = index;
  return news;
}

TEST(model_catalog, serves_an_unloaded_model_only_after_a_request) {
  model_catalog catalog;
  EXPECT_THROW((void)catalog.unload("m"), request_error);
  const auto first = catalog.apply(news_of("m", 1, true, false)).loads.at(0);
  (void)catalog.note_loaded(first->handle, one_tensor, one_tensor);
  const auto second = catalog.apply(news_of("m", 1, false, false)).loads.at(0);
  EXPECT_EQ(catalog.unload("m"), (std::vector{first->handle, second->handle}));
  EXPECT_TRUE(catalog.wanted().empty());
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::unavailable);
  EXPECT_EQ(status_of_find(catalog, "m", "1"), request_status::unavailable);
  EXPECT_EQ(catalog.index().at(0).state, serving_state::unavailable);
  EXPECT_NE(catalog.index().at(0).reason.find("unloaded"), std::string::npos);
  // Changes of the repository do not count, not even that the model is gone and comes back.
  EXPECT_TRUE(catalog.apply(news_of("m", 1, false, false)).loads.empty());
  (void)catalog.apply(removal_of("m", 1));
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::not_found);
  EXPECT_TRUE(catalog.apply(news_of("m", 1, true, false)).loads.empty());
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::unavailable);

  const auto third = catalog.apply(look_at("m", 1), {"m"}).loads.at(0);
  EXPECT_FALSE(catalog.load_problem("m"));
  EXPECT_TRUE(catalog.is_ready()) << "a load by request stops nobody";
  EXPECT_EQ(catalog.index().at(0).state, serving_state::loading);
  (void)catalog.note_loaded(third->handle, one_tensor, one_tensor);
  EXPECT_EQ(catalog.load_problem("m"), "");
  EXPECT_EQ(catalog.index().at(0).state, serving_state::ready);
  EXPECT_EQ(catalog.find("m", ""), third);
  EXPECT_TRUE(catalog.apply(look_at("m", 1), {"m"}).loads.empty()) << "it is served";
}

TEST(model_catalog, loads_a_refused_content_again_on_request) {
  model_catalog catalog;
  const auto first = catalog.apply(news_of("m", 1, true, false)).loads.at(0);
  (void)catalog.note_loaded(first->handle, one_tensor, one_tensor);
  const auto second = catalog.apply(news_of("m", 1, false, false)).loads.at(0);
  (void)catalog.note_refused(second->handle, "no memory");
  EXPECT_EQ(catalog.load_problem("m"), "version 1: no memory");
  EXPECT_EQ(catalog.find("m", ""), first);
  const auto third = catalog.apply(look_at("m", 1), {"m"}).loads.at(0);
  EXPECT_EQ(catalog.note_loaded(third->handle, one_tensor, one_tensor), std::vector{first->handle});
  EXPECT_EQ(catalog.load_problem("m"), "");
}

TEST(model_catalog, states_the_config_of_a_content) {
  model_catalog catalog;
  auto news = news_of("m", 1, true, false);
  auto index = std::make_shared<model_index>(*news.index);
  index->models["m"].config->max_batch_size = 8;
  news.index = index;
  const auto content = catalog.apply(news).loads.at(0);
  (void)catalog.note_loaded(content->handle, {{.name = "x", .shape = {-1, 3}}}, one_tensor);
  const auto config = catalog.configuration("m", "1");
  EXPECT_EQ(config.name, "m");
  EXPECT_EQ(config.max_batch_size, 8);
  EXPECT_EQ(config.inputs.at(0).dims, std::vector<std::int64_t>{3});
  EXPECT_TRUE(config.outputs.at(0).dims.empty());
}

TEST(model_catalog, holds_a_model_to_its_config) {
  const auto load = [](std::int64_t most, const std::vector<std::int64_t>& dims,
                       const std::vector<std::int64_t>& shape) {
    auto news = news_of("m", 1, true, false);
    auto index = std::make_shared<model_index>(*news.index);
    auto& config = *index->models["m"].config;
    config.max_batch_size = most;
    if (!dims.empty()) config.inputs = {{.name = "x", .dims = dims}};
    news.index = index;
    model_catalog catalog;
    const auto content = catalog.apply(news).loads.at(0);
    (void)catalog.note_loaded(content->handle, {{.name = "x", .shape = shape}}, {});
    return catalog.load_problem("m") == "" ? catalog.describe("m", "").inputs.at(0).shape
                                           : std::vector<std::int64_t>{};
  };
  using shape = std::vector<std::int64_t>;
  EXPECT_EQ(load(0, {}, {-1, 3}), (shape{-1, 3}));
  EXPECT_EQ(load(0, {4, -1}, {-1, 3}), (shape{4, 3}));
  EXPECT_EQ(load(8, {4, 5}, {-1, -1, 5}), (shape{-1, 4, 5}));
  EXPECT_EQ(load(1, {3}, {1, 3}), (shape{1, 3}));
  EXPECT_EQ(load(0, {4, 4}, {-1, 3}), shape{});
  EXPECT_EQ(load(8, {}, {2, 3}), shape{}) << "the batch is not free";
  EXPECT_EQ(load(8, {}, {}), shape{}) << "there is no batch";
}

TEST(model_catalog, loads_a_chain_from_the_files_of_its_steps) {
  auto news = news_of("m", 1, true, false);
  auto index = std::make_shared<model_index>(*news.index);
  index->models["m"].config->steps = {{.model = "a"}, {.model = "b"}};
  news.index = index;
  auto& descriptors = news.files.begin()->second.descriptors;
  descriptors.push_back(std::make_shared<const file_descriptor>());
  model_catalog catalog;
  const auto content = catalog.apply(news).loads.at(0);
  EXPECT_EQ(content->files, descriptors);
  (void)catalog.note_loaded(content->handle, one_tensor, one_tensor);
  EXPECT_EQ(catalog.describe("m", "").platform, "ensemble");
  EXPECT_EQ(catalog.configuration("m", "").steps.at(1).model, "b");
}

TEST(model_catalog, refuses_a_file_that_cannot_be_opened) {
  model_catalog catalog;
  auto news = news_of("m", 1, true, false);
  news.files.begin()->second = {.problem = "permission denied"};
  EXPECT_TRUE(catalog.apply(news).loads.empty());
  EXPECT_EQ(status_of_find(catalog, "m"), request_status::unavailable);
  EXPECT_TRUE(catalog.is_ready()) << "nothing is being loaded";
}

TEST(model_catalog, describes_the_state_of_a_config) {
  auto news = news_of("m", 1, true, false);
  auto index = std::make_shared<model_index>(*news.index);
  auto& config = *index->models["m"].config;
  config.max_batch_size = 8;
  config.sequences.emplace();
  config.sequences->idle_timeout = std::chrono::seconds(3);
  config.sequences->state = {{.input = "h", .output = "hn", .dims = {4}}};
  news.index = index;
  const std::vector<tensor_metadata> inputs{{.name = "x", .shape = {-1}},
                                            {.name = "h", .shape = {-1, 4}}};
  const std::vector<tensor_metadata> outputs{{.name = "hn", .shape = {-1, -1}}};
  model_catalog catalog;
  const auto content = catalog.apply(news).loads.at(0);
  EXPECT_THROW((void)catalog.state_of("m", ""), request_error);
  (void)catalog.note_loaded(content->handle, inputs, outputs);
  const auto state = catalog.state_of("m", "");
  EXPECT_EQ(state.version, "1");
  EXPECT_EQ(state.content, content->handle);
  EXPECT_EQ(state.idle_timeout, std::chrono::seconds(3));
  ASSERT_EQ(state.tensors.size(), 1U);
  EXPECT_EQ(state.tensors[0].input, "h");
  EXPECT_EQ(state.tensors[0].output, "hn");
  EXPECT_EQ(state.tensors[0].shape, (std::vector<std::int64_t>{1, 4}));

  const auto problem_of = [&](const std::vector<tensor_metadata>& first,
                              const std::vector<tensor_metadata>& second) {
    model_catalog other;
    const auto handle = other.apply(news).loads.at(0)->handle;
    (void)other.note_loaded(handle, first, second);
    try {
      (void)other.state_of("m", "");
    } catch (const request_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(problem_of(one_tensor, outputs).find("the input h, which the model has not"),
            std::string::npos);
  EXPECT_NE(problem_of(inputs, one_tensor).find("the output hn, which"), std::string::npos);
  EXPECT_NE(problem_of({{.name = "h", .shape = {-1, 5}}}, outputs).find("for the input h"),
            std::string::npos);
}

}  // namespace
}  // namespace sluice::service
