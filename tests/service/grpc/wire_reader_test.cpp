// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/wire_reader.hpp"

#include "service/grpc/wire_writer.hpp"
#include "tests/service/grpc/wire_message.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>

namespace sluice::service {
namespace {

using test::pieces;

/// A field that a test has written.
struct written_field {
  std::uint32_t number = 0;
  wire_type type = wire_type::varint;
  std::uint64_t value = 0;
  std::string text{};
  std::size_t end = 0;  ///< of the field in the message
};

std::uint64_t random_number(std::mt19937_64& random) {
  return random() >> (random() % 64);
}

std::string random_bytes(std::mt19937_64& random) {
  std::string text(random() % (random() % 8 == 0 ? 300 : 8), '\0');
  for (auto& c : text) c = static_cast<char>('a' + random() % 26);
  return text;
}

std::string little_endian(std::uint64_t value, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}

std::vector<written_field> random_fields(std::mt19937_64& random, std::string& message) {
  constexpr std::array types{wire_type::varint, wire_type::fixed64, wire_type::bytes,
                             wire_type::fixed32};
  std::vector<written_field> fields(random() % 12);
  for (auto& field : fields) {
    field.number = static_cast<std::uint32_t>(1 + random_number(random) % ((1U << 29U) - 1));
    field.type = types[random() % types.size()];
    field.value = random_number(random);
    message += test::tag(field.number, static_cast<unsigned>(field.type));
    if (field.type == wire_type::varint) message += test::varint(field.value);
    if (field.type == wire_type::fixed64) message += little_endian(field.value, 8);
    if (field.type == wire_type::fixed32) {
      field.value &= 0xffffffffU;
      message += little_endian(field.value, 4);
    }
    if (field.type == wire_type::bytes) {
      field.text = random_bytes(random);
      message += test::varint(field.text.size()) + field.text;
    }
    field.end = message.size();
  }
  return fields;
}

void expect_field(wire_reader& reader, const written_field& field) {
  EXPECT_TRUE(reader.is(field.number, field.type));
  switch (field.type) {
    case wire_type::varint:
      EXPECT_EQ(reader.varint(), field.value);
      return;
    case wire_type::fixed32:
      EXPECT_EQ(reader.fixed32(), field.value);
      return;
    case wire_type::fixed64:
      EXPECT_EQ(reader.fixed64(), field.value);
      return;
    default:
      EXPECT_EQ(reader.text(), field.text);
  }
}

/// Reads all fields and skips their values. Returns their number.
std::size_t skip_all(wire_reader reader) {
  std::size_t fields = 0;
  for (; reader.next(); ++fields) reader.skip();
  return fields;
}

std::size_t skip_all(std::string_view message) {
  return skip_all(wire_reader(std::as_bytes(std::span(message))));
}

void expect_malformed(std::string_view message, std::string_view word) {
  test::expect_error(request_status::invalid_argument, {"malformed", word},
                     [&] { (void)skip_all(message); });
}

TEST(wire_reader, reads_random_fields_from_random_pieces) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 500; ++round) {
    std::string message;
    const auto fields = random_fields(random, message);
    const pieces memory(message, random);
    wire_reader reader(memory.spans());
    EXPECT_EQ(reader.size(), message.size());
    for (const auto& field : fields) {
      ASSERT_TRUE(reader.next());
      if (random() % 3 == 0) {
        reader.skip();
      } else {
        expect_field(reader, field);
      }
      EXPECT_EQ(reader.size(), message.size() - field.end);
    }
    EXPECT_FALSE(reader.next());
  }
}

TEST(wire_reader, refuses_messages_that_are_cut) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 30; ++round) {
    std::string message;
    const auto fields = random_fields(random, message);
    for (std::size_t length = 0; length < message.size(); ++length) {
      const pieces memory(std::string_view(message).substr(0, length), random);
      const bool is_whole =
          length == 0 || std::any_of(fields.begin(), fields.end(),
                                     [&](const auto& field) { return field.end == length; });
      if (is_whole) {
        EXPECT_NO_THROW((void)skip_all(wire_reader(memory.spans())));
      } else {
        EXPECT_THROW((void)skip_all(wire_reader(memory.spans())), request_error);
      }
    }
  }
}

TEST(wire_reader, survives_random_bytes) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 5'000; ++round) {
    std::string message(random() % 40, '\0');
    for (auto& c : message) c = static_cast<char>(random() % 3 == 0 ? random() : random() % 32);
    const pieces memory(message, random);
    try {
      (void)skip_all(wire_reader(memory.spans()));
    } catch (const request_error& failure) {
      EXPECT_EQ(failure.status(), request_status::invalid_argument);
    }
  }
}

