// SPDX-License-Identifier: Apache-2.0
#include "service/front/routes.hpp"

#include "tests/service/front/expect_http_error.hpp"

#include <string>

namespace sluice::service {
namespace {

void expect_route(const std::string& path, endpoint target, const std::string& model = "",
                  const std::string& version = "") {
  const route found = find_route(path);
  EXPECT_EQ(found.target, target) << path;
  EXPECT_EQ(found.model, model) << path;
  EXPECT_EQ(found.version, version) << path;
}

TEST(routes, are_those_of_the_protocol) {
  expect_route("/v2", endpoint::server_metadata);
  expect_route("/v2/health/live", endpoint::server_live);
  expect_route("/v2/health/ready", endpoint::server_ready);
  expect_route("/v2/models/m", endpoint::model_metadata, "m");
  expect_route("/v2/models/m/versions/3", endpoint::model_metadata, "m", "3");
  expect_route("/v2/models/m/ready", endpoint::model_ready, "m");
  expect_route("/v2/models/m/versions/3/ready", endpoint::model_ready, "m", "3");
  expect_route("/v2/models/m/infer", endpoint::infer, "m");
  expect_route("/v2/models/stats", endpoint::model_statistics);
  expect_route("/v2/models/m/stats", endpoint::model_statistics, "m");
  expect_route("/v2/models/m/versions/3/stats", endpoint::model_statistics, "m", "3");
  expect_route("/v2/models/stats/ready", endpoint::model_ready, "stats");
  expect_route("/v2/models/m/versions/3/infer", endpoint::infer, "m", "3");
  expect_route("/v2/models/m/config", endpoint::model_config, "m");
  expect_route("/v2/models/m/versions/3/config", endpoint::model_config, "m", "3");
  expect_route("/v2/repository/index", endpoint::repository_index);
  expect_route("/v2/repository/models/m/load", endpoint::model_load, "m");
  expect_route("/v2/repository/models/%2e%2e%2fm/unload", endpoint::model_unload, "../m");
}

TEST(routes, names_are_decoded_once) {
  expect_route("/v2/models/a%20b%2Fc%252F", endpoint::model_metadata, "a b/c%2F");
  expect_route("/v2/models/..", endpoint::model_metadata, "..");
  expect_route("/v2/models/%c3%a9/infer", endpoint::infer, "\xc3\xa9");
  expect_route("/v2/models/\xf0\x9f\x98\x80/infer", endpoint::infer, "\xf0\x9f\x98\x80");
  expect_route("/v2/models/infer/infer", endpoint::infer, "infer");
}

TEST(routes, refuse_other_paths) {
  for (const char* path : {"",
                           "/",
                           "v2",
                           "//v2",
                           "/v2/",
                           "/v1",
                           "/v2/health",
                           "/v2/health/",
                           "/v2/health/live/",
                           "/V2",
                           "/v2/models",
                           "/v2/models/",
                           "/v2/models//infer",
                           "/v2/models/m/",
                           "/v2/models/m/versions",
                           "/v2/models/m/versions/",
                           "/v2/models/m/versions//infer",
                           "/v2/models/m/infer/x",
                           "/v2/models/m/versions/1/infer/x",
                           "/v2/models/m/load",
                           "/%762",
                           "/v2/repository",
                           "/v2/repository/",
                           "/v2/repository/index/",
                           "/v2/repository/models",
                           "/v2/repository/models/m",
                           "/v2/repository/models//load",
                           "/v2/repository/models/m/versions/1/load",
                           "/v2/repository/models/m/infer"}) {
    EXPECT_EQ(test::refusal([&] { (void)find_route(path); }), 404U) << path;
  }
}

TEST(routes, refuse_what_is_no_text) {
  for (const char* path :
       {"/v2/models/%", "/v2/models/%4", "/v2/models/%4g", "/v2/models/%00", "/v2/models/%0a",
        "/v2/models/%7f", "/v2/models/%ff", "/v2/models/%c3", "/v2/models/%c0%af",
        "/v2/models/%ed%a0%80", "/v2/models/%f4%90%80%80", "/v2/models/%e0%80%80", "/v2/models/%80",
        "/v2/models/m/versions/%/infer"}) {
    EXPECT_EQ(test::refusal([&] { (void)find_route(path); }), 400U) << path;
  }
}

TEST(routes, allow_the_methods_they_name) {
  for (const auto target :
       {endpoint::server_metadata, endpoint::model_ready, endpoint::model_config}) {
    EXPECT_TRUE(allows(target, http_method::get));
    EXPECT_TRUE(allows(target, http_method::head));
    EXPECT_TRUE(allows(target, http_method::options));
    EXPECT_FALSE(allows(target, http_method::post));
    EXPECT_FALSE(allows(target, http_method::other));
    EXPECT_EQ(allowed_methods(target), "GET, HEAD, OPTIONS");
  }
  for (const auto target : {endpoint::infer, endpoint::repository_index, endpoint::model_load,
                            endpoint::model_unload}) {
    EXPECT_TRUE(allows(target, http_method::post));
    EXPECT_FALSE(allows(target, http_method::get));
    EXPECT_EQ(allowed_methods(target), "POST, OPTIONS");
  }
}

}  // namespace
}  // namespace sluice::service
