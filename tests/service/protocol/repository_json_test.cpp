// SPDX-License-Identifier: Apache-2.0
#include "service/protocol/repository_json.hpp"

#include "service/protocol/request_error.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace sluice::service {
namespace {

/// The status that a function refuses with.
request_status refusal(const std::function<void()>& function) {
  try {
    function();
  } catch (const request_error& e) {
    return e.status();
  }
  return request_status::internal;  // it was accepted
}

TEST(repository_json, reads_requests_for_the_index) {
  EXPECT_FALSE(parse_index_request("").only_ready);
  EXPECT_FALSE(parse_index_request("{}").only_ready);
  EXPECT_FALSE(parse_index_request(R"({"ready":false})").only_ready);
  EXPECT_TRUE(parse_index_request(R"({"ready":true})").only_ready);
  for (const std::string text :
       {"[", "[]", "1", R"({"ready":1})", R"({"ready":true)", "{}x", "\xff"}) {
    EXPECT_EQ(refusal([&] { (void)parse_index_request(text); }), request_status::invalid_argument)
        << text;
  }
  EXPECT_EQ(refusal([] { (void)parse_index_request(std::string(65536, '[')); }),
            request_status::invalid_argument);
}

TEST(repository_json, refuses_a_load_that_brings_a_model) {
  for (const char* text : {"", "{}", R"({"parameters":{}})"}) check_load_request(text);
  for (const char* text :
       {R"({"parameters":{"config":"{}"}})", R"({"parameters":{"file:1/model.onnx":"AAAA"}})"}) {
    EXPECT_EQ(refusal([&] { check_load_request(text); }), request_status::unimplemented) << text;
  }
  for (const char* text : {R"({"parameters":{"x":1}})", R"({"parameters":[]})", "null"}) {
    EXPECT_EQ(refusal([&] { check_load_request(text); }), request_status::invalid_argument) << text;
  }
}

TEST(repository_json, reads_requests_to_unload) {
  check_unload_request("");
  check_unload_request(R"({"parameters":{"unload_dependents":false}})");
  check_unload_request(R"({"parameters":{"unload_dependents":true}})");
  for (const char* text :
       {R"({"parameters":{"unload_dependents":0}})", R"({"parameters":{"config":""}})"}) {
    EXPECT_EQ(refusal([&] { check_unload_request(text); }), request_status::invalid_argument)
        << text;
  }
}

TEST(repository_json, writes_the_index) {
  const std::vector<repository_entry> entries{
      {.model = "a", .reason = "it has no \"version\""},
      {.model = "b", .version = "1", .state = serving_state::ready},
      {.model = "b", .version = "2", .state = serving_state::loading}};
  EXPECT_EQ(repository_index_json(entries, {}),
            R"([{"name":"a","state":"UNAVAILABLE","reason":"it has no \"version\""},)"
            R"({"name":"b","version":"1","state":"READY"},)"
            R"({"name":"b","version":"2","state":"LOADING"}])");
  EXPECT_EQ(repository_index_json(entries, {.only_ready = true}),
            R"([{"name":"b","version":"1","state":"READY"}])");
  EXPECT_EQ(repository_index_json({}, {}), "[]");
}

}  // namespace
}  // namespace sluice::service
