// SPDX-License-Identifier: Apache-2.0
// Regions of shared memory, and who may register them. The clients are hostile.
#include "service/front/region_registry.hpp"

#include "service/protocol/region_json.hpp"
#include "service/protocol/request_error.hpp"
#include "tests/service/front/shared_object.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>
#include <atomic>
#include <csignal>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using test::shared_object;
using test::tenant_file;
using test::unique_key;

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

/// "ok", or the status and the text of the refusal.
template <class Function>
std::string verdict_of(Function function) {
  try {
    function();
    return "ok";
  } catch (const request_error& e) {
    return std::to_string(http_status(e.status())) + " " + e.what();
  }
}

std::string add(region_registry& regions, const std::string& name, const std::string& key,
                std::uint64_t bytes = 8, std::uint64_t offset = 0,
                const std::string& tenant = "alice") {
  return verdict_of(
      [&] { regions.add(tenant, {.name = name, .key = key, .offset = offset, .bytes = bytes}); });
}

::testing::AssertionResult has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << text << "\" does not have \"" << part << "\"";
}

std::string text_of(const client_region& region, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  region.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(region_registry, has_the_regions_of_each_tenant) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  EXPECT_TRUE(regions->is_enabled());
  const shared_object first(100);
  const shared_object second(50);
  EXPECT_EQ(add(*regions, "b", first.key(), 60, 40), "ok");
  EXPECT_EQ(add(*regions, "a", second.key(), 50), "ok");
  EXPECT_EQ(add(*regions, "b", second.key(), 1, 49, ""), "ok");
  EXPECT_EQ(region_status_json(regions->list("alice", "")),
            R"([{"name":"a","key":")" + second.key() + R"(","offset":0,"byte_size":50},)" +
                R"({"name":"b","key":")" + first.key() + R"(","offset":40,"byte_size":60}])");
  EXPECT_EQ(regions->list("", "").size(), 1U);
  EXPECT_TRUE(regions->list("bob", "").empty());
  EXPECT_TRUE(has(verdict_of([&] { (void)regions->find("bob", "b"); }), "404"));
  EXPECT_TRUE(has(verdict_of([&] { (void)regions->find("", "a"); }), "404"));
  EXPECT_EQ(regions->find("", "b")->description().key, second.key());

  EXPECT_TRUE(has(add(*regions, "a", first.key()),
                  "400 shared memory region \"a\": the name is "
                  "registered already"));
  regions->remove("bob", "a");  // harms nobody
  regions->remove("", "a");
  regions->remove("alice", "c");
  EXPECT_EQ(regions->list("alice", "").size(), 2U);
  regions->remove("alice", "a");
  EXPECT_EQ(regions->list("alice", "").size(), 1U);
  EXPECT_EQ(add(*regions, "a", first.key()), "ok");
  regions->remove("alice", "");
  EXPECT_TRUE(regions->list("alice", "").empty());
  EXPECT_EQ(regions->list("", "").size(), 1U);
}

TEST(region_registry, keeps_a_region_open_while_it_is_used) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const shared_object object(16);
  object.write(0, "0123456789abcdef");
  ASSERT_EQ(add(*regions, "r", object.key(), 10, 6), "ok");
  const auto region = regions->find("alice", "r");
  regions->remove("alice", "r");
  EXPECT_TRUE(has(verdict_of([&] { (void)regions->find("alice", "r"); }), "404"));
  EXPECT_EQ(text_of(*region, 2, 3), "89a");
  region->write(9, std::as_bytes(std::span("X", 1)));
  EXPECT_EQ(object.read(0, 16), "0123456789abcdeX");
}

