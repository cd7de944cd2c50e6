// SPDX-License-Identifier: Apache-2.0
// The commands mel, demo and bench, by running the program.
#include "tests/operations/elementwise/mel_reference.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/relative_error.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/io/decode_png.hpp"
#include "tests/tools/io/files.hpp"
#include "tools/io/npy.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

using test::temporary_folder;

/// How a run of the program ended and what it printed.
struct outcome {
  int status = -1;
  std::string out;
  std::string err;
};

/// A WAV file of one channel of f32 samples.
std::string wav_of(std::uint32_t rate, const std::vector<float>& samples) {
  using test::little_endian;
  std::string data;
  for (const float sample : samples) data += little_endian(sample);
  const std::string format = little_endian(std::uint16_t{3}) + little_endian(std::uint16_t{1}) +
                             little_endian(rate) + little_endian(rate * 4) +
                             little_endian(std::uint16_t{4}) + little_endian(std::uint16_t{32});
  const std::string chunks = "fmt " + little_endian(static_cast<std::uint32_t>(format.size())) +
                             format + "data" +
                             little_endian(static_cast<std::uint32_t>(data.size())) + data;
  return "RIFF" + little_endian(static_cast<std::uint32_t>(4 + chunks.size())) + "WAVE" + chunks;
}

class Commands : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("SLUICE_PROGRAM") == nullptr)
      GTEST_SKIP() << "SLUICE_PROGRAM does not name the program";
  }

  /// Runs `sluice <arguments>` in the test's folder, which needs no quotes.
  outcome run(const std::string& arguments) const {
    const auto out = folder_ / ".stdout";
    const auto err = folder_ / ".stderr";
    const std::string line = "cd " + folder_.path().string() + " && \"$SLUICE_PROGRAM\" " +
                             arguments + " >.stdout 2>.stderr </dev/null";
    const int status = std::system(line.c_str());
    outcome ended{WIFEXITED(status) ? WEXITSTATUS(status) : -1, test::read_text(out),
                  test::read_text(err)};
    std::filesystem::remove(out);
    std::filesystem::remove(err);
    return ended;
  }

  std::vector<float> write_noise(const std::string& name, std::uint32_t rate, std::size_t count) {
    auto generator = test::make_generator();
    const auto samples = test::random_values<float>(generator, count);
    test::write_text(folder_ / name, wav_of(rate, samples));
    return samples;
  }

  /// Expects exit code 2, one line on standard error that holds `word`, and no new file.
  void expect_refusal(const std::string& word, const std::string& arguments) const {
    SCOPED_TRACE("sluice " + arguments);
    const auto entries = folder_.entries();
    const outcome ended = run(arguments);
    EXPECT_EQ(ended.status, 2);
    EXPECT_NE(ended.err.find(word), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_EQ(folder_.entries(), entries);
  }

  /// Expects pictures whose colours differ at most by the rounding of the decibels.
  void expect_equal_pictures(const std::string& one, const std::string& other) const {
    const auto decoded = [&](const std::string& name) {
      return test::decode_png(test::as_bytes(test::read_text(folder_ / name)));
    };
    const io::picture a = decoded(one);
    const io::picture b = decoded(other);
    ASSERT_EQ(a.width(), b.width());
    ASSERT_EQ(a.height(), b.height());
    int largest = 0;
    for (int y = 0; y < a.height(); ++y)
      for (int x = 0; x < a.width(); ++x) {
        const auto p = a.at(x, y);
        const auto q = b.at(x, y);
        largest = std::max({largest, std::abs(p.red - q.red), std::abs(p.green - q.green),
                            std::abs(p.blue - q.blue)});
      }
    EXPECT_LE(largest, 1);
  }

  temporary_folder folder_;
};

