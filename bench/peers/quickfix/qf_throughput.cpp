// QuickFIX C++ as an acceptor of the common client, and as the side under test of the scenario
// "throughput": N sessions, each message answered. It prints its address, and serves until its
// standard input ends. The options are in ../README.md.
#include "execution_report.hpp"
#include "settings.hpp"

#include <Application.h>
#include <FileStore.h>
#include <MessageStore.h>
#include <SocketAcceptor.h>
#include <ThreadedSocketAcceptor.h>

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <unistd.h>

namespace {

// With more sessions, files and sockets would pass the 1,024 descriptors that select(2) knows.
const long SELECT_SESSIONS_MAX = 180;

class Venue : public FIX::Application {
public:
  explicit Venue(bool echo) : echo_(echo) {}
  void onCreate(const FIX::SessionID&) override {}
  void onLogon(const FIX::SessionID&) override {}
  void onLogout(const FIX::SessionID&) override {}
  void toAdmin(FIX::Message&, const FIX::SessionID&) override {}
  void toApp(FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromAdmin(const FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromApp(const FIX::Message& message, const FIX::SessionID& id) noexcept override {
    try {
      if (echo_) {
        FIX::Message back(message);
        FIX::Session::sendToTarget(back, id);
      } else {
        peer::report(static_cast<const FIX42::NewOrderSingle&>(message), id, ++orders_, true);
      }
    } catch (const std::exception& error) {
      std::fprintf(stderr, "qf_throughput: %s\n", error.what());
      _exit(1);
    }
  }

private:
  const bool echo_;
  std::atomic<long> orders_{0};
};

// A port that is free now: QuickFIX has no way to let the system choose one.
int free_port() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address;
  std::memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0
      || getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw std::runtime_error("no free port");
  close(listener);
  return ntohs(address.sin_port);
}

FIX::SessionSettings settings(const peer::Options& options, int port) {
  std::ostringstream text;
  text << "[DEFAULT]\nConnectionType=acceptor\n" << peer::session_hours()
       << "SocketNodelay=Y\nSocketReuseAddress=Y\nSocketAcceptPort=" << port << "\n"
       << "BeginString=FIX.4.2\nSenderCompID=VENUE\n";
  if (options.yes("validate")) {
    if (!std::ifstream(options.text("dictionary")))
      throw std::invalid_argument("--validate yes needs --dictionary FILE");
    text << "UseDataDictionary=Y\nDataDictionary=" << options.text("dictionary") << "\n";
  } else {
    text << "UseDataDictionary=N\n" << peer::unchecked();
  }
  if (!options.is("store", "memory")) text << "FileStorePath=" << options.text("store") << "\n";
  for (long n = 0; n < options.number("sessions"); ++n)
    text << "[SESSION]\nTargetCompID=C" << n << "\n";
  std::istringstream stream(text.str());
  return FIX::SessionSettings(stream);
}

void wait_for_end() {
  while (std::cin.get() != EOF) {}
  _exit(0);  // stopping takes seconds and says nothing more
}

void say_address(int port) {
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
}

// One thread of the engine, in select, or a thread a connection.
void serve(FIX::Acceptor& acceptor, int port) {
  acceptor.start();
  say_address(port);
  wait_for_end();
}

// This thread looks at all sockets again and again, and never waits.
void spin(FIX::Acceptor& acceptor, int port) {
  acceptor.poll();  // the first one opens the port
  say_address(port);
  std::thread(wait_for_end).detach();
  while (acceptor.poll()) {}
  throw std::runtime_error("the acceptor has ended");
}

void run(const peer::Options& options) {
  const bool echo = options.one_of("answer", {"report", "echo"}) == "echo";
  const bool polling = options.one_of("mode", {"default", "polling"}) == "polling";
  const bool few = options.number("sessions") <= SELECT_SESSIONS_MAX;
  if (options.number("sessions") < 1) throw std::invalid_argument("--sessions is 1 or more");
  if (polling && !few)
    throw std::invalid_argument("--mode polling knows up to 180 sessions");
  const int port = free_port();
  const FIX::SessionSettings all = settings(options, port);
  FIX::MemoryStoreFactory memory;
  FIX::FileStoreFactory files(all);
  FIX::MessageStoreFactory& store = options.is("store", "memory")
    ? static_cast<FIX::MessageStoreFactory&>(memory) : files;
  Venue venue(echo);
  std::unique_ptr<FIX::Acceptor> acceptor;
  if (few)
    acceptor.reset(new FIX::SocketAcceptor(venue, store, all));
  else
    acceptor.reset(new FIX::ThreadedSocketAcceptor(venue, store, all));
  if (polling)
    spin(*acceptor, port);
  else
    serve(*acceptor, port);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const peer::Options options(argc, argv, {
      {"sessions", "1"}, {"dictionary", ""}, {"store", "memory"}, {"validate", "yes"},
      {"answer", "report"}, {"mode", "default"}});
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qf_throughput: %s\n", error.what());
    std::fflush(stdout);
  }
  _exit(2);
}
