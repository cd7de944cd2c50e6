// SPDX-License-Identifier: Apache-2.0
#include "tools/io/npy.hpp"

#include "tests/support/seed.hpp"
#include "tests/tools/io/files.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <complex>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

namespace sluice::io {
namespace {

using test::as_bytes;
using test::expect_error;
using test::little_endian;
using test::make_generator;

/// A file as NumPy lays it out: the dictionary padded so that the elements begin at a multiple
/// of 64.
std::string file_with(std::string dictionary, const std::string& elements, int major = 1) {
  const std::size_t prologue = major == 1 ? 10 : 12;
  while ((prologue + dictionary.size() + 1) % 64 != 0) dictionary += ' ';
  dictionary += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  file += major == 1 ? little_endian(static_cast<std::uint16_t>(dictionary.size()))
                     : little_endian(static_cast<std::uint32_t>(dictionary.size()));
  return file + dictionary + elements;
}

std::string dictionary(const std::string& description, const std::string& shape,
                       const std::string& fortran_order = "False") {
  return "{'descr': '" + description + "', 'fortran_order': " + fortran_order +
         ", 'shape': " + shape + ", }";
}

array parse(std::string_view file) {
  return parse_npy(as_bytes(file), "test.npy");
}

void expect_refused(std::string_view file, std::string_view text) {
  expect_error(errc::invalid_argument, "test.npy: ", text, [&] { return parse(file); });
}

void expect_dictionary_refused(const std::string& text, std::string_view message) {
  SCOPED_TRACE(text);
  expect_refused(file_with(text, std::string(64, '\0')), message);
}

std::string floats(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) bytes += little_endian(value);
  return bytes;
}

template <class T>
std::vector<T> vector_of(const array& contents) {
  const auto values = contents.values<T>();
  return {values.begin(), values.end()};
}

TEST(Npy, ReadsEveryVersion) {
  for (const int major : {1, 2, 3}) {
    SCOPED_TRACE(major);
    const array contents =
        parse(file_with(dictionary("<f4", "(2, 3)"), floats({1, 2, 3, 4, 5, 6}), major));
    EXPECT_EQ(contents.type, element_type::f32);
    EXPECT_EQ(contents.shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(vector_of<float>(contents), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Npy, ReadsEveryTypeInEitherByteOrder) {
  const double pi = 3.141592653589793;
  for (const bool big : {false, true}) {
    SCOPED_TRACE(big ? "big-endian" : "little-endian");
    const std::string order = big ? ">" : "<";
    const auto ordered = [&](std::string bytes) {
      if (big) std::reverse(bytes.begin(), bytes.end());
      return bytes;
    };
    EXPECT_EQ(vector_of<float>(
                  parse(file_with(dictionary(order + "f4", "(1,)"), ordered(little_endian(1.5F))))),
              std::vector<float>{1.5F});
    EXPECT_EQ(vector_of<double>(
                  parse(file_with(dictionary(order + "f8", "(1,)"), ordered(little_endian(pi))))),
              std::vector<double>{pi});
    EXPECT_EQ(
        vector_of<std::int16_t>(parse(file_with(dictionary(order + "i2", "(1,)"),
                                                ordered(little_endian(std::uint16_t{0xfed4}))))),
        std::vector<std::int16_t>{-300});
    EXPECT_EQ(vector_of<std::uint64_t>(parse(file_with(dictionary(order + "u8", "(1,)"),
                                                       ordered(little_endian(1'000'000'007UL))))),
              std::vector<std::uint64_t>{1'000'000'007UL});
    // The two halves of a complex number keep their order, the bytes of each do not.
    EXPECT_EQ(vector_of<std::complex<float>>(
                  parse(file_with(dictionary(order + "c8", "(1,)"),
                                  ordered(little_endian(1.5F)) + ordered(little_endian(-2.0F))))),
              (std::vector<std::complex<float>>{{1.5F, -2.0F}}));
    EXPECT_EQ(vector_of<std::complex<double>>(
                  parse(file_with(dictionary(order + "c16", "(1,)"),
                                  ordered(little_endian(pi)) + ordered(little_endian(-0.1))))),
              (std::vector<std::complex<double>>{{pi, -0.1}}));
  }
}

TEST(Npy, TypesThatTheCallerDoesNotTakeAreRefused) {
  const test::temporary_folder folder;
  const auto path = folder / "x.npy";
  write_npy(path, element_type::i32, std::vector<std::int64_t>{3}, std::vector<std::byte>(12));
  EXPECT_EQ(read_npy(path).type, element_type::i32);
  constexpr std::array types{element_type::f32, element_type::f64, element_type::i64};
  expect_error(errc::invalid_argument, "x.npy",
               "elements of type '<i4' (integer) are not supported; must be f32, f64 or i64",
               [&] { return read_npy(path, types); });
}

TEST(Npy, BooleansAreZeroOrOne) {
  const auto file = [](const char* elements) {
    return file_with(dictionary("|b1", "(2,)"), std::string(elements, 2));
  };
  EXPECT_EQ(parse(file("\0\1")).bytes, (std::vector{std::byte{0}, std::byte{1}}));
  expect_refused(file("\1\2"), "has a boolean that is neither 0 nor 1");
}

TEST(Npy, FortranOrderBecomesCOrder) {
  const array matrix =
      parse(file_with(dictionary("<f4", "(2, 3)", "True"), floats({1, 4, 2, 5, 3, 6})));
  EXPECT_EQ(vector_of<float>(matrix), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

/// The reference looks every element up by its index vector.
TEST(Npy, FortranOrderOfAnyShape) {
  auto generator = make_generator();
  for (int round = 0; round < 40; ++round) {
    std::vector<std::int64_t> shape(std::uniform_int_distribution<std::size_t>(0, 5)(generator));
    std::int64_t size = 1;
    std::string text = "(";
    for (auto& dimension : shape) {
      dimension = std::uniform_int_distribution<std::int64_t>(0, 5)(generator);
      size *= dimension;
      text += std::to_string(dimension) + ",";
    }
    text += ")";
    SCOPED_TRACE(text);
    std::string elements;
    for (std::int64_t i = 0; i < size; ++i) elements += little_endian(static_cast<double>(i));
    const array contents = parse(file_with(dictionary("<f8", text, "True"), elements));
    ASSERT_EQ(contents.shape, shape);
    const auto values = contents.values<double>();
    ASSERT_EQ(values.size(), static_cast<std::size_t>(size));
    for (std::int64_t c_index = 0; c_index < size; ++c_index) {
      std::int64_t rest = c_index;
      std::vector<std::int64_t> index(shape.size());
      for (std::size_t axis = shape.size(); axis-- > 0;) {
        index[axis] = rest % shape[axis];
        rest /= shape[axis];
      }
      std::int64_t fortran_index = 0;
      for (std::size_t axis = shape.size(); axis-- > 0;)
        fortran_index = fortran_index * shape[axis] + index[axis];
      EXPECT_EQ(values[static_cast<std::size_t>(c_index)], static_cast<double>(fortran_index));
    }
  }
}

TEST(Npy, FortranOrderAndSwappedBytesTogether) {
  std::string elements;
  for (const double value : {1.0, 3.0, 2.0, 4.0}) {
    std::string bytes = little_endian(value);
    std::reverse(bytes.begin(), bytes.end());
    elements += bytes;
  }
  EXPECT_EQ(vector_of<double>(parse(file_with(dictionary(">f8", "(2, 2)", "True"), elements))),
            (std::vector<double>{1, 2, 3, 4}));
}

TEST(Npy, NoAxisAndEmptyAxes) {
  const array scalar = parse(file_with(dictionary("<f4", "()"), floats({7})));
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(vector_of<float>(scalar), std::vector<float>{7});
  for (const char* shape : {"(0,)", "(0, 3)", "(3, 0)", "(1000000, 0, 1000000)"}) {
    SCOPED_TRACE(shape);
    EXPECT_EQ(parse(file_with(dictionary("<f8", shape), "")).size(), 0U);
    EXPECT_EQ(parse(file_with(dictionary("<f8", shape, "True"), "")).size(), 0U);
  }
}

TEST(Npy, HeadersThatAreValidPython) {
  const std::string two = floats({1, 2});
  for (const char* text : {
           "{'descr':'<f4','fortran_order':False,'shape':(2,)}",
           "{ \"shape\" : ( 2 , ) , \"fortran_order\" : False , \"descr\" : \"<f4\" }",
           "  {'shape': (2, 1), 'descr': '<f4',\n 'fortran_order': True,}  \n",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }",
           "{'descr': 'f4', 'fortran_order': False, 'shape': (1, 2,), }",
           "{'descr': '=f4', 'fortran_order': False, 'shape': (2,), }",
       }) {
    SCOPED_TRACE(text);
    EXPECT_EQ(vector_of<float>(parse(file_with(text, two))), (std::vector<float>{1, 2}));
  }
  // Neither alignment nor the final line break are required.
  const std::string bare = dictionary("<f4", "(2,)");
  EXPECT_EQ(parse(std::string("\x93NUMPY\x01\0", 8) +
                  little_endian(static_cast<std::uint16_t>(bare.size())) + bare + two)
                .size(),
            2U);
}

TEST(Npy, OtherTypesAreRefused) {
  for (const auto& [description, message] :
       std::vector<std::pair<std::string, std::string>>{{"<i16", "'<i16' (integer)"},
                                                        {"|O", "'|O' (object)"},
                                                        {"<f16", "'<f16' (floating-point type)"},
                                                        {"<c32", "(floating-point type)"},
                                                        {"|S5", "(string)"},
                                                        {"<U5", "(string)"},
                                                        {"|V16", "(structured)"},
                                                        {"<M8[ns]", "(time)"},
                                                        {"", "'' (unknown)"},
                                                        {"<", "(unknown)"},
                                                        {"<<f4", "(unknown)"},
                                                        {"<f4 ", "(floating-point type)"}})
    expect_dictionary_refused(dictionary(description, "(2,)"), message);
  for (const char* description :
       {"[('x', '<f4'), ('y', '<f4')]", "('<f4', (2,))", "{'names': ['x'], 'formats': ['<f4']}"})
    expect_dictionary_refused(
        "{'descr': " + std::string(description) + ", 'fortran_order': False, 'shape': (2,), }",
        "structured arrays are not supported");
}

TEST(Npy, MalformedDictionariesAreRefused) {
  const std::string valid = dictionary("<f4", "(2,)");
  expect_dictionary_refused("", "'{' expected");
  expect_dictionary_refused("{", "expected at its end");
  expect_dictionary_refused("{}", "'descr' is missing");
  expect_dictionary_refused("garbage", "'{' expected at 'garbage");
  expect_dictionary_refused("{'descr': '<f4', 'fortran_order': False, }", "'shape' is missing");
  expect_dictionary_refused("{'descr': '<f4', 'shape': (2,), }", "'fortran_order' is missing");
  expect_dictionary_refused("{'fortran_order': False, 'shape': (2,), }", "'descr' is missing");
  expect_dictionary_refused(valid.substr(0, valid.size() - 1) + "'shape': (3,)}", "appears twice");
  expect_dictionary_refused(valid.substr(0, valid.size() - 1) + "'descr': '<f8'}", "appears twice");
  expect_dictionary_refused(valid.substr(0, valid.size() - 1) + "'more': 1}", "unknown key 'more'");
  expect_dictionary_refused(valid + " junk", "the end of the header expected at 'junk");
  expect_dictionary_refused(valid + valid, "the end of the header expected");
  expect_dictionary_refused(valid + std::string(1, '\0'),
                            "the end of the header expected at '\\x00");
  expect_dictionary_refused("{'descr' '<f4'}", "':' expected");
  expect_dictionary_refused("{'descr': '<f4' 'shape': (2,)}", "',' or '}' expected");
  expect_dictionary_refused("{'descr: <f4, }", "expected");
  expect_dictionary_refused("{'de\\x73cr': '<f4'}", "a plain string expected");
  expect_dictionary_refused("{,}", "a string expected");
  expect_dictionary_refused("{1: 2}", "a string expected");
  expect_dictionary_refused(dictionary("<f4", "(2,)", "0"), "True or False expected");
  expect_dictionary_refused(dictionary("<f4", "(2,)", "Truely"), "',' or '}' expected");
  // Not UTF-8 and not ASCII: quoted in the message as hexadecimal digits.
  expect_dictionary_refused("{'\xff\xfe': 1}", "unknown key '\\xff\\xfe'");
  expect_dictionary_refused(dictionary("\xc3\x28", "(2,)"), "'\\xc3('");
  expect_dictionary_refused("{'" + std::string(5000, 'x') + "': 1}", "xxx...");
  expect_dictionary_refused(std::string(60000, '{'), "a string expected");
  expect_dictionary_refused(std::string(60000, '('), "'{' expected");
}

TEST(Npy, ShapesThatCannotBeAreRefused) {
  for (const auto& [shape, message] : std::vector<std::pair<std::string, std::string>>{
           {"(-1,)", "negative dimension"},
           {"(2, -3)", "negative dimension"},
           {"(2)", "not a tuple"},
           {"2", "'(' expected"},
           {"[2]", "'(' expected"},
           {"(,)", "a dimension expected"},
           {"(2,,)", "a dimension expected"},
           {"(2 3)", "',' or ')' expected"},
           {"(2.0,)", "',' or ')' expected"},
           {"(0x10,)", "',' or ')' expected"},
           {"(1e9,)", "',' or ')' expected"},
           {"(True,)", "a dimension expected"},
           {"('2',)", "a dimension expected"},
           {"((2,),)", "a dimension expected"},
           {"(2", "expected"},
           {"(9223372036854775808,)", "2^63 - 1"},
           {"(99999999999999999999999999999999999999,)", "2^63 - 1"},
           {"(9223372036854775807,)", "2^63 - 1"},
           {"(4294967296, 4294967296)", "2^63 - 1"},
           {"(2305843009213693952,)", "2^63 - 1"},
           // Wraps to a small number in 64 bits.
           {"(4611686018427387905, 4)", "2^63 - 1"},
           {"(0, 9223372036854775807, 9223372036854775807)", "2^63 - 1"}})
    expect_dictionary_refused(dictionary("<f4", shape), message);
  std::string many = "(";
  for (int i = 0; i < 64; ++i) many += "1,";
  EXPECT_EQ(parse(file_with(dictionary("<f4", many + ")"), floats({1}))).shape.size(), 64U);
  expect_dictionary_refused(dictionary("<f4", many + "1)"), "more than 64 dimensions");
}

TEST(Npy, PrologueIsChecked) {
  expect_refused("", "is empty");
  expect_refused("\x93NUMP", "is not a .npy file");
  expect_refused("RIFF1234WAVE", "is not a .npy file");
  for (const std::string& version : {std::string("\0\0", 2), std::string("\1\1", 2),
                                     std::string("\4\0", 2), std::string("\xff\xff", 2)}) {
    std::string file = file_with(dictionary("<f4", "()"), floats({1}));
    file.replace(6, 2, version);
    expect_refused(file, "is not supported; must be 1.0, 2.0 or 3.0");
  }
  // A header of 4 GiB in a file of 12 bytes.
  expect_refused(std::string("\x93NUMPY\x02\0\xff\xff\xff\xff", 12), "4294967295 bytes long");
  expect_refused(std::string("\x93NUMPY\x01\0\xff\xff", 10), "truncated within the .npy header");
  expect_refused(std::string("\x93NUMPY\x01\0\0\0", 10), "'{' expected at its end");
}

TEST(Npy, SizeOfTheFileMustFit) {
  const std::string file = file_with(dictionary("<f4", "(2,)"), floats({1, 2}));
  expect_refused(file + '\0', "has more than the 8 bytes of elements");
  expect_refused(file.substr(0, file.size() - 1), "truncated: 7 of 8 bytes");
  expect_refused(file_with(dictionary("<f4", "(0,)"), "x"),
                 "has more than the 0 bytes of elements");
}

TEST(Npy, EveryTruncationIsRefused) {
  for (const int major : {1, 2, 3}) {
    const std::string file =
        file_with(dictionary("<f4", "(2, 3)", "True"), floats({1, 2, 3, 4, 5, 6}), major);
    for (std::size_t size = 0; size < file.size(); ++size) {
      SCOPED_TRACE(size);
      expect_refused(file.substr(0, size), "");
    }
  }
}

/// Whatever a damaged file does, it is either read or refused, and what is read is consistent.
void expect_read_or_refused(std::string_view file) {
  try {
    const array contents = parse(file);
    EXPECT_EQ(byte_size(contents.type, contents.shape), contents.bytes.size());
    EXPECT_LE(contents.bytes.size(), file.size());
  } catch (const error& e) {
    EXPECT_EQ(to_string(e.code()), to_string(errc::invalid_argument)) << e.what();
    EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos);
  }
}

TEST(Npy, EveryBitFlipIsReadOrRefused) {
  for (const char* order : {"True", "False"}) {
    const std::string file = file_with(dictionary(">c8", "(2, 1)", order), floats({1, 2, 3, 4}), 2);
    for (std::size_t i = 0; i < file.size(); ++i)
      for (unsigned bit = 0; bit < 8; ++bit) {
        std::string damaged = file;
        damaged[i] = static_cast<char>(static_cast<unsigned char>(damaged[i]) ^ (1U << bit));
        expect_read_or_refused(damaged);
      }
  }
}

TEST(Npy, RandomDamageIsReadOrRefused) {
  auto generator = make_generator();
  const std::string file = file_with(dictionary("<f8", "(3,)"), std::string(24, 'e'));
  const std::string tokens = "(){}[]'\",:-0123456789LTFaeu \n\\<>|=\xff";
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(generator);
  };
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = file;
    for (std::size_t change = below(5) + 1; change > 0; --change) {
      const std::size_t offset = below(80);
      switch (below(3)) {
        case 0:
          damaged[offset] = tokens[below(tokens.size())];
          break;
        case 1:
          damaged.insert(offset, 1, tokens[below(tokens.size())]);
          break;
        default:
          damaged.erase(offset, below(8));
          break;
      }
    }
    expect_read_or_refused(damaged);
  }
}

TEST(Npy, HugePromisesAllocateNothing) {
  // Within the limit a promise of 2^62 bytes could not be allocated: std::bad_alloc instead of the
  // error would show an attempt.
  expect_refused(file_with(dictionary("<f8", "(576460752303423488,)"), "12345678"),
                 "truncated: 8 of 4611686018427387904 bytes");
}

TEST(Npy, FilesRoundTripInEveryType) {
  const test::temporary_folder folder;
  auto generator = make_generator();
  for (const auto type : npy_types) {
    for (const auto& shape : std::vector<std::vector<std::int64_t>>{
             {}, {0}, {1}, {7}, {3, 5}, {2, 0, 4}, {2, 3, 4, 1}}) {
      array contents{type, shape, std::vector<std::byte>(byte_size(type, shape).value())};
      const auto bits = type == element_type::boolean ? 1U : 0xffU;
      for (auto& byte : contents.bytes) byte = static_cast<std::byte>(generator() & bits);
      const auto path = folder / "round.npy";
      write_npy(path, contents);
      EXPECT_EQ((std::filesystem::file_size(path) - contents.bytes.size()) % 64, 0U);
      const array again = read_npy(path);
      EXPECT_EQ(again.type, type);
      EXPECT_EQ(again.shape, shape);
      EXPECT_EQ(again.bytes, contents.bytes);
    }
  }
}

TEST(Npy, WrittenBytesAreThoseOfNumPy) {
  const test::temporary_folder folder;
  const std::vector<float> values{1, 2};
  write_npy(folder / "x.npy", element_type::f32, std::vector<std::int64_t>{2, 1},
            std::as_bytes(std::span(values)));
  const std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }";
  EXPECT_EQ(test::read_text(folder / "x.npy"), std::string("\x93NUMPY\x01\0\x76\0", 10) + header +
                                                   std::string(117 - header.size(), ' ') + "\n" +
                                                   floats({1, 2}));
}

TEST(Npy, TypesHaveTheCodesOfNumPy) {
  const test::temporary_folder folder;
  for (const auto& [type, code] :
       std::vector<std::pair<element_type, std::string>>{{element_type::boolean, "'|b1'"},
                                                         {element_type::u8, "'|u1'"},
                                                         {element_type::i8, "'|i1'"},
                                                         {element_type::u16, "'<u2'"},
                                                         {element_type::i16, "'<i2'"},
                                                         {element_type::i32, "'<i4'"},
                                                         {element_type::u32, "'<u4'"},
                                                         {element_type::i64, "'<i8'"},
                                                         {element_type::u64, "'<u8'"},
                                                         {element_type::f16, "'<f2'"},
                                                         {element_type::c128, "'<c16'"}}) {
    write_npy(folder / "x.npy", type, std::vector<std::int64_t>{3},
              std::vector<std::byte>(3 * size_of(type)));
    EXPECT_NE(test::read_text(folder / "x.npy").find(code), std::string::npos) << code;
    EXPECT_EQ(read_npy(folder / "x.npy").type, type);
  }
}

TEST(Npy, TypesThatNumPyLacksAreNotWritten) {
  const test::temporary_folder folder;
  for (const auto type : {element_type::e4m3, element_type::e5m2, element_type::bf16}) {
    const std::string name(to_string(type));
    expect_error(errc::unsupported, ".npy files have no", name, [&] {
      write_npy(folder / "x.npy", type, std::vector<std::int64_t>{3},
                std::vector<std::byte>(3 * size_of(type)));
    });
  }
}

TEST(Npy, WritingChecksTheSize) {
  const test::temporary_folder folder;
  expect_error(errc::invalid_argument, "", "do not match the shape", [&] {
    write_npy(folder / "x.npy", element_type::f32, std::vector<std::int64_t>{3},
              std::vector<std::byte>(11));
    return 0;
  });
  EXPECT_EQ(folder.entries(), 0);
}

TEST(Npy, FilesThatCannotBeReadAreNamed) {
  const test::temporary_folder folder;
  expect_error(errc::invalid_argument, "missing.npy", "No such file",
               [&] { return read_npy(folder / "missing.npy"); });
  expect_error(errc::invalid_argument, folder.path().string(), "is a folder",
               [&] { return read_npy(folder.path()); });
  test::write_text(folder / "empty.npy", "");
  expect_error(errc::invalid_argument, "empty.npy", "is empty",
               [&] { return read_npy(folder / "empty.npy"); });
  expect_error(errc::invalid_argument, "/dev/zero", "is not a .npy file",
               [] { return read_npy("/dev/zero"); });
  expect_error(errc::invalid_argument, "/dev/null", "is empty",
               [] { return read_npy("/dev/null"); });
  expect_error(errc::invalid_argument, "two?lines.npy", "No such file",
               [&] { return read_npy(folder / "two\nlines.npy"); });
}

TEST(Npy, ValuesNeedTheRightType) {
  const array contents{element_type::f32, {1}, std::vector<std::byte>(4)};
  EXPECT_EQ(contents.values<float>().size(), 1U);
  expect_error(errc::invalid_argument, "f32", "f64", [&] { return contents.values<double>(); });
}

TEST(Npy, ByteSize) {
  const auto size = [](element_type type, std::vector<std::int64_t> shape) {
    return byte_size(type, shape);
  };
  EXPECT_EQ(size(element_type::f32, {}), 4U);
  EXPECT_EQ(size(element_type::c128, {2, 3}), 96U);
  EXPECT_EQ(size(element_type::f64, {0, 5}), 0U);
  EXPECT_EQ(size(element_type::f64, {-1}), std::nullopt);
  EXPECT_EQ(size(element_type::u8, {std::numeric_limits<std::int64_t>::max()}),
            static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(size(element_type::u8, {std::numeric_limits<std::int64_t>::max(), 2}), std::nullopt);
  EXPECT_EQ(size(element_type::f64, {std::int64_t{1} << 60}), std::nullopt);
}

}  // namespace
}  // namespace sluice::io