TEST(region_registry, refuses_what_is_no_key) {
  const tenant_file tenants;
  tenants.write("[tenant.alice]\n" + tenant_file::permission("/"));
  const auto regions = tenants.regions();
  for (const std::string& key :
       {std::string(), std::string("/"), std::string("/."), std::string("/.."), std::string("x"),
        std::string("//x"), std::string("/x/y"), std::string("/../etc/passwd"),
        std::string("/x/../y"), std::string("/x\0y", 4), std::string("/x\n"),
        "/" + std::string(256, 'x'), std::string("/\x7f")}) {
    EXPECT_TRUE(has(add(*regions, "r", key), "400 shared memory region \"r\": the key ")) << key;
    EXPECT_TRUE(has(add(*regions, "r", key), "is not \"/\" and a name")) << key;
  }
  EXPECT_TRUE(has(add(*regions, "r", "/" + std::string(255, 'x')), "has no shared memory object"));
  EXPECT_TRUE(has(add(*regions, "r", "/sluice\xff"), "has no shared memory object"));
  EXPECT_TRUE(regions->list("alice", "").empty());
}

TEST(region_registry, refuses_names_that_are_too_long) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const shared_object object(8);
  EXPECT_TRUE(has(add(*regions, "", object.key()), "400"));
  EXPECT_TRUE(has(add(*regions, std::string(257, 'n'), object.key()), "1 to 256 bytes"));
  EXPECT_EQ(add(*regions, std::string(256, 'n'), object.key()), "ok");
}

TEST(region_registry, permits_what_the_tenant_file_says) {
  const tenant_file tenants;
  const auto registry = tenants.registry();
  region_registry regions(registry);
  const shared_object object(8);
  EXPECT_TRUE(has(add(regions, "r", object.key(), 8, 0, "bob"),
                  "403 shared memory region \"r\": the client may not use shared memory"));
  EXPECT_TRUE(has(add(regions, "r", unique_key("/other-")), "403"));
  EXPECT_TRUE(has(add(regions, "r", "/sluice-test"), "may not use the key"));
  ASSERT_EQ(add(regions, "r", object.key()), "ok");

  // A permission that is withdrawn counts at once, also for what is registered.
  const std::string owner = "shared_memory_owner = " + std::to_string(::geteuid() + 1) + "\n";
  for (const std::string& text :
       {"[tenant.bob]\n" + tenant_file::permission(),
        "[tenant.alice]\n" + tenant_file::permission("/other-"),
        "[tenant.alice]\nshared_memory_prefix = \"/sluice-test-\"\n" + owner}) {
    tenants.write(text);
    registry->reload();
    EXPECT_TRUE(has(verdict_of([&] { (void)regions.find("alice", "r"); }), "403")) << text;
    EXPECT_TRUE(has(add(regions, "s", object.key()), "403")) << text;
  }
  EXPECT_TRUE(has(add(regions, "s", object.key()), "an object of another user"));
  tenants.write("[tenant.alice]\n" + tenant_file::permission());
  registry->reload();
  EXPECT_EQ(verdict_of([&] { (void)regions.find("alice", "r"); }), "ok");

  // The last permission that goes turns shared memory off. Regions can still be unregistered.
  tenants.write("");
  registry->reload();
  EXPECT_FALSE(regions.is_enabled());
  EXPECT_TRUE(has(add(regions, "s", object.key()), "501 shared memory is off"));
  EXPECT_TRUE(has(verdict_of([&] { (void)regions.find("alice", "r"); }), "501"));
  EXPECT_TRUE(has(verdict_of([&] { (void)regions.list("alice", ""); }), "501"));
  EXPECT_EQ(verdict_of([&] { regions.remove("alice", "r"); }), "ok");
}

TEST(region_registry, limits_regions_and_their_bytes) {
  const tenant_file tenants;
  tenants.write("[tenant.alice]\n" + tenant_file::permission() +
                "shared_memory_bytes = 1000\nshared_memory_regions = 3\n");
  const auto registry = tenants.registry();
  region_registry regions(registry);
  const shared_object object(2000);
  EXPECT_TRUE(has(add(regions, "a", object.key(), 1001), "413"));
  EXPECT_EQ(add(regions, "a", object.key(), 600), "ok");
  EXPECT_TRUE(has(add(regions, "b", object.key(), 401), "would have more than 1000 bytes"));
  EXPECT_EQ(add(regions, "b", object.key(), 400), "ok");
  EXPECT_TRUE(has(add(regions, "c", object.key(), 1), "429"));
  regions.remove("alice", "b");
  EXPECT_EQ(add(regions, "b", object.key(), 1), "ok");
  EXPECT_EQ(add(regions, "c", object.key(), 1), "ok");
  EXPECT_TRUE(has(add(regions, "d", object.key(), 1),
                  "429 shared memory region \"d\": the client "
                  "has 3 regions"));
  // Less than what is registered already.
  tenants.write("[tenant.alice]\n" + tenant_file::permission() + "shared_memory_bytes = 10\n");
  registry->reload();
  EXPECT_TRUE(has(add(regions, "d", object.key(), 1), "429"));
  regions.remove("alice", "");
  EXPECT_EQ(add(regions, "d", object.key(), 10), "ok");
}

