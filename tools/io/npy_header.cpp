// SPDX-License-Identifier: Apache-2.0
#include "tools/io/npy_header.hpp"

#include "tools/io/displayed.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <optional>

namespace sluice::io {

namespace {

constexpr std::size_t maximum_dimensions = 64;

/// The codes of element types, without the byte order.
struct type_code {
  std::string_view code;
  element_type type;
};
constexpr std::array type_codes{
    type_code{"b1", element_type::boolean}, type_code{"u1", element_type::u8},
    type_code{"i1", element_type::i8},      type_code{"u2", element_type::u16},
    type_code{"i2", element_type::i16},     type_code{"i4", element_type::i32},
    type_code{"u4", element_type::u32},     type_code{"i8", element_type::i64},
    type_code{"u8", element_type::u64},     type_code{"f2", element_type::f16},
    type_code{"f4", element_type::f32},     type_code{"f8", element_type::f64},
    type_code{"c8", element_type::c64},     type_code{"c16", element_type::c128}};

/// "f32, f64 or c64"
std::string listed(std::span<const element_type> types) {
  std::string text;
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (i != 0) text += i + 1 == types.size() ? " or " : ", ";
    text += to_string(types[i]);
  }
  return text;
}

/// Parses the few kinds of Python literals that a header contains.
class literal_reader {
 public:
  literal_reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  [[noreturn]] void fail(const std::string& description) const {
    throw error(errc::invalid_argument, std::string(name_) + ": " + description);
  }

  [[noreturn]] void fail_here(const std::string& wanted) const {
    fail("malformed .npy header: " + wanted + " expected at " +
         (at_end() ? std::string("its end") : quoted(text_.substr(position_), 16)));
  }

  bool accept(char character) {
    skip_space();
    if (at_end() || text_[position_] != character) return false;
    ++position_;
    return true;
  }

  void expect(char character) {
    if (!accept(character)) fail_here(std::string("'") + character + "'");
  }

  void expect_end() {
    skip_space();
    if (!at_end()) fail_here("the end of the header");
  }

  /// The next character that is not white space, or 0 at the end.
  [[nodiscard]] char peek() {
    skip_space();
    return at_end() ? '\0' : text_[position_];
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail_here("a string");
    const std::size_t begin = ++position_;
    while (!at_end() && text_[position_] != quote) {
      // No key or element type that sluice accepts contains an escape.
      if (text_[position_] == '\\' || text_[position_] == '\n') fail_here("a plain string");
      ++position_;
    }
    if (at_end()) fail_here("a closing quote");
    return text_.substr(begin, position_++ - begin);
  }

  bool boolean() {
    skip_space();
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail_here("True or False");
  }

  std::int64_t dimension() {
    if (peek() == '-') fail("the shape has a negative dimension");
    if (!at_digit()) fail_here("a dimension");
    constexpr std::int64_t maximum = std::numeric_limits<std::int64_t>::max();
    std::int64_t value = 0;
    for (; at_digit(); ++position_) {
      const std::int64_t digit = text_[position_] - '0';
      if (value > (maximum - digit) / 10) fail("the shape has a dimension greater than 2^63 - 1");
      value = value * 10 + digit;
    }
    // Python 2 writes long integers with a suffix.
    if (!at_end() && text_[position_] == 'L') ++position_;
    return value;
  }

  /// A tuple of dimensions. As in Python, a tuple of one element needs a comma.
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> dimensions;
    expect('(');
    bool comma = true;
    while (!accept(')')) {
      if (!comma) fail_here("',' or ')'");
      if (dimensions.size() == maximum_dimensions)
        fail("the shape has more than " + std::to_string(maximum_dimensions) + " dimensions");
      dimensions.push_back(dimension());
      comma = accept(',');
    }
    if (dimensions.size() == 1 && !comma) fail("malformed .npy header: the shape is not a tuple");
    return dimensions;
  }

 private:
  [[nodiscard]] bool at_end() const noexcept { return position_ == text_.size(); }
  [[nodiscard]] bool at_digit() const noexcept {
    return !at_end() && text_[position_] >= '0' && text_[position_] <= '9';
  }

  void skip_space() noexcept {
    while (!at_end() &&
           (text_[position_] == ' ' || text_[position_] == '\t' || text_[position_] == '\n' ||
            text_[position_] == '\r' || text_[position_] == '\f'))
      ++position_;
  }

  bool accept_word(std::string_view word) {
    if (text_.substr(position_, word.size()) != word) return false;
    position_ += word.size();
    return true;
  }

