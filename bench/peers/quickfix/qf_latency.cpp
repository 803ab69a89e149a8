// The round trip of NewOrderSingle(D) -> ExecutionReport(8), FIX 4.2, on QuickFIX C++: paced, open
// loop. t1 is taken before the order's fields are set, t2 at the entry of the callback that gets
// the parsed report. The options and the output are in ../README.md.
#include "execution_report.hpp"
#include "settings.hpp"

#include <Application.h>
#include <FileStore.h>
#include <MessageStore.h>
#include <Session.h>
#include <SocketAcceptor.h>
#include <SocketInitiator.h>
#include <ThreadedSocketAcceptor.h>
#include <ThreadedSocketInitiator.h>
#include <fix42/NewOrderSingle.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <sched.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

// How long the initiator waits for a logon and, at the end, for reports that are still missing.
const std::int64_t WAIT_NS_MAX = 10000000000;

std::int64_t clock_ns(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}
std::int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }
std::int64_t cpu_ns() { return clock_ns(CLOCK_PROCESS_CPUTIME_ID); }

void pin(long cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<int>(cpu), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0)
    throw std::runtime_error("cannot pin to cpu " + std::to_string(cpu));
}

// The callbacks that neither side needs.
class QuietApplication : public FIX::Application {
public:
  void onCreate(const FIX::SessionID&) override {}
  void onLogon(const FIX::SessionID&) override { logged_on = true; }
  void onLogout(const FIX::SessionID&) override {
    if (logged_on) logged_out = true;
  }
  void toAdmin(FIX::Message&, const FIX::SessionID&) override {}
  void toApp(FIX::Message&, const FIX::SessionID&) noexcept override {}
  void fromAdmin(const FIX::Message&, const FIX::SessionID&) noexcept override {}

  std::atomic<bool> logged_on{false};
  std::atomic<bool> logged_out{false};
};

// Reads each order and reports it, either as short as the published page has it or valid.
class Venue : public QuietApplication {
public:
  explicit Venue(bool valid) : valid_(valid) {}

  void onLogon(const FIX::SessionID& id) override {
    cpu_begin_ns_ = cpu_ns();
    QuietApplication::onLogon(id);
  }
  void fromApp(const FIX::Message& message, const FIX::SessionID& id) noexcept override {
    try {
      peer::report(static_cast<const FIX42::NewOrderSingle&>(message), id, ++orders_, valid_);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "qf_latency: %s\n", error.what());
      _exit(1);
    }
  }
  void print() const {
    std::printf("{\"engine\":\"quickfix-cpp\",\"role\":\"acceptor\",\"n\":%ld,"
                "\"cpu_ns_per_message\":%.0f}\n",
                orders_, orders_ ? static_cast<double>(cpu_ns() - cpu_begin_ns_) / orders_ : 0.0);
  }

private:
  bool valid_;
  long orders_ = 0;
  std::int64_t cpu_begin_ns_ = 0;
};

// Takes t2 of each report.
class Client : public QuietApplication {
public:
  explicit Client(std::size_t count) : t1_ns(count), t2_ns(count) {}

  void fromApp(const FIX::Message& message, const FIX::SessionID&) noexcept override {
    const std::int64_t t2 = now_ns();
    try {
      const std::size_t index = std::stoul(message.getField(FIX::FIELD::ClOrdID));
      if (index < t2_ns.size()) t2_ns[index] = t2;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "qf_latency: %s\n", error.what());
      _exit(1);
    }
    received.fetch_add(1, std::memory_order_release);
  }

  std::vector<std::int64_t> t1_ns;
  std::vector<std::int64_t> t2_ns;
  std::atomic<std::size_t> received{0};
};

// Sends `count` orders at `rate` a second. `wait` is what passes the time until the next one is
// due: nothing when the engine has its own thread, a poll of the engine when it has not.
class Pacer {
public:
  Pacer(Client& client, const FIX::SessionID& id, std::function<void()> wait)
    : client_(client), id_(id), wait_(std::move(wait)) {}

