// A QuickFIX C++ counterparty that is driven by lines on standard input and reports each event as
// one line of JSON on standard output. The protocol is in ../README.md.
//
// One thread owns the engine: it polls, then carries out the commands that have come in. So a cut
// or a change of sequence numbers never races with the session.
#include "settings.hpp"

#include <Application.h>
#include <FileStore.h>
#include <FixFields.h>
#include <FixValues.h>
#include <Log.h>
#include <MessageStore.h>
#include <Session.h>
#include <SocketAcceptor.h>
#include <SocketInitiator.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace {

// The longest wait between two polls while nothing happens. (The timeout that poll() itself takes
// is cut to whole seconds.)
const std::chrono::milliseconds IDLE_MAX(1);

// Lines printed so far; tells whether a poll found something to do.
unsigned long lines_emitted = 0;

// A JSON string; SOH is shown as | and bytes above 7 bits as the Latin-1 character.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  char escape[8];
  for (unsigned char byte : text) {
    if (byte == '\x01')
      out += '|';
    else if (byte == '"' || byte == '\\')
      (out += '\\') += static_cast<char>(byte);
    else if (byte < 0x20 || byte >= 0x7f) {
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(byte));
      out += escape;
    } else
      out += static_cast<char>(byte);
  }
  return out + '"';
}

void emit(const std::string& event, const std::string& rest = "") {
  ++lines_emitted;
  std::string line = "{\"event\":\"" + event + "\"" + rest + "}\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void emit_message(const char* event, const std::string& message) {
  emit(event, ",\"msg\":" + quoted(message));
}

void emit_error(const std::string& command, const std::string& text) {
  emit("error", ",\"command\":" + quoted(command) + ",\"text\":" + quoted(text));
}

// What the session writes and reads, as events; QuickFIX's own remarks go into the log file.
class EventLog : public FIX::Log {
public:
  explicit EventLog(std::ostream* remarks) : remarks_(remarks) {}
  void clear() override {}
  void backup() override {}
  void onIncoming(const std::string& message) override { emit_message("in", message); }
  void onOutgoing(const std::string& message) override { emit_message("out", message); }
  void onEvent(const std::string& text) override {
    if (remarks_) *remarks_ << text << std::endl;
  }

private:
  std::ostream* remarks_;
};

class EventLogFactory : public FIX::LogFactory {
public:
  explicit EventLogFactory(const std::string& file) {
    if (!file.empty()) remarks_.open(file, std::ios::app);
  }
  FIX::Log* create() override { return new EventLog(remarks()); }
  FIX::Log* create(const FIX::SessionID&) override { return new EventLog(remarks()); }
  void destroy(FIX::Log* log) override { delete log; }

private:
  std::ostream* remarks() { return remarks_.is_open() ? &remarks_ : nullptr; }
  std::ofstream remarks_;
};

// Builds the messages of a version (40 ... 44, 50, 51, 52), each valid against its dictionary.
class Desk {
public:
  Desk(int version, char prefix) : version_(version), prefix_(prefix) {}

  FIX::Message order() {
    const long number = ++orders_;
    FIX::Message message;
    message.getHeader().setField(FIX::MsgType("D"));
    message.setField(FIX::ClOrdID(prefix_ + std::to_string(number)));
    message.setField(FIX::HandlInst('1'));
    message.setField(FIX::Symbol(number % 2 ? "EU" : "MSFT"));
    message.setField(FIX::Side(number % 2 ? FIX::Side_BUY : FIX::Side_SELL));
    message.setField(FIX::OrderQty(static_cast<double>(1 + number % 1000)));
    message.setField(FIX::OrdType(FIX::OrdType_LIMIT));
    message.setField(FIX::Price(30.0 + static_cast<double>(number % 100) / 100.0));
    message.setField(FIX::TimeInForce(FIX::TimeInForce_DAY));
    if (version_ >= 42) message.setField(FIX::TransactTime(peer::now(), 3));
    message.setField(FIX::Text("order " + std::to_string(number)));
    return message;
  }

