// SPDX-License-Identifier: Apache-2.0
#include "tests/operations/blas_reference.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

using doubles = std::vector<double>;

std::string text_of(double value) {
  std::ostringstream text;
  text.precision(17);
  text << value;
  return text.str();
}

class gemm_command : public program_test {
 protected:
  template <class T>
  void save_matrix(std::string_view name, stored_matrix m, const std::vector<T>& values) const {
    save<T>(name, {m.rows, m.columns}, values);
  }

  /// Random operands of every combination of options against a reference in double.
  template <class T>
  void check_random_case(std::mt19937_64& generator, const std::string& device) const {
    gemm_shape shape = random_gemm_shape(generator, 90);
    shape.layout = layout::row_major;
    const bool has_c = integer(generator, 0, 1) == 1;
    const bool has_beta = has_c && integer(generator, 0, 1) == 1;
    const T alpha = static_cast<T>(integer(generator, -16, 16)) / 8;
    const T beta = has_beta ? static_cast<T>(integer(generator, -16, 16)) / 8 : T(has_c);
    const auto p = random_gemm<T>(without_gaps(shape), alpha, beta, generator);
    save_matrix("a.npy", stored_a(shape), p.a);
    save_matrix("b.npy", stored_b(shape), p.b);
    save_matrix("c0.npy", {shape.m, shape.n}, p.c);
    const std::string c_before = read_text(folder() / "c0.npy");

    std::vector<std::string> arguments{"gemm",    "a.npy",        "b.npy",    "-o",  "out.npy",
                                       "--alpha", text_of(alpha), "--device", device};
    if (shape.transpose_a == transpose::yes) arguments.push_back("--transpose-a");
    if (shape.transpose_b == transpose::yes) arguments.push_back("--transpose-b");
    if (has_c) arguments.insert(arguments.end(), {"--c", "c0.npy"});
    if (has_beta) arguments.insert(arguments.end(), {"--beta", text_of(beta)});
    SCOPED_TRACE(::testing::PrintToString(arguments));
    ASSERT_NO_FATAL_FAILURE(expect_success(arguments));

    const io::array out = load("out.npy");
    EXPECT_EQ(out.shape, (std::vector<std::int64_t>{shape.m, shape.n}));
    expect_elements_of_c(p, {out.values<T>().begin(), out.values<T>().end()});
    EXPECT_EQ(read_text(folder() / "c0.npy"), c_before) << "C0 was written";
  }
};

TEST_F(gemm_command, equals_a_reference) {
  auto generator = make_generator();
  for (const std::string& device : program_devices()) {
    for (int i = 0; i < 8; ++i) {
      check_random_case<float>(generator, device);
      check_random_case<double>(generator, device);
    }
  }
}

