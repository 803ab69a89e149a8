// QuickFIX C++ as the side under test of the scenario "throughput": an acceptor with N sessions that
// validates each order and answers it with an ExecutionReport(8). It prints its address, and serves
// until its standard input ends.
//
//   qf_throughput --sessions N --dictionary FIX42.xml --store memory|FOLDER
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
#include <unistd.h>

namespace {

// With more sessions, files and sockets would pass the 1,024 descriptors that select(2) knows.
const long SELECT_SESSIONS_MAX = 180;

class Venue : public FIX::Application {
public:
  void onCreate(const FIX::SessionID&) override {}
  void onLogon(const FIX::SessionID&) override {}
  void onLogout(const FIX::SessionID&) override {}
  void toAdmin(FIX::Message&, const FIX::SessionID&) override {}
  void toApp(FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromAdmin(const FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromApp(const FIX::Message& message, const FIX::SessionID& id) noexcept override {
    try {
      peer::report(static_cast<const FIX42::NewOrderSingle&>(message), id, ++orders_, true);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "qf_throughput: %s\n", error.what());
      _exit(1);
    }
  }

private:
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
       << "UseDataDictionary=Y\nDataDictionary=" << options.text("dictionary") << "\n"
       << "BeginString=FIX.4.2\nSenderCompID=VENUE\n";
  if (!options.is("store", "memory")) text << "FileStorePath=" << options.text("store") << "\n";
  for (long n = 0; n < options.number("sessions"); ++n)
    text << "[SESSION]\nTargetCompID=C" << n << "\n";
  std::istringstream stream(text.str());
  return FIX::SessionSettings(stream);
}

template <class Acceptor>
void serve(FIX::MessageStoreFactory& store, const FIX::SessionSettings& settings, int port) {
  Venue venue;
  Acceptor acceptor(venue, store, settings);
  acceptor.start();
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
  while (std::cin.get() != EOF) {}
  _exit(0);  // stopping takes seconds and says nothing more
}

int run(const peer::Options& options) {
  const int port = free_port();
  const FIX::SessionSettings all = settings(options, port);
  FIX::MemoryStoreFactory memory;
  FIX::FileStoreFactory files(all);
  FIX::MessageStoreFactory& store = options.is("store", "memory")
    ? static_cast<FIX::MessageStoreFactory&>(memory) : files;
  if (options.number("sessions") <= SELECT_SESSIONS_MAX)
    serve<FIX::SocketAcceptor>(store, all, port);
  else
    serve<FIX::ThreadedSocketAcceptor>(store, all, port);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(peer::Options(argc, argv,
                             {{"sessions", "1"}, {"dictionary", ""}, {"store", "memory"}}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qf_throughput: %s\n", error.what());
    std::fflush(stdout);
    _exit(2);
  }
}