  // ExecutionReport(8), status New, for a NewOrderSingle(D).
  FIX::Message report(const FIX::Message& order) {
    const std::string number = std::to_string(++reports_);
    FIX::Message message;
    message.getHeader().setField(FIX::MsgType("8"));
    message.setField(FIX::OrderID("O" + number));
    // FIX 4.0 has ExecID(17) as a number.
    message.setField(FIX::ExecID(version_ == 40 ? number : "E" + number));
    for (int tag : {FIX::FIELD::ClOrdID, FIX::FIELD::Symbol, FIX::FIELD::Side,
                    FIX::FIELD::OrderQty, FIX::FIELD::Price, FIX::FIELD::OrdType})
      if (order.isSetField(tag)) message.setField(tag, order.getField(tag));
    if (version_ <= 42) message.setField(FIX::ExecTransType('0'));
    message.setField(FIX::OrdStatus(FIX::OrdStatus_NEW));
    message.setField(FIX::CumQty(0.0));
    message.setField(FIX::AvgPx(0.0));
    if (version_ >= 41) {
      message.setField(FIX::ExecType(FIX::ExecType_NEW));
      message.setField(FIX::FIELD::LeavesQty, order.getField(FIX::FIELD::OrderQty));
    }
    if (version_ <= 41) {
      message.setField(FIX::LastShares(0.0));
      message.setField(FIX::LastPx(0.0));
    }
    message.setField(FIX::TransactTime(peer::now(), 3));
    return message;
  }

private:
  int version_;
  char prefix_;
  long orders_ = 0;
  long reports_ = 0;
};

class PeerApplication : public FIX::Application {
public:
  PeerApplication(Desk& desk, bool answer) : desk_(desk), answer_(answer) {}

  void onCreate(const FIX::SessionID&) override {}
  void onLogon(const FIX::SessionID& id) override {
    // A reset at logon was asked for once; the next logon continues the numbers.
    FIX::Session::lookupSession(id)->setResetOnLogon(false);
    emit("logon");
  }
  void onLogout(const FIX::SessionID&) override { emit("logout"); }
  void toAdmin(FIX::Message&, const FIX::SessionID&) override {}
  void toApp(FIX::Message& message, const FIX::SessionID&) noexcept override {
    // A resend passes here too; only the first time counts as sent.
    if (!message.getHeader().isSetField(FIX::FIELD::PossDupFlag))
      emit_message("sent", message.toString());
  }
  void fromAdmin(const FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromApp(const FIX::Message& message, const FIX::SessionID& id) noexcept override {
    emit_message("app", message.toString());
    try {
      if (!answer_ || message.getHeader().getField(FIX::FIELD::MsgType) != "D") return;
      FIX::Message report = desk_.report(message);
      FIX::Session::sendToTarget(report, id);
    } catch (const std::exception& error) {
      emit_error("answer", error.what());
    }
  }

  void set_answer(bool answer) { answer_ = answer; }

private:
  Desk& desk_;
  bool answer_;
};

// The commands of standard input, read by a thread of their own.
class Commands {
public:
  void read_all() {
    std::string line;
    while (std::getline(std::cin, line)) put(line);
    put("quit");
  }
  // The next command, waiting for one at most `wait`.
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

class Driver {
public:
  Driver(FIX::Session& session, PeerApplication& application, Desk& desk)
    : session_(session), application_(application), desk_(desk) {}

  // Carries out one line; returns false to end.
  bool obey(const std::string& line) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb.empty()) return true;
    if (verb == "quit") return false;
    try {
      if (!carry_out(verb, words)) throw std::invalid_argument("unknown command");
      emit("done", ",\"command\":" + quoted(line));
    } catch (const std::exception& error) {
      emit_error(line, error.what());
    }
    return true;
  }

private:
  bool carry_out(const std::string& verb, std::istream& words) {
    if (verb == "send")
      send_orders(number(words));
    else if (verb == "logout")
      session_.logout();
    else if (verb == "logon")
      session_.logon();
    else if (verb == "cut")
      session_.disconnect();
    else if (verb == "resend")
      request_resend(words);
    else if (verb == "test-request")
      test_request(words);
    else if (verb == "sequence-reset")
      sequence_reset(number(words));
    else if (verb == "reset")
      reset_at_logon();
    else if (verb == "next-out")
      session_.setNextSenderMsgSeqNum(number(words));
    else if (verb == "next-in")
      session_.setNextTargetMsgSeqNum(number(words));
    else if (verb == "state")
      state();
    else if (verb == "answer")
      answer(words);
    else
      return false;
    return true;
  }

  static int number(std::istream& words) {
    int value = 0;
    if (!(words >> value) || value < 0) throw std::invalid_argument("a number is missing");
    return value;
  }

  void send(FIX::Message& message) {
    if (!FIX::Session::sendToTarget(message, session_.getSessionID()) && !session_.isLoggedOn())
      return;  // stored; it goes out when the counterparty asks for it
  }

  void send_orders(int count) {
    for (int i = 0; i < count; ++i) {
      FIX::Message order = desk_.order();
      send(order);
    }
  }

  FIX::Message admin(const char* type) {
    FIX::Message message;
    message.getHeader().setField(FIX::MsgType(type));
    return message;
  }

  void request_resend(std::istream& words) {
    FIX::Message message = admin("2");
    message.setField(FIX::BeginSeqNo(number(words)));
    message.setField(FIX::EndSeqNo(number(words)));
    send(message);
  }

