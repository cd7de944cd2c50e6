// SPDX-License-Identifier: Apache-2.0
#include "tests/actors/session.hpp"

#include <sluice/actors/caf.hpp>
#include <sluice/actors/reply.hpp>

#include <array>
#include <memory>
#include <string>
#include <vector>

SLUICE_MESSAGES(test_caf, 300, std::vector<float>)

namespace sluice::test {
namespace {

constexpr std::array all_codes{errc::invalid_argument, errc::stale_ref,       errc::stream_misuse,
                               errc::out_of_memory,    errc::over_budget,     errc::unsupported,
                               errc::library_failure,  errc::upstream_failed, errc::cancelled,
                               errc::overloaded,       errc::shutting_down,   errc::device_lost};

TEST(errors_as_answers, come_back_as_they_were) {
  for (const auto code : all_codes) {
    for (const std::string& text : {std::string(), std::string("c: has 4 bytes")}) {
      const auto back = from_caf_error(to_caf_error(error(code, text)));
      ASSERT_TRUE(back);
      EXPECT_EQ(back->code(), code);
      EXPECT_EQ(back->what(), text);
      EXPECT_EQ(back->status(), library_status{});
    }
  }
  for (const char* library : {"CUDA runtime", "cuBLAS", "cuDNN", "cuFFT", "oneDNN"}) {
    for (const long value : {0L, 719L, -5L}) {
      std::optional<error> back;
      {
        // What came in the message need not outlive it.
        const auto sent = to_caf_error(error(errc::library_failure, "it failed", {library, value}));
        back = from_caf_error(sent);
      }
      ASSERT_TRUE(back);
      EXPECT_EQ(back->status(), (library_status{library, value}));
    }
  }
  const auto unknown = from_caf_error(
      to_caf_error(error(errc::library_failure, "it failed", {"somebody else's", 3})));
  ASSERT_TRUE(unknown);
  EXPECT_EQ(unknown->status(), (library_status{"", 3}));
}

TEST(errors_as_answers, are_made_from_codes) {
  for (const auto code : all_codes) {
    const caf::error result = make_error(code);
    EXPECT_TRUE(result);
    EXPECT_EQ(result.code(), static_cast<std::uint8_t>(code));
    EXPECT_EQ(result.category(), error_category);
    EXPECT_EQ(result, make_error(code));
    const auto back = from_caf_error(result);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->code(), code);
    EXPECT_EQ(back->what(), std::string(to_string(code)));
  }
}

TEST(errors_as_answers, leave_those_of_others_alone) {
  EXPECT_FALSE(from_caf_error(caf::error()));
  EXPECT_FALSE(from_caf_error(caf::make_error(caf::sec::request_timeout)));
  EXPECT_FALSE(from_caf_error(caf::make_error(caf::exit_reason::kill)));
}

TEST(errors_as_answers, can_be_read) {
  session s("host");
  const auto ours = to_caf_error(error(errc::stale_ref, "a: the memory has been freed"));
  EXPECT_EQ(describe(s.system(), ours), "stale_ref: a: the memory has been freed");
#if CAF_MAJOR_VERSION >= 1
  const auto render = [](const caf::error& e) {
    return caf::to_string(e);
  };
#else
  const auto render = [&s](const caf::error& e) {
    return s.system().render(e);
  };
#endif
  const auto printed = render(ours);
  EXPECT_NE(printed.find("stale_ref"), std::string::npos) << printed;
  EXPECT_NE(printed.find("been freed"), std::string::npos) << printed;
  const auto bare = render(make_error(errc::device_lost));
  EXPECT_NE(bare.find("device_lost"), std::string::npos) << bare;
  const auto theirs = describe(s.system(), caf::make_error(caf::sec::request_timeout));
  EXPECT_NE(theirs.find("timeout"), std::string::npos) << theirs;
}

#if CAF_MAJOR_VERSION >= 1
using any_actor = caf::actor_proxy;
#else
using any_actor = caf::monitorable_actor;
#endif

/// Stands where the proxy of an actor of another process would: it has that one's node.
class remote_stand_in final : public any_actor {
 public:
  using received = std::vector<std::pair<caf::message_id, caf::message>>;
  remote_stand_in(caf::actor_config& config, std::shared_ptr<received> messages)
      : any_actor(config), messages_(std::move(messages)) {}
#if CAF_MAJOR_VERSION >= 1
  bool enqueue(caf::mailbox_element_ptr element, caf::scheduler*) override {
    messages_->emplace_back(element->mid, std::move(element->payload));
    return true;
  }
  void kill_proxy(caf::scheduler*, caf::error) override {}
  const char* name() const override {
    return "remote_stand_in";
  }
  void force_close_mailbox() override {}
#else
  using any_actor::enqueue;
  void enqueue(caf::mailbox_element_ptr element, caf::execution_unit*) override {
    messages_->emplace_back(element->mid, element->move_content_to_message());
  }
#endif