TEST_F(gemm_command, writes_version_1_in_c_order) {
  save<float>("a.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  save<float>("b.npy", {3, 1}, {1, 10, 100});
  expect_success({"gemm", "a.npy", "b.npy", "-o", "out.npy"});
  expect_npy_header(folder() / "out.npy", "<f4", {2, 1});
  save<double>("a.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  save<double>("b.npy", {3, 1}, {1, 10, 100});
  expect_success({"gemm", "a.npy", "b.npy", "-o", "out.npy"});
  expect_npy_header(folder() / "out.npy", "<f8", {2, 1});
  const io::array out = load("out.npy");
  EXPECT_EQ(doubles(out.values<double>().begin(), out.values<double>().end()), (doubles{321, 654}));
}

TEST_F(gemm_command, c_alone_means_beta_1) {
  save<double>("a.npy", {1, 1}, {3});
  save<double>("c0.npy", {1, 1}, {10});
  expect_success({"gemm", "a.npy", "a.npy", "-o", "out.npy", "--c", "c0.npy"});
  EXPECT_EQ(load("out.npy").values<double>()[0], 19);
  expect_success({"gemm", "a.npy", "a.npy", "-o", "out.npy", "--c", "c0.npy", "--beta", "0"});
  EXPECT_EQ(load("out.npy").values<double>()[0], 9);
  expect_success(
      {"gemm", "a.npy", "a.npy", "-o", "out.npy", "--c", "c0.npy", "--beta=-2", "--alpha", "-1e1"});
  EXPECT_EQ(load("out.npy").values<double>()[0], -110);
}

TEST_F(gemm_command, empty_matrices) {
  save<float>("a.npy", {2, 0}, {});
  save<float>("b.npy", {0, 3}, {});
  save<float>("c0.npy", {2, 3}, {1, 2, 3, 4, 5, 6});
  for (const std::string& device : program_devices()) {
    expect_success({"gemm", "a.npy", "b.npy", "-o", "out.npy", "--device", device});
    io::array out = load("out.npy");
    EXPECT_EQ(out.shape, (std::vector<std::int64_t>{2, 3}));
    for (const float value : out.values<float>()) EXPECT_EQ(value, 0);

    expect_success({"gemm", "a.npy", "b.npy", "-o", "out.npy", "--c", "c0.npy", "--beta", "3",
                    "--device", device});
    out = load("out.npy");
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(out.values<float>()[i], 3 * static_cast<float>(i + 1));

    // (0 × 3) · (3 × 0), and a product with no rows.
    expect_success(
        {"gemm", "b.npy", "b.npy", "-o", "out.npy", "--transpose-b", "--device", device});
    EXPECT_EQ(load("out.npy").shape, (std::vector<std::int64_t>{0, 0}));
    save<float>("square.npy", {3, 3}, std::vector<float>(9, 1));
    expect_success({"gemm", "b.npy", "square.npy", "-o", "out.npy", "--device", device});
    expect_npy_header(folder() / "out.npy", "<f4", {0, 3});
  }
}

TEST_F(gemm_command, storage_and_byte_order_of_the_input_do_not_matter) {
  auto generator = make_generator();
  const auto a = random_values<float>(generator, 3 * 4);
  save<float>("a.npy", {3, 4}, a);
  save<float>("b.npy", {4, 2}, random_values<float>(generator, 4 * 2));
  expect_success({"gemm", "a.npy", "b.npy", "-o", "plain.npy", "--device", "host"});

  std::string elements;  // A by columns, most significant byte first
  for (std::int64_t column = 0; column < 4; ++column) {
    for (std::int64_t row = 0; row < 3; ++row) {
      const std::string bytes = little_endian(a[static_cast<std::size_t>(row * 4 + column)]);
      elements.append(bytes.rbegin(), bytes.rend());
    }
  }
  write_text(folder() / "swapped.npy", npy_file(">f4", true, "(3, 4)", elements));
  expect_success({"gemm", "swapped.npy", "b.npy", "-o", "out.npy", "--device", "host"});
  EXPECT_EQ(read_text(folder() / "out.npy"), read_text(folder() / "plain.npy"));
}

TEST_F(gemm_command, says_which_types_it_takes) {
  save<std::int32_t>("integers.npy", {1, 1}, {3});
  const auto outcome = run({"gemm", "integers.npy", "integers.npy", "-o", "out.npy"});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.errors.find("must be f32 or f64"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.errors.find("c64"), std::string::npos) << outcome.errors;
}

TEST_F(gemm_command, refuses_files_that_are_no_matrices) {
  save<float>("b.npy", {4, 5}, std::vector<float>(20, 1));
  save<float>("vector.npy", {4}, std::vector<float>(4, 1));
  save<float>("scalar.npy", {}, std::vector<float>(1, 1));
  save<float>("cube.npy", {1, 3, 4}, std::vector<float>(12, 1));
  save<std::complex<float>>("complex.npy", {3, 4}, std::vector<std::complex<float>>(12, 1));
  save<std::int32_t>("integers.npy", {3, 4}, std::vector<std::int32_t>(12, 1));
  write_text(folder() / "bool.npy", npy_file("|b1", false, "(3, 4)", std::string(12, '\1')));
  write_text(folder() / "object.npy", npy_file("|O", false, "(3, 4)", "cpickle"));
  write_text(folder() / "truncated.npy", npy_file("<f4", false, "(3, 4)", std::string(47, '\0')));
  write_text(folder() / "huge.npy",
             npy_file("<f4", false, "(4611686018427387904, 4)", std::string(48, '\0')));
  write_text(folder() / "text.npy", "1 2 3\n");
  write_text(folder() / "empty.npy", "");
  std::filesystem::create_directory(folder() / "folder.npy");
  for (const char* name : {"vector.npy", "scalar.npy", "cube.npy", "complex.npy", "integers.npy",
                           "bool.npy", "object.npy", "truncated.npy", "huge.npy", "text.npy",
                           "empty.npy", "folder.npy", "missing.npy"}) {
    expect_refused({name}, {"gemm", name, "b.npy", "-o", "out.npy"});
    expect_refused({name}, {"gemm", "b.npy", name, "-o", "out.npy"});
    expect_refused({name},
                   {"gemm", "b.npy", "b.npy", "--transpose-b", "--c", name, "-o", "out.npy"});
  }
  expect_refused({"A:", "empty"}, {"gemm", "", "b.npy", "-o", "out.npy"});
}

TEST_F(gemm_command, refuses_matrices_that_do_not_fit) {
  save<float>("a.npy", {3, 4}, std::vector<float>(12, 1));
  save<float>("b.npy", {4, 5}, std::vector<float>(20, 1));
  save<double>("b64.npy", {4, 5}, std::vector<double>(20, 1));
  save<float>("c0.npy", {3, 5}, std::vector<float>(15, 1));
  expect_refused({"a.npy", "3x4"}, {"gemm", "a.npy", "a.npy", "-o", "out.npy"});
  expect_refused({"b.npy"}, {"gemm", "a.npy", "b.npy", "-o", "out.npy", "--transpose-a"});
  expect_refused({"b.npy"}, {"gemm", "a.npy", "b.npy", "-o", "out.npy", "--transpose-b"});
  expect_refused({"b64.npy", "f64"}, {"gemm", "a.npy", "b64.npy", "-o", "out.npy"});
  expect_refused({"b.npy", "3x5"}, {"gemm", "a.npy", "b.npy", "-o", "out.npy", "--c", "b.npy"});
  expect_refused({"b64.npy"}, {"gemm", "a.npy", "b.npy", "-o", "out.npy", "--c", "b64.npy"});
}

TEST_F(gemm_command, refuses_options_out_of_range) {
  save<float>("a.npy", {2, 2}, {1, 2, 3, 4});
  save<float>("c0.npy", {2, 2}, {1, 2, 3, 4});
  const std::vector<std::string> base{"gemm", "a.npy", "a.npy", "-o", "out.npy"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), base.begin(), base.end());
    return more;
  };
  expect_refused({"--beta", "--c"}, with({"--beta", "2"}));
  expect_refused({"--beta", "--c"}, with({"--beta", "0"}));
  for (const char* value :
       {"nan", "inf", "-inf", "1e999", "1e39", "1x", " 1", "", "0x10", "--", "1,5"}) {
    expect_refused({"--alpha"}, with({"--alpha", value}));
    expect_refused({"--beta"}, with({"--c", "c0.npy", "--beta", value}));
  }
  expect_refused({"--alpha"}, with({"--alpha"}));
  expect_refused({"--alpha"}, with({"--alpha", "1", "--alpha", "2"}));
  expect_refused({"extra"}, with({"extra"}));
  expect_refused({"--gamma"}, with({"--gamma"}));
  expect_refused({"-o"}, {"gemm", "a.npy", "a.npy"});
  expect_refused({"B"}, {"gemm", "a.npy", "-o", "out.npy"});
}

TEST_F(gemm_command, refuses_a_product_larger_than_memory) {
  const std::int64_t many = 3'000'000;  // squared: 36 TB
  save<float>("a.npy", {many, 1}, std::vector<float>(static_cast<std::size_t>(many), 1));
  expect_refused({"out.npy", "memory"},
                 {"gemm", "a.npy", "a.npy", "--transpose-b", "-o", "out.npy"});
}

}  // namespace
}  // namespace sluice::test