TEST(region_registry, limits_the_regions_of_all_tenants) {
  const tenant_file tenants;
  tenants.write("[tenant.alice]\n" + tenant_file::permission() + "shared_memory_regions = 10000\n" +
                "[tenant.bob]\n" + tenant_file::permission());
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &former), 0);
  rlimit small = former;
  small.rlim_cur = 240;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  const auto regions = tenants.regions();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &former), 0);
  const shared_object object(8);
  for (int i = 0; i < 60; ++i) EXPECT_EQ(add(*regions, std::to_string(i), object.key()), "ok");
  EXPECT_TRUE(has(add(*regions, "b", object.key(), 8, 0, "bob"), "429"));
  regions->remove("alice", "7");
  EXPECT_EQ(add(*regions, "b", object.key(), 8, 0, "bob"), "ok");
  EXPECT_TRUE(has(add(*regions, "c", object.key(), 8, 0, "bob"), "429"));
  regions->remove("alice", "");
  EXPECT_EQ(add(*regions, "c", object.key(), 8, 0, "bob"), "ok");
}

TEST(region_registry, removes_what_is_forbidden) {
  const tenant_file tenants;
  const auto registry = tenants.registry();
  region_registry regions(registry);
  const shared_object object(8);
  ASSERT_EQ(add(regions, "a", object.key()), "ok");
  ASSERT_EQ(add(regions, "b", object.key(), 8, 0, ""), "ok");
  regions.remove_forbidden();
  EXPECT_EQ(regions.list("alice", "").size(), 1U);
  tenants.write("[anonymous]\n" + tenant_file::permission());
  registry->reload();
  regions.remove_forbidden();
  EXPECT_TRUE(regions.list("alice", "").empty());
  EXPECT_EQ(regions.list("", "").size(), 1U);
}

TEST(client_region, waits_for_no_lease) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const auto key = unique_key();
  const file_descriptor holder(
      ::shm_open(key.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(holder.get(), 8), 0);
  // The kernel asks the holder for the lease by a signal, which it does not obey.
  (void)::signal(SIGIO, SIG_IGN);
  const bool has_lease = ::fcntl(holder.get(), F_SETLEASE, F_WRLCK) == 0;
  if (has_lease) {
    EXPECT_TRUE(has(add(*regions, "r", key), "503"));
  }
  (void)::fcntl(holder.get(), F_SETLEASE, F_UNLCK);
  EXPECT_EQ(add(*regions, "r", key), "ok");
  (void)::shm_unlink(key.c_str());
  if (!has_lease) GTEST_SKIP() << "the file system has no leases";
}