  void run(std::size_t count, std::int64_t rate) {
    const std::int64_t start = now_ns();
    for (std::size_t i = 0; i < count; ++i) {
      await(start + static_cast<std::int64_t>(i + 1) * 1000000000 / rate);
      send(i);
    }
  }

private:
  void await(std::int64_t due_ns) {
    for (std::int64_t left = due_ns - now_ns(); left > 0; left = due_ns - now_ns()) {
      if (left > 25000000)
        usleep(static_cast<useconds_t>(left * 9 / 10 / 1000));
      else
        wait_();
    }
  }

  void send(std::size_t i) {
    client_.t1_ns[i] = now_ns();
    order_.set(FIX::ClOrdID(std::to_string(i)));
    order_.set(FIX::HandlInst('1'));
    order_.set(FIX::Symbol("EU"));
    order_.set(FIX::Side(FIX::Side_BUY));
    order_.set(FIX::TransactTime(peer::now(), 3));
    order_.set(FIX::OrdType(FIX::OrdType_LIMIT));
    order_.set(FIX::OrderQty(static_cast<double>(1 + i % 10)));
    order_.set(FIX::TimeInForce(FIX::TimeInForce_DAY));
    order_.set(FIX::Price(30));
    FIX::Session::sendToTarget(order_, id_);
  }

  Client& client_;
  FIX::SessionID id_;
  std::function<void()> wait_;
  FIX42::NewOrderSingle order_;
};

// The value below which the share `per_mille` of the sorted values lies (nearest rank).
std::int64_t rank(const std::vector<std::int64_t>& sorted, std::size_t per_mille) {
  const std::size_t n = sorted.size();
  const std::size_t at = (n * per_mille + 999) / 1000;
  return sorted[at == 0 ? 0 : std::min(at, n) - 1];
}

