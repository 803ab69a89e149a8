// QuickFIX C++ as the session under test of the scenarios: driven by lines on standard input, it
// reports what its application gets as lines on standard output. The counterparty is the player.
//
//   qf_scenario SETTINGS-FILE
//
// | line in | does |
// |---|---|
// | send 35=D\|11=a | sends an application message |
// | logout TEXT, logon, disconnect, next-in N, next-out N | as they say |
// | reset | drops the connection and all messages; `logon` begins at 1 |
// | numbers | prints `numbers IN OUT` |
//
// Each line is answered by `done`, or `refused WHY`; `app MESSAGE` comes when it comes.
#include <Application.h>
#include <FixFields.h>
#include <Log.h>
#include <MessageStore.h>
#include <Session.h>
#include <SessionSettings.h>
#include <SocketAcceptor.h>
#include <SocketInitiator.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unistd.h>

namespace {

void say(std::string line) {
  for (char& byte : line)
    if (byte == '\x01') byte = '|';
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

class Recorder : public FIX::Application {
public:
  void onCreate(const FIX::SessionID&) override {}
  void onLogon(const FIX::SessionID&) override {}
  void onLogout(const FIX::SessionID&) override {}
  void toAdmin(FIX::Message&, const FIX::SessionID&) override {}
  void toApp(FIX::Message&, const FIX::SessionID&) throw(FIX::DoNotSend) override {}
  void fromAdmin(const FIX::Message&, const FIX::SessionID&)
    throw(FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue,
          FIX::RejectLogon) override {}
  void fromApp(const FIX::Message& message, const FIX::SessionID&)
    throw(FIX::FieldNotFound, FIX::IncorrectDataFormat, FIX::IncorrectTagValue,
          FIX::UnsupportedMessageType) override {
    const std::string type = message.getHeader().getField(FIX::FIELD::MsgType);
    if (type != "D" && type != "8" && type != "B") throw FIX::UnsupportedMessageType();
    say("app " + message.toString());
  }
};

// The player reads the wire itself.
class NoLogFactory : public FIX::LogFactory {
public:
  FIX::Log* create() override { return new FIX::NullLog; }
  FIX::Log* create(const FIX::SessionID&) override { return new FIX::NullLog; }
  void destroy(FIX::Log* log) override { delete log; }
};

void send(FIX::Session& session, const std::string& text) {
  FIX::Message message;
  std::istringstream fields(text);
  for (std::string field; std::getline(fields, field, '|');) {
    const std::size_t equals = field.find('=');
    const int tag = std::stoi(field.substr(0, equals));
    const bool header = tag == 35 || tag == 50 || tag == 57 || tag == 97 || tag == 115;
    FIX::FieldMap& part = header ? static_cast<FIX::FieldMap&>(message.getHeader()) : message;
    part.setField(tag, field.substr(equals + 1));
  }
  if (!session.isLoggedOn()) throw std::runtime_error("not logged on");
  session.send(message);
}

void obey(FIX::Session& session, const std::string& line) {
  std::istringstream words(line);
  std::string verb, rest;
  words >> verb;
  std::getline(words >> std::ws, rest);
  if (verb == "send")
    send(session, rest);
  else if (verb == "logout")
    session.logout(rest);
  else if (verb == "disconnect")
    session.disconnect();
  else if (verb == "logon")
    session.logon();
  else if (verb == "reset") {
    // As new: without a connection, without messages, and not to be connected before `logon`.
    session.logout();
    session.disconnect();
    session.reset();
  } else if (verb == "next-in")
    session.setNextTargetMsgSeqNum(std::stoi(rest));
  else if (verb == "next-out")
    session.setNextSenderMsgSeqNum(std::stoi(rest));
  else if (verb == "numbers")
    say("numbers " + std::to_string(session.getExpectedTargetNum()) + " "
        + std::to_string(session.getExpectedSenderNum()));
  else
    throw std::invalid_argument("unknown line " + line);
}

// Lines of standard input, read by a thread of their own.
class Lines {
public:
  void read_all() {
    for (std::string line; std::getline(std::cin, line);) put(line);
    _exit(0);
  }
  bool take(std::string& line, std::chrono::milliseconds wait) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!came_.wait_for(lock, wait, [this] { return !lines_.empty(); })) return false;
    line = lines_.front();
    lines_.pop_front();
    return true;
  }

private:
  void put(const std::string& line) {
    std::lock_guard<std::mutex> lock(mutex_);
    lines_.push_back(line);
    came_.notify_one();
  }
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::string> lines_;
};

// One thread polls and obeys, so that no line races with the session.
template <class Engine>
void run(Engine& engine) {
  engine.poll();
  FIX::Session& session = *engine.getSession(*engine.getSessions().begin());
  Lines lines;
  std::thread reader([&lines] { lines.read_all(); });
  reader.detach();
  say("done");
  for (std::string line;;) {
    // The polls let it see all that the player has sent before this line.
    for (int i = 0; i < 3; ++i) engine.poll();
    if (!lines.take(line, std::chrono::milliseconds(1))) continue;
    for (int i = 0; i < 3; ++i) engine.poll();
    try {
      obey(session, line);
      for (int i = 0; i < 3; ++i) engine.poll();
      say("done");
    } catch (const std::exception& error) {
      say(std::string("refused ") + error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::invalid_argument("usage: qf_scenario SETTINGS-FILE");
    std::ifstream file(argv[1]);
    FIX::SessionSettings settings(file);
    Recorder application;
    NoLogFactory log;
    FIX::MemoryStoreFactory store;
    if (settings.get().getString("ConnectionType") == "acceptor") {
      FIX::SocketAcceptor engine(application, store, settings, log);
      run(engine);
    } else {
      FIX::SocketInitiator engine(application, store, settings, log);
      run(engine);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qf_scenario: %s\n", error.what());
    return 2;
  }
}