TEST(wire_reader, reads_the_largest_numbers_and_refuses_larger_ones) {
  const std::string nine(9, '\xff');
  EXPECT_EQ(skip_all("\x08" + nine + '\x01'), 1U);
  expect_malformed("\x08" + nine + '\x02', "64 bits");
  expect_malformed("\x08" + nine + "\x81\x01", "64 bits");
  expect_malformed("\x08" + std::string(40, '\xff'), "64 bits");
  const std::string largest = nine + '\x01';
  wire_reader reader(std::as_bytes(std::span(largest)));
  EXPECT_EQ(reader.varint(), std::numeric_limits<std::uint64_t>::max());
  // Longer than necessary, as some encoders write lengths.
  const std::string padded("\x81\x80\x00", 3);
  wire_reader long_one(std::as_bytes(std::span(padded)));
  EXPECT_EQ(long_one.varint(), 1U);
}

TEST(wire_reader, refuses_tags_that_are_none) {
  expect_malformed(std::string_view("\x00", 1), "tag");  // field 0
  expect_malformed("\x02", "tag");
  expect_malformed("\x0e", "tag");  // type 6
  expect_malformed("\x0f", "tag");  // type 7
  expect_malformed(test::varint(std::uint64_t{1} << 32U) + '\x01', "tag");
  expect_malformed("\x0c", "group");  // an end without a beginning
}

TEST(wire_reader, refuses_lengths_beyond_the_end) {
  expect_malformed("\x0a\x03xy", "length");
  expect_malformed(test::tag(1, 2) + test::varint(std::numeric_limits<std::uint64_t>::max()),
                   "length");
  // The inner length fits the outer message but not the inner one.
  const std::string outer = test::bytes(1, "\x0a\x04xy") + test::bytes(2, "more than that");
  wire_reader reader(std::as_bytes(std::span(outer)));
  ASSERT_TRUE(reader.next());
  auto inner = reader.bytes();
  ASSERT_TRUE(inner.next());
  test::expect_error(request_status::invalid_argument, {"length"}, [&] { (void)inner.bytes(); });
  ASSERT_TRUE(reader.next());
  EXPECT_EQ(reader.text(), "more than that");
}

TEST(wire_reader, skips_groups_up_to_a_depth) {
  const auto nested = [](std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) text += test::tag(static_cast<std::uint32_t>(i + 1), 3);
    text += test::number(7, 3) + test::bytes(8, "x");
    for (std::size_t i = depth; i > 0; --i) text += test::tag(static_cast<std::uint32_t>(i), 4);
    return text;
  };
  EXPECT_EQ(skip_all(nested(1) + test::number(1, 1)), 2U);
  EXPECT_EQ(skip_all(nested(32) + test::number(1, 1)), 2U);
  expect_malformed(nested(33), "deeply");
  expect_malformed(std::string(1'000'000, '\x0b'), "deeply");
  expect_malformed(test::tag(1, 3) + test::tag(2, 4), "group");
  expect_malformed(test::tag(1, 3) + test::number(1, 1), "group");
}

TEST(wire_reader, refuses_texts_that_are_no_utf8_or_too_long) {
  const auto read = [](const std::string& message) {
    wire_reader reader(std::as_bytes(std::span(message)));
    (void)reader.next();
    return reader.text();
  };
  EXPECT_EQ(read(test::bytes(1, "gr\xc3\xbcn")), "gr\xc3\xbcn");
  EXPECT_EQ(read(test::bytes(1, std::string(65'536, 'x'))).size(), 65'536U);
  test::expect_error(request_status::invalid_argument, {"64 KiB"},
                     [&] { (void)read(test::bytes(1, std::string(65'537, 'x'))); });
  test::expect_error(request_status::invalid_argument, {"UTF-8"},
                     [&] { (void)read(test::bytes(1, "gr\xc3")); });
}

TEST(wire_writer, writes_what_the_reader_reads) {
  auto random = sluice::test::make_generator();
  for (int round = 0; round < 200; ++round) {
    const auto value = random_number(random);
    const auto text = random_bytes(random);
    const auto field = static_cast<std::uint32_t>(1 + random_number(random) % 1000);
    std::string message;
    append_number(message, field, value);
    append_text(message, field, text);
    append_bytes(message, field, text);
    // proto3 leaves out numbers of zero and empty texts.
    EXPECT_EQ(message, (value == 0 ? "" : test::number(field, value)) +
                           (text.empty() ? "" : test::bytes(field, text)) +
                           test::bytes(field, text));
  }
}

}  // namespace
}  // namespace sluice::service