TEST(client_region, is_in_its_file) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const shared_object object(100);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> outside{
      {0, 101},           {100, 1},         {101, 1},
      {1, 100},           {largest, 1},     {1, largest},
      {largest, largest}, {largest - 7, 8}, {std::uint64_t{1} << 63, 8}};
  for (const auto& [offset, bytes] : outside) {
    EXPECT_TRUE(has(add(*regions, "r", object.key(), bytes, offset),
                    "exceed the object, which has 100 bytes"))
        << offset << " " << bytes;
  }
  EXPECT_TRUE(has(add(*regions, "r", object.key(), 0), "byte_size is 0"));
  EXPECT_TRUE(has(add(*regions, "r", object.key(), 0, 100), "byte_size is 0"));
  const shared_object empty(0);
  EXPECT_TRUE(has(add(*regions, "r", empty.key(), 1), "which has 0 bytes"));
  ASSERT_EQ(add(*regions, "r", object.key(), 90, 10), "ok");
  const auto region = regions->find("alice", "r");
  std::string target(1, '\0');
  const auto bytes = std::as_writable_bytes(std::span(target));
  for (const std::uint64_t offset :
       {std::uint64_t{90}, std::uint64_t{91}, largest, largest - 9, largest - 10}) {
    EXPECT_TRUE(has(verdict_of([&] { region->read(offset, bytes); }),
                    "exceed the region, which has 90 bytes"))
        << offset;
    EXPECT_TRUE(has(verdict_of([&] { region->write(offset, bytes); }), "exceed the region"));
    EXPECT_TRUE(has(verdict_of([&] { region->check_range(offset, 1); }), "exceed the region"));
  }
  EXPECT_EQ(verdict_of([&] { region->read(89, bytes); }), "ok");
  EXPECT_EQ(verdict_of([&] { region->check_range(90, 0); }), "ok");
  EXPECT_TRUE(has(verdict_of([&] { region->check_range(1, largest); }), "exceed"));
}

/// Something at the place of a shared memory object, which is no regular file.
class false_object {
 public:
  explicit false_object(int kind) : path_("/dev/shm" + unique_key()) {
    switch (kind) {
      case 0:
        (void)!::symlink("/etc/passwd", path_.c_str());
        break;
      case 1:
        (void)!::symlink(object_.key().c_str() + 1, path_.c_str());
        break;
      case 2:
        (void)::mkdir(path_.c_str(), 0700);
        break;
      case 3:
        (void)::mkfifo(path_.c_str(), 0600);
        break;
      default: {
        const file_descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        path_.copy(address.sun_path, sizeof address.sun_path - 1);
        (void)::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
      }
    }
  }
  ~false_object() {
    (void)::unlink(path_.c_str());
    (void)::rmdir(path_.c_str());
  }
  [[nodiscard]] std::string key() const { return path_.substr(std::string("/dev/shm").size()); }

 private:
  std::string path_;
  shared_object object_{100};
};

TEST(client_region, is_a_regular_file) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  for (int kind = 0; kind < 5; ++kind) {
    const false_object object(kind);
    EXPECT_TRUE(has(add(*regions, "r", object.key()), "400 shared memory region \"r\": the key "))
        << kind;
    EXPECT_TRUE(has(add(*regions, "r", object.key()), "has no regular file")) << kind;
  }
}

