// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::service::test {

inline grpc::ByteBuffer to_buffer(const std::string& text) {
  const grpc::Slice slice(text);
  return {&slice, 1};
}

inline std::string to_text(const grpc::ByteBuffer& buffer) {
  std::string text;
  std::vector<grpc::Slice> slices;
  if (buffer.Valid()) (void)buffer.Dump(&slices);
  for (const auto& slice : slices) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

inline std::shared_ptr<grpc::ChannelCredentials> insecure() {
  return grpc::InsecureChannelCredentials();
}

/// Metadata with a token.
using metadata = std::vector<std::pair<std::string, std::string>>;
inline metadata token(const std::string& text) {
  return {{"authorization", "Bearer " + text}};
}

/// A channel of its own to a port of this machine.
class generic_client {
 public:
  explicit generic_client(
      std::uint16_t port,
      const std::shared_ptr<grpc::ChannelCredentials>& credentials = insecure()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ =
        grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port), credentials, arguments);
    stub_ = std::make_unique<grpc::GenericStub>(channel_);
  }
  [[nodiscard]] grpc::GenericStub& stub() noexcept { return *stub_; }

 private:
  std::shared_ptr<grpc::Channel> channel_{};
  std::unique_ptr<grpc::GenericStub> stub_{};
};

inline std::string inference_method(const std::string& name) {
  return "/inference.GRPCInferenceService/" + name;
}

/// A call with one request.
class unary_request {
 public:
  unary_request(generic_client& client, const std::string& method, const std::string& message,
                std::optional<std::chrono::milliseconds> timeout = {},
                const metadata& fields = {}) {
    for (const auto& [name, value] : fields) context_.AddMetadata(name, value);
    if (timeout) context_.set_deadline(std::chrono::system_clock::now() + *timeout);
    request_ = to_buffer(message);
    client.stub().UnaryCall(&context_, method, grpc::StubOptions(), &request_, &reply_,
                            [this](grpc::Status status) {
                              const std::scoped_lock lock(mutex_);
                              ++ends_;
                              status_ = std::move(status);
                              changed_.notify_all();
                            });
  }
  unary_request(const unary_request&) = delete;
  unary_request& operator=(const unary_request&) = delete;
  ~unary_request() { (void)wait(); }

  void cancel() { context_.TryCancel(); }
  grpc::Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return ends_ > 0; });
    return status_;
  }
  /// After `wait`.
  [[nodiscard]] std::string reply() const { return to_text(reply_); }
  [[nodiscard]] std::string trailing(const std::string& name) const {
    const auto& fields = context_.GetServerTrailingMetadata();
    const auto found = fields.find(name);
    return found == fields.end() ? "" : std::string(found->second.data(), found->second.size());
  }

 private:
  grpc::ClientContext context_{};
  grpc::ByteBuffer request_{};
  grpc::ByteBuffer reply_{};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  int ends_ = 0;
  grpc::Status status_{};
};

/// A call with several requests and replies.
class stream_request : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  /// @param reads  whether replies are read
  stream_request(generic_client& client, const std::string& method, bool reads = true,
                 const metadata& fields = {}) {
    for (const auto& [name, value] : fields) context_.AddMetadata(name, value);
    client.stub().PrepareBidiStreamingCall(&context_, method, grpc::StubOptions(), this);
    AddHold();
    if (reads) StartRead(&received_);
    StartCall();
  }
  ~stream_request() override {
    close();
    cancel();
    (void)wait();
  }

  void send(const std::string& message) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_writing_; });
    if (!is_open_) return;
    is_writing_ = true;
    sent_ = to_buffer(message);
    StartWrite(&sent_);
  }
  /// There are no further requests.
  void close() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !is_writing_; });
    if (std::exchange(is_closed_, true)) return;
    StartWritesDone();
    RemoveHold();
  }
  void cancel() { context_.TryCancel(); }
  /// The next reply; nothing after the last.
  std::optional<std::string> receive() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !replies_.empty() || !is_open_; });
    if (replies_.empty()) return std::nullopt;
    auto reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }
  grpc::Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_done_; });
    return status_;
  }

 private:
  void OnReadDone(bool is_read) override {
    const std::scoped_lock lock(mutex_);
    if (is_read) {
      replies_.push_back(to_text(received_));
      StartRead(&received_);
    } else {
      is_open_ = false;
      // The call has ended: nothing more is written.
      if (!std::exchange(is_closed_, true)) RemoveHold();
    }
    changed_.notify_all();
  }
  void OnWriteDone(bool /*is_written*/) override {
    const std::scoped_lock lock(mutex_);
    is_writing_ = false;
    changed_.notify_all();
  }
  void OnDone(const grpc::Status& status) override {
    const std::scoped_lock lock(mutex_);
    status_ = status;
    is_done_ = true;
    is_open_ = false;
    changed_.notify_all();
  }

  grpc::ClientContext context_{};
  grpc::ByteBuffer received_{};
  grpc::ByteBuffer sent_{};
  std::mutex mutex_{};
  std::condition_variable changed_{};
  std::deque<std::string> replies_{};
  bool is_open_ = true;
  bool is_writing_ = false;
  bool is_closed_ = false;
  bool is_done_ = false;
  grpc::Status status_{};
};

}  // namespace sluice::service::test