TEST_F(Commands, MelAgreesWithTheReference) {
  const auto samples = write_noise("in.wav", 16000, 6'001);
  const auto expect = [&](const std::string& options, test::mel_reference_parameters p) {
    SCOPED_TRACE(options);
    const outcome ended = run("mel in.wav -o out.npy " + options);
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    EXPECT_EQ(std::count(ended.out.begin(), ended.out.end(), '\n'), 1) << ended.out;
    const auto mel = io::read_npy(folder_ / "out.npy");
    const auto frames = static_cast<std::int64_t>(samples.size()) / p.hop + 1;
    EXPECT_EQ(mel.shape, (std::vector<std::int64_t>{p.n_mels, frames}));
    EXPECT_LE(
        test::relative_error(mel.values<float>(), test::reference_mel_spectrogram(samples, p)),
        test::error_bound<float>(static_cast<std::size_t>(p.n_fft)));
  };
  expect("", {.sample_rate = 16000, .fmax = 8000});
  expect("--n-fft 400 --hop 160 --mels 80 --fmin 20 --fmax 7600", {16000, 400, 160, 80, 20, 7600});
  expect("--n-fft 333 --hop 77 --mels 7 --device host", {16000, 333, 77, 7, 0, 8000});
}

TEST_F(Commands, MelInDecibelsWithAPictureAndATrace) {
  const auto samples = write_noise("in.wav", 22050, 9'000);
  const outcome ended = run("mel in.wav -o out.npy --db --png out.png --trace trace.json --quiet");
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(ended.out, "");
  auto reference = test::reference_mel_spectrogram(samples, {.sample_rate = 22050, .fmax = 11025});
  const double loudest = *std::max_element(reference.begin(), reference.end());
  for (double& value : reference)
    value = std::max(10 * std::log10(std::max(value, 1e-10) / loudest), -80.0);
  const auto mel = io::read_npy(folder_ / "out.npy");
  EXPECT_LE(test::relative_error(mel.values<float>(), reference), 1e-5);

  const auto picture = test::read_text(folder_ / "out.png");
  EXPECT_EQ(picture.substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_GT(picture.size(), 10'000U);
  // The picture is the same whatever the array holds.
  ASSERT_EQ(run("mel in.wav -o power.npy --png power.png").status, 0);
  expect_equal_pictures("power.png", "out.png");

  const auto trace = nlohmann::json::parse(test::read_text(folder_ / "trace.json"));
  EXPECT_NE(trace.dump().find("program"), std::string::npos);
}

TEST_F(Commands, MelOfLoudSamples) {
  auto generator = test::make_generator();
  const auto quiet = test::random_values<float>(generator, 4'000);
  const test::mel_reference_parameters parameters{.sample_rate = 22050, .fmax = 11025};
  const auto reference = test::reference_mel_spectrogram(quiet, parameters);
  const double loudest = *std::max_element(reference.begin(), reference.end());
  std::vector<double> decibels;
  for (const double value : reference)
    decibels.push_back(std::max(10 * std::log10(value / loudest), -80.0));
  for (const int exponent : {10, 60, 64, 127}) {
    SCOPED_TRACE(exponent);
    auto samples = quiet;
    for (float& sample : samples) sample = std::ldexp(sample, exponent);
    test::write_text(folder_ / "loud.wav", wav_of(22050, samples));
    const outcome ended = run("mel loud.wav -o out.npy --db --png out.png");
    ASSERT_EQ(ended.status, 0) << ended.err;
    EXPECT_LE(test::relative_error(io::read_npy(folder_ / "out.npy").values<float>(), decibels),
              1e-5);
    // Of samples of 2^60, the power of a bin exceeds f32, and that of a band does not.
    if (exponent <= 60) {
      auto power = reference;
      for (double& value : power) value = std::ldexp(value, 2 * exponent);
      ASSERT_EQ(run("mel loud.wav -o power.npy --png power.png").status, 0);
      EXPECT_LE(test::relative_error(io::read_npy(folder_ / "power.npy").values<float>(), power),
                test::error_bound<float>(2048));
      expect_equal_pictures("power.png", "out.png");
    } else {
      expect_refusal("loud.wav: has samples of up to", "mel loud.wav -o power2.npy");
    }
  }
}

TEST_F(Commands, MelWarns) {
  const auto samples = write_noise("in.wav", 16000, 1'000);
  const auto expect_warning = [&](const std::string& text, const std::string& arguments) {
    const outcome ended = run(arguments);
    EXPECT_EQ(ended.status, 0);
    EXPECT_NE(ended.err.find("sluice mel: warning: " + text), std::string::npos) << ended.err;
    EXPECT_EQ(std::count(ended.err.begin(), ended.err.end(), '\n'), 1) << ended.err;
  };
  // librosa warns of the same bands.
  expect_warning("--mels: 13 of 128 bands", "mel in.wav -o out.npy --n-fft 256 --hop 100 --quiet");
  auto file = wav_of(16000, samples);
  test::write_text(folder_ / "cut.wav", file.substr(0, file.size() - 40));
  expect_warning("cut.wav: ends 40 bytes", "mel cut.wav -o out.npy");
  file.replace(file.find("data") + 4, 4, "\xff\xff\xff\xff");
  test::write_text(folder_ / "piped.wav", file);
  const outcome ended = run("mel piped.wav -o piped.npy");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.err, "");
  ASSERT_EQ(run("mel in.wav -o out.npy").status, 0);
  EXPECT_EQ(test::read_text(folder_ / "piped.npy"), test::read_text(folder_ / "out.npy"));
}

TEST_F(Commands, MelRefuses) {
  write_noise("in.wav", 16000, 500);
  test::write_text(folder_ / "empty.wav", wav_of(16000, {}));
  test::write_text(folder_ / "broken.wav", "RIFF of a kind");
  test::write_text(folder_ / "earlier.npy", "earlier");
  expect_refusal("--fmax", "mel in.wav -o out.npy --fmax 8001");
  expect_refusal("--fmax", "mel in.wav -o out.npy --fmax nan");
  expect_refusal("--fmin", "mel in.wav -o out.npy --fmin 8000");
  expect_refusal("--fmin", "mel in.wav -o out.npy --fmin 4000 --fmax 4000");
  expect_refusal("--fmin", "mel in.wav -o out.npy --fmin -1");
  expect_refusal("--fmin", "mel in.wav -o out.npy --fmin many");
  expect_refusal("--n-fft", "mel in.wav -o out.npy --n-fft 0");
  expect_refusal("--n-fft", "mel in.wav -o out.npy --n-fft 9223372036854775807");
  expect_refusal("memory", "mel in.wav -o out.npy --n-fft 10000000000");
  expect_refusal("--n-fft", "mel in.wav -o out.npy --n-fft 1125899906842624");
  expect_refusal("--hop", "mel in.wav -o out.npy --hop -5");
  expect_refusal("--hop", "mel in.wav -o out.npy --hop 9223372036854775807");
  expect_refusal("--mels", "mel in.wav -o out.npy --mels 0");
  expect_refusal("--mels", "mel in.wav -o out.npy --mels 100000000000");
  expect_refusal("empty.wav", "mel empty.wav -o out.npy");
  expect_refusal("broken.wav", "mel broken.wav -o out.npy");
  expect_refusal("missing.wav", "mel missing.wav -o out.npy");
  expect_refusal("nowhere", "mel in.wav -o nowhere/out.npy");
  expect_refusal("nowhere", "mel in.wav -o out.npy --png nowhere/out.png");
  expect_refusal("--png", "mel in.wav -o out.npy --png out.npy");
  expect_refusal("--device", "mel in.wav -o out.npy --device tape");
  expect_refusal("--output", "mel in.wav");
  expect_refusal("--fmax", "mel in.wav -o earlier.npy --fmax 8001");
  EXPECT_EQ(test::read_text(folder_ / "earlier.npy"), "earlier");
}

TEST_F(Commands, DemoHoldsItsAnswersAgainstReferences) {
  const auto samples = write_noise("in.wav", 11025, 30'000);
  const outcome ended = run("demo --wav in.wav --out made/out");
  ASSERT_EQ(ended.status, 0) << ended.out << ended.err;
  EXPECT_EQ(ended.err, "");
  for (const auto* operation : {"sgemm", "conv2d", "fft", "random", "mel spectrogram"})
    EXPECT_NE(ended.out.find(operation), std::string::npos) << ended.out;
  std::size_t held = 0;
  for (auto position = ended.out.find("  ok\n"); position != std::string::npos;
       position = ended.out.find("  ok\n", position + 1))
    ++held;
  EXPECT_EQ(held, 5U) << ended.out;

  const auto mel = io::read_npy(folder_ / "made/out/mel.npy");
  EXPECT_EQ(mel.shape, (std::vector<std::int64_t>{128, 59}));
  EXPECT_LE(test::relative_error(
                mel.values<float>(),
                test::reference_mel_spectrogram(samples, {.sample_rate = 11025, .fmax = 5512.5})),
            test::error_bound<float>(2048));
  EXPECT_EQ(test::read_text(folder_ / "made/out/mel.png").substr(1, 3), "PNG");
  const auto trace = nlohmann::json::parse(test::read_text(folder_ / "made/out/trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), 20U);
}

TEST_F(Commands, DemoRefuses) {
  test::write_text(folder_ / "broken.wav", "RIFF of a kind");
  test::write_text(folder_ / "file", "");
  std::filesystem::create_directory(folder_ / "out");
  expect_refusal("broken.wav", "demo --wav broken.wav");
  expect_refusal("missing.wav", "demo --wav missing.wav");
  expect_refusal("--out", "demo --wav broken.wav --out file");
  expect_refusal("--seed", "demo --wav broken.wav --seed now");
}

}  // namespace
}  // namespace sluice