void write_csv(const std::string& file, const std::vector<std::int64_t>& values) {
  std::ofstream out(file);
  out << "latency_ns\n";
  for (std::int64_t value : values) out << value << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

void print_result(const peer::Options& options, std::vector<std::int64_t> values, double cpu) {
  std::sort(values.begin(), values.end());
  double sum = 0;
  for (std::int64_t value : values) sum += static_cast<double>(value);
  const auto ns = [](std::int64_t value) { return static_cast<long long>(value); };
  std::printf("{\"engine\":\"quickfix-cpp\",\"role\":\"initiator\",\"mode\":\"%s\","
              "\"store\":\"%s\",\"validation\":%s,\"rate\":%ld,\"n\":%zu,\"min_ns\":%lld,"
              "\"p50_ns\":%lld,\"p95_ns\":%lld,\"p99_ns\":%lld,\"p999_ns\":%lld,\"max_ns\":%lld,"
              "\"mean_ns\":%.0f,\"cpu_ns_per_message\":%.0f}\n",
              options.text("mode").c_str(), options.is("store", "memory") ? "memory" : "file",
              options.yes("validate") ? "true" : "false", options.number("rate"), values.size(),
              ns(values.front()), ns(rank(values, 500)), ns(rank(values, 950)),
              ns(rank(values, 990)), ns(rank(values, 999)), ns(values.back()),
              sum / static_cast<double>(values.size()), cpu);
}

// Runs `wait` until `done`; without an engine thread `wait` is what makes progress.
template <class Done>
bool wait_until(const std::function<void()>& wait, Done done) {
  const std::int64_t deadline = now_ns() + WAIT_NS_MAX;
  while (!done()) {
    if (now_ns() > deadline) return false;
    wait();
  }
  return true;
}

void measure(const peer::Options& options, Client& client, const FIX::SessionID& id,
             const std::function<void()>& wait) {
  const std::size_t warmup = static_cast<std::size_t>(options.number("warmup"));
  const std::size_t count = client.t1_ns.size();
  const auto idle = [&wait] {
    wait();
    usleep(1000);
  };
  if (!wait_until(idle, [&] { return client.logged_on.load(); }))
    throw std::runtime_error("no logon");
  const std::int64_t cpu_begin = cpu_ns();
  Pacer(client, id, wait).run(count, options.number("rate"));
  if (!wait_until(wait, [&] { return client.received.load() >= count; }))
    throw std::runtime_error("only " + std::to_string(client.received.load()) + " reports");
  const double cpu = static_cast<double>(cpu_ns() - cpu_begin) / static_cast<double>(count);
  FIX::Session::lookupSession(id)->logout();
  wait_until(idle, [&] { return client.logged_out.load(); });
  std::vector<std::int64_t> values;
  for (std::size_t i = warmup; i < count; ++i) values.push_back(client.t2_ns[i] - client.t1_ns[i]);
  if (!options.text("csv").empty()) write_csv(options.text("csv"), values);
  print_result(options, values, cpu);
}

// Starts the engine in the mode asked for and runs `body` with the function that passes time.
template <class Default, class Threaded, class Body>
void with_engine(const peer::Options& options, FIX::Application& application,
                 FIX::MessageStoreFactory& store, const FIX::SessionSettings& settings,
                 Body body) {
  const std::string mode = options.text("mode");
  if (mode == "threaded") {
    Threaded engine(application, store, settings);
    engine.start();
    body([] {});
    std::fflush(stdout);
    _exit(0);  // stopping takes seconds and says nothing more
  }
  if (mode != "default" && mode != "polling") throw std::invalid_argument("no mode " + mode);
  Default engine(application, store, settings);
  if (mode == "default")
    engine.start();
  else
    engine.poll();
  body(mode == "default" ? std::function<void()>([] {})
                         : std::function<void()>([&engine] { engine.poll(); }));
  std::fflush(stdout);
  _exit(0);
}

void run_client(const peer::Options& options, FIX::MessageStoreFactory& store,
                const FIX::SessionSettings& settings) {
  Client client(static_cast<std::size_t>(options.number("count") + options.number("warmup")));
  const FIX::SessionID id(options.text("begin-string"), options.text("sender"),
                          options.text("target"));
  with_engine<FIX::SocketInitiator, FIX::ThreadedSocketInitiator>(
    options, client, store, settings,
    [&](const std::function<void()>& wait) { measure(options, client, id, wait); });
}

void run_venue(const peer::Options& options, FIX::MessageStoreFactory& store,
               const FIX::SessionSettings& settings) {
  if (!options.is("report", "valid") && !options.is("report", "short"))
    throw std::invalid_argument("--report is valid or short");
  Venue venue(options.is("report", "valid"));
  with_engine<FIX::SocketAcceptor, FIX::ThreadedSocketAcceptor>(
    options, venue, store, settings, [&](const std::function<void()>& wait) {
      std::printf("{\"event\":\"ready\"}\n");
      std::fflush(stdout);
      const bool polling = options.is("mode", "polling");
      while (!venue.logged_out) {
        wait();
        if (!polling) usleep(20000);
      }
      venue.print();
    });
}

int run(const peer::Options& options) {
  if (!options.text("cpu").empty()) pin(options.number("cpu"));
  const FIX::SessionSettings settings = peer::make_settings(options);
  FIX::MemoryStoreFactory memory;
  FIX::FileStoreFactory files(settings);
  FIX::MessageStoreFactory& store = options.is("store", "memory")
    ? static_cast<FIX::MessageStoreFactory&>(memory) : files;
  if (options.is("role", "initiator"))
    run_client(options, store, settings);
  else
    run_venue(options, store, settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    // The CompIDs of the initiator; the acceptor is started with the two exchanged.
    return run(peer::Options(argc, argv, {
      {"role", "acceptor"}, {"host", "127.0.0.1"}, {"port", ""}, {"begin-string", "FIX.4.2"},
      {"appl-ver", "9"}, {"sender", "INCA"}, {"target", "TW"}, {"dictionary", ""},
      {"store", "memory"}, {"validate", "no"}, {"heartbeat", "30"}, {"mode", "default"},
      {"rate", "1000"}, {"count", "10000"}, {"warmup", "0"}, {"cpu", ""}, {"csv", ""},
      {"report", "valid"}}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "qf_latency: %s\n", error.what());
    std::fflush(stdout);
    _exit(2);
  }
}