TEST(client_region, that_is_truncated_is_an_error) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const shared_object object(20'000);
  ASSERT_EQ(add(*regions, "r", object.key(), 20'000), "ok");
  const auto region = regions->find("alice", "r");
  std::string bytes(20'000, 'x');
  const auto span = std::as_writable_bytes(std::span(bytes));
  for (const std::size_t size : {std::size_t{19'999}, std::size_t{4096}, std::size_t{0}}) {
    object.resize(size);
    for (const auto& verdict :
         {verdict_of([&] { region->read(0, span); }), verdict_of([&] { region->write(0, span); }),
          verdict_of([&] { region->check_file(0, 20'000); })}) {
      EXPECT_EQ(verdict, "400 shared memory region \"r\": its object has been truncated");
    }
    EXPECT_EQ(object.size(), size);  // writing does not extend it
  }
  object.resize(20'000);
  EXPECT_EQ(verdict_of([&] { region->write(0, span); }), "ok");
  EXPECT_EQ(verdict_of([&] { region->read(0, span); }), "ok");
}

TEST(client_region, that_is_truncated_meanwhile_is_an_error) {
  const tenant_file tenants;
  const auto regions = tenants.regions();
  constexpr std::size_t size = 1 << 20;
  const shared_object object(size);
  ASSERT_EQ(add(*regions, "r", object.key(), size), "ok");
  const auto region = regions->find("alice", "r");
  auto random = sluice::test::make_generator();
  std::atomic<bool> is_over{false};
  std::thread truncating([&] {
    while (!is_over) {
      object.resize(random() % size);
      object.resize(size);
    }
  });
  std::string bytes(size, '\0');
  const auto span = std::as_writable_bytes(std::span(bytes));
  for (int round = 0; round < 200; ++round) {
    for (const auto& verdict : {verdict_of([&] { region->read(0, span); }),
                                verdict_of([&] { region->write(0, span); })}) {
      EXPECT_TRUE(verdict == "ok" || has(verdict, "has been truncated")) << verdict;
    }
  }
  is_over = true;
  truncating.join();
}

TEST(client_region, that_cannot_be_written_can_be_read) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write to all files";
  const tenant_file tenants;
  const auto regions = tenants.regions();
  const shared_object object(8);
  object.write(0, "readable");
  const std::string path = "/dev/shm" + object.key();
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  ASSERT_EQ(add(*regions, "r", object.key()), "ok");
  const auto region = regions->find("alice", "r");
  EXPECT_FALSE(region->is_writable());
  EXPECT_EQ(text_of(*region, 0, 8), "readable");
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_TRUE(has(add(*regions, "s", object.key()), "403"));
}

TEST(region_registry, may_be_used_by_several_threads) {
  const tenant_file tenants;
  tenants.write("[tenant.alice]\n" + tenant_file::permission() + "shared_memory_regions = 8\n");
  const auto registry = tenants.registry();
  region_registry regions(registry);
  const shared_object object(4096);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::string bytes(64, static_cast<char>('a' + thread));
      for (unsigned round = 0; round < 200; ++round) {
        const auto name = std::to_string((thread + round) % 3);
        (void)add(regions, name, object.key(), 64, 64 * thread);
        (void)verdict_of([&] {
          const auto region = regions.find("alice", name);
          region->write(0, std::as_bytes(std::span(bytes)));
          region->read(0, std::as_writable_bytes(std::span(bytes)));
        });
        if (round % 7 == 0) registry->reload();
        if (round % 5 == 0) regions.remove("alice", "");
        (void)regions.list("alice", "");
        regions.remove("alice", name);
      }
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_TRUE(regions.list("alice", "").empty());
}

TEST(region_json, reads_requests_to_register) {
  const auto region =
      parse_region_request(R"({"byte_size":18446744073709551615,"key":"/a\u00e9","offset":3})");
  EXPECT_EQ(region.key, "/a\u00e9");
  EXPECT_EQ(region.offset, 3U);
  EXPECT_EQ(region.bytes, largest);
  EXPECT_EQ(parse_region_request(R"({"byte_size":0,"key":""})").offset, 0U);
  const std::vector<std::pair<std::string, std::string>> cases{
      {"", "request: malformed JSON"},
      {"{", "request: malformed JSON"},
      {std::string("{}\0", 3), "request: malformed JSON at byte 3"},
      {"[]", "request: must be an object"},
      {"7", "request: must be an object"},
      {"{}", "request: key is missing"},
      {R"({"key":"/a"})", "request: byte_size is missing"},
      {R"({"key":"/a","byte_size":1,"byte_size":1})", "byte_size occurs twice"},
      {R"({"key":"/a","key":"/a","byte_size":1})", "key occurs twice"},
      {R"({"offset":0,"offset":0})", "offset occurs twice"},
      {R"({"key":7,"byte_size":1})", "key must be a string"},
      {R"({"key":null,"byte_size":1})", "key must be a string"},
      {R"({"byte_size":-1})", "byte_size must be an integer from 0 to 2^64 - 1"},
      {R"({"byte_size":1.0})", "byte_size must be an integer"},
      {R"({"byte_size":"1"})", "byte_size must be an integer"},
      {R"({"offset":18446744073709551616})", "offset must be an integer"},
      {R"({"offset":1e400})", "a number is too large"},
      {R"({"key":{},"byte_size":1})", "\"key\" must be a scalar"},
      {R"({"key":[1],"byte_size":1})", "\"key\" must be a scalar"},
      {R"({"name":"x"})", "request: there is no field \"name\""},
  };
  for (const auto& [text, message] : cases) {
    EXPECT_TRUE(has(verdict_of([&, &text = text] { (void)parse_region_request(text); }), message));
  }
}

}  // namespace
}  // namespace sluice::service