  void test_request(std::istream& words) {
    std::string id;
    if (!(words >> id)) throw std::invalid_argument("an id is missing");
    FIX::Message message = admin("1");
    message.setField(FIX::TestReqID(id));
    send(message);
  }

  // SequenceReset(4) in reset mode: GapFillFlag(123)=N, NewSeqNo(36).
  void sequence_reset(int next) {
    FIX::Message message = admin("4");
    message.setField(FIX::GapFillFlag(false));
    message.setField(FIX::NewSeqNo(next));
    send(message);
    session_.setNextSenderMsgSeqNum(next);
  }

  // Cuts, and asks for ResetSeqNumFlag(141)=Y in the next Logon(A).
  void reset_at_logon() {
    if (!session_.isInitiator()) throw std::invalid_argument("only the initiator resets at logon");
    session_.setResetOnLogon(true);
    session_.disconnect();
  }

  void state() {
    emit("state", ",\"next_out\":" + std::to_string(session_.getExpectedSenderNum())
      + ",\"next_in\":" + std::to_string(session_.getExpectedTargetNum())
      + ",\"logged_on\":" + (session_.isLoggedOn() ? "true" : "false"));
  }

  void answer(std::istream& words) {
    std::string value;
    words >> value;
    if (value != "yes" && value != "no") throw std::invalid_argument("answer is yes or no");
    application_.set_answer(value == "yes");
  }

  FIX::Session& session_;
  PeerApplication& application_;
  Desk& desk_;
};

template <class Engine>
void run(Engine& engine, PeerApplication& application, Desk& desk, const std::string& ready) {
  // The first poll listens, or connects for the first time.
  engine.poll();
  FIX::Session& session = *engine.getSession(*engine.getSessions().begin());
  Driver driver(session, application, desk);
  Commands commands;
  std::thread reader([&commands] { commands.read_all(); });
  reader.detach();
  emit("ready", ready);
  std::fflush(stdout);
  for (bool more = true; more;) {
    const unsigned long before = lines_emitted;
    engine.poll();
    std::chrono::milliseconds wait = lines_emitted == before ? IDLE_MAX : IDLE_MAX * 0;
    std::fflush(stdout);
    for (std::string line; more && commands.take(line, wait); wait = IDLE_MAX * 0)
      more = driver.obey(line);
    std::fflush(stdout);
  }
  session.disconnect();
  std::fflush(stdout);
  // The reader still waits for a line; what the store holds is already in its files.
  _exit(0);
}

int run_peer(const peer::Options& options) {
  const std::string& path = options.text("settings");
  const FIX::SessionSettings settings =
    path.empty() ? peer::make_settings(options) : FIX::SessionSettings(path);
  const bool from_file = !path.empty();
  FIX::Dictionary file;
  if (from_file) file = peer::only_session(settings);
  const auto of = [&](const char* key, const char* option) {
    return from_file && file.has(key) ? file.getString(key) : options.text(option);
  };
  const std::string role = of("ConnectionType", "role");
  const bool acceptor = role == "acceptor";
  const std::string answer = options.text("answer");
  Desk desk(peer::version_of(of("BeginString", "begin-string"),
                             of("DefaultApplVerID", "appl-ver")),
            acceptor ? 'A' : 'I');
  PeerApplication application(desk, answer.empty() ? acceptor : options.yes("answer"));
  EventLogFactory log(options.text("log"));
  FIX::MemoryStoreFactory memory;
  FIX::FileStoreFactory files(settings);
  const bool in_files = from_file ? file.has("FileStorePath") : !options.is("store", "memory");
  FIX::MessageStoreFactory& store = in_files
    ? static_cast<FIX::MessageStoreFactory&>(files) : memory;
  const std::string port = of(acceptor ? "SocketAcceptPort" : "SocketConnectPort", "port");
  const std::string ready = ",\"role\":" + quoted(role) + ",\"port\":" + port;
  if (acceptor) {
    FIX::SocketAcceptor engine(application, store, settings, log);
    run(engine, application, desk, ready);
  } else {
    FIX::SocketInitiator engine(application, store, settings, log);
    run(engine, application, desk, ready);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_peer(peer::Options(argc, argv, {
      {"role", "acceptor"}, {"host", "127.0.0.1"}, {"port", ""}, {"begin-string", "FIX.4.4"},
      {"appl-ver", "9"}, {"sender", "VENUE"}, {"target", "CLIENT"}, {"dictionary", ""},
      {"store", "memory"}, {"validate", "yes"}, {"log", ""}, {"answer", ""},
      {"heartbeat", "30"}, {"settings", ""}}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qf_peer: %s\n", error.what());
    return 2;
  }
}