 private:
  std::shared_ptr<received> messages_;
};

class reply_to : public ::testing::Test {
 protected:
  caf::strong_actor_ptr make(const caf::node_id& node) {
    caf::actor_config config;
    return caf::make_actor<remote_stand_in, caf::strong_actor_ptr>(17, node, &s().system(), config,
                                                                   received_);
  }
  [[nodiscard]] caf::strong_actor_ptr local() { return make(s().system().node()); }
  [[nodiscard]] caf::strong_actor_ptr remote() {
    const std::string host(40, 'a');
    auto node = caf::make_node_id(4711, host);
    return make(*node);
  }
  template <class T>
  reply_token<T> token(caf::strong_actor_ptr source, detail::forwarding_stack stages,
                       caf::message_id id) {
    return reply_token<T>::template make<detail::actor_receiver<T>>(
        detail::reply_address(std::move(source), std::move(stages), id));
  }
  [[nodiscard]] session& s() { return session_; }
  [[nodiscard]] const remote_stand_in::received& received() const { return *received_; }
  /// The only answer so far, as an error.
  [[nodiscard]] std::optional<error> refusal() const {
    if (received().size() != 1 || !received()[0].second.match_elements<caf::error>())
      return std::nullopt;
    return from_caf_error(received()[0].second.get_as<caf::error>(0));
  }

  const caf::message_id request_ = caf::make_message_id(99);

 private:
  session session_{"host"};
  std::shared_ptr<remote_stand_in::received> received_ =
      std::make_shared<remote_stand_in::received>();
};

TEST_F(reply_to, a_remote_requester_gets_no_reference) {
  token<gpu_ref<float>>(remote(), {}, request_).succeed(s().put(s().numbers<float>(3)));
  ASSERT_TRUE(refusal());
  EXPECT_EQ(refusal()->code(), errc::unsupported);
  EXPECT_EQ(received()[0].first, request_.response_id());
}

TEST_F(reply_to, a_remote_stage_gets_no_reference_but_the_requester_the_error) {
  token<gpu_ref<float>>(local(), {remote()}, request_).succeed(s().put(s().numbers<float>(3)));
  ASSERT_TRUE(refusal());
  EXPECT_EQ(refusal()->code(), errc::unsupported);
  EXPECT_EQ(received()[0].first, request_.response_id());
}

TEST_F(reply_to, a_remote_requester_gets_no_tensor) {
  token<tensor>(remote(), {}, request_).succeed(s().put(s().numbers<float>(3)));
  ASSERT_TRUE(refusal());
  EXPECT_EQ(refusal()->code(), errc::unsupported);
}

TEST_F(reply_to, a_remote_requester_gets_no_tensor_of_the_host) {
  token<host_tensor>(remote(), {}, request_).succeed(host_tensor(std::vector<float>{1, 2}));
  ASSERT_TRUE(refusal());
  EXPECT_EQ(refusal()->code(), errc::unsupported);
}

TEST_F(reply_to, a_remote_requester_gets_values) {
  token<std::vector<float>>(remote(), {}, request_).succeed({1, 2});
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].second.get_as<std::vector<float>>(0), (std::vector<float>{1, 2}));
}

TEST_F(reply_to, a_local_requester_gets_references) {
  const auto ref = s().put(s().numbers<float>(3));
  token<gpu_ref<float>>(local(), {}, request_).succeed(ref);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].second.get_as<gpu_ref<float>>(0), ref);
  EXPECT_EQ(received()[0].first, request_.response_id());
}

TEST_F(reply_to, the_next_stage_gets_the_result_under_the_requests_id) {
  token<float>(local(), {local()}, request_).succeed(2.5F);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].first, request_);
  EXPECT_EQ(received()[0].second.get_as<float>(0), 2.5F);
}

TEST_F(reply_to, a_requester_gets_one_answer) {
  const auto once = token<float>(local(), {}, request_);
  EXPECT_TRUE(once.succeed(1));
  EXPECT_FALSE(once.succeed(2));
  EXPECT_FALSE(once.fail(error(errc::cancelled, "")));
  EXPECT_EQ(received().size(), 1U);
}

TEST_F(reply_to, a_dropped_request_is_cancelled) {
  (void)token<float>(local(), {}, request_);
  ASSERT_TRUE(refusal());
  EXPECT_EQ(refusal()->code(), errc::cancelled);
}

TEST_F(reply_to, a_message_that_is_no_request_gets_results_but_no_errors) {
  const auto before = unsent_errors();
  token<float>(local(), {}, caf::make_message_id()).succeed(1);
  EXPECT_EQ(received().size(), 1U);
  token<float>(local(), {}, caf::make_message_id()).fail(error(errc::cancelled, "a test's"));
  token<float>(nullptr, {}, caf::make_message_id()).fail(error(errc::cancelled, "a test's"));
  (void)token<float>(local(), {}, caf::make_message_id());
  token<float>(nullptr, {}, caf::make_message_id()).succeed(1);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(unsent_errors() - before, 3U);
}

}  // namespace
}  // namespace sluice::test