  std::string_view text_;
  std::string_view name_;
  std::size_t position_ = 0;
};

std::string_view kind_of(std::string_view code) {
  switch (code.empty() ? '\0' : code.front()) {
    case 'i':
    case 'u':
      return "integer";
    case 'b':
      return "bool";
    case 'O':
      return "object";
    case 'f':
    case 'c':
      return "floating-point type";
    case 'S':
    case 'a':
    case 'U':
      return "string";
    case 'V':
      return "structured";
    case 'm':
    case 'M':
      return "time";
    default:
      return "unknown";
  }
}

void read_description(literal_reader& reader, npy_header& header,
                      std::span<const element_type> types) {
  const char first = reader.peek();
  if (first == '[' || first == '(' || first == '{')
    reader.fail("structured arrays are not supported; the elements must be " + listed(types));
  const std::string_view description = reader.string();
  std::string_view code = description;
  std::endian order = std::endian::native;
  if (!code.empty() && std::string_view("<>=|").find(code.front()) != std::string_view::npos) {
    if (code.front() == '<') order = std::endian::little;
    if (code.front() == '>') order = std::endian::big;
    code.remove_prefix(1);
  }
  const auto* const found =
      std::find_if(type_codes.begin(), type_codes.end(), [&](const type_code& each) {
        return each.code == code && std::find(types.begin(), types.end(), each.type) != types.end();
      });
  if (found == type_codes.end())
    reader.fail("elements of type " + quoted(description) + " (" + std::string(kind_of(code)) +
                ") are not supported; must be " + listed(types));
  header.type = found->type;
  header.byte_swapped = order != std::endian::native;
}

}  // namespace

npy_header parse_npy_header(std::string_view dictionary, std::string_view name,
                            std::span<const element_type> types) {
  literal_reader reader(dictionary, name);
  npy_header header;
  bool has_description = false;
  bool has_order = false;
  bool has_shape = false;
  const auto once = [&](bool& seen, std::string_view key) {
    if (seen) reader.fail("malformed .npy header: key " + quoted(key) + " appears twice");
    seen = true;
  };

  reader.expect('{');
  bool comma = true;
  while (!reader.accept('}')) {
    if (!comma) reader.fail_here("',' or '}'");
    const std::string_view key = reader.string();
    reader.expect(':');
    if (key == "descr") {
      once(has_description, key);
      read_description(reader, header, types);
    } else if (key == "fortran_order") {
      once(has_order, key);
      header.fortran_order = reader.boolean();
    } else if (key == "shape") {
      once(has_shape, key);
      header.shape = reader.shape();
    } else {
      reader.fail("malformed .npy header: unknown key " + quoted(key));
    }
    comma = reader.accept(',');
  }
  reader.expect_end();
  if (!has_description) reader.fail("malformed .npy header: key 'descr' is missing");
  if (!has_order) reader.fail("malformed .npy header: key 'fortran_order' is missing");
  if (!has_shape) reader.fail("malformed .npy header: key 'shape' is missing");
  return header;
}

std::string format_npy_header(element_type type, std::span<const std::int64_t> shape) {
  const auto* const found = std::find_if(type_codes.begin(), type_codes.end(),
                                         [&](const type_code& each) { return each.type == type; });
  if (found == type_codes.end())
    throw error(errc::unsupported, ".npy files have no " + std::string(to_string(type)));
  std::string dictionary = std::string("{'descr': '") + (size_of(type) == 1 ? '|' : '<') +
                           std::string(found->code) + "', 'fortran_order': False, 'shape': (";
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis != 0) dictionary += ' ';
    dictionary += std::to_string(shape[axis]);
    if (axis + 1 < shape.size() || shape.size() == 1) dictionary += ',';
  }
  dictionary += "), }";

  constexpr std::size_t prologue = 10;
  constexpr std::size_t alignment = 64;
  const std::size_t padding =
      (alignment - (prologue + dictionary.size() + 1) % alignment) % alignment;
  dictionary.append(padding, ' ');
  dictionary += '\n';
  if (dictionary.size() > std::numeric_limits<std::uint16_t>::max())
    throw error(errc::invalid_argument, "shape: " + std::to_string(shape.size()) +
                                            " dimensions are too many for a .npy header");
  std::string header = "\x93NUMPY\x01";
  header += '\0';
  header += static_cast<char>(dictionary.size() & 0xff);
  header += static_cast<char>(dictionary.size() >> 8);
  return header + dictionary;
}

}  // namespace sluice::io
