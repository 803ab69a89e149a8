// The codec of QuickFIX C++: carries out `OPERATION SET N` lines from standard input, and answers
// each by the nanoseconds that it took. Messages and dictionaries lie in the folder named first.
#include <DataDictionary.h>
#include <Message.h>
#include <fix44/NewOrderSingle.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "hftest.hpp"

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

namespace {

// Keeps the compiler from dropping what nobody reads.
template <class T>
void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// An order's values as an application has them.
struct Order {
  int seq = 0;
  std::string sender_sub, account, cl_ord_id, symbol, text, description, type;
  double quantity = 0, price = 0;
  bool has_price = false, has_text = false;
  char side = 0, order_type = 0, in_force = 0;

  explicit Order(const FIX::Message& message) {
    const FIX::Header& header = message.getHeader();
    seq = std::stoi(header.getField(FIX::FIELD::MsgSeqNum));
    sender_sub = header.getField(FIX::FIELD::SenderSubID);
    account = message.getField(FIX::FIELD::Account);
    cl_ord_id = message.getField(FIX::FIELD::ClOrdID);
    symbol = message.getField(FIX::FIELD::Symbol);
    description = message.getField(FIX::FIELD::SecurityDesc);
    type = message.getField(FIX::FIELD::SecurityType);
    quantity = std::stod(message.getField(FIX::FIELD::OrderQty));
    has_price = message.isSetField(FIX::FIELD::Price);
    if (has_price) price = std::stod(message.getField(FIX::FIELD::Price));
    has_text = message.isSetField(FIX::FIELD::Text);
    if (has_text) text = message.getField(FIX::FIELD::Text);
    side = message.getField(FIX::FIELD::Side)[0];
    order_type = message.getField(FIX::FIELD::OrdType)[0];
    in_force = message.getField(FIX::FIELD::TimeInForce)[0];
  }
};

struct Set {
  std::vector<std::string> frames;
  std::vector<Order> orders;
};

FIX44::NewOrderSingle built(const Order& order, const FIX::UtcTimeStamp& now) {
  FIX44::NewOrderSingle message;
  FIX::Header& header = message.getHeader();
  header.setField(FIX::MsgSeqNum(order.seq));
  header.setField(FIX::SenderCompID("A12345B"));
  header.setField(FIX::SenderSubID(order.sender_sub));
  header.setField(FIX::SendingTime(now, 3));
  header.setField(FIX::TargetCompID("COMPARO"));
  header.setField(FIX::TargetSubID("G"));
  header.setField(FIX::SenderLocationID("AU,SY"));
  message.set(FIX::TransactTime(now, 3));
  message.set(FIX::Account(order.account));
  message.set(FIX::OrderQty(order.quantity));
  if (order.has_price) message.set(FIX::Price(order.price));
  message.set(FIX::ClOrdID(order.cl_ord_id));
  message.set(FIX::HandlInst('1'));
  message.set(FIX::OrdType(order.order_type));
  message.set(FIX::Side(order.side));
  message.set(FIX::Symbol(order.symbol));
  if (order.has_text) message.set(FIX::Text(order.text));
  message.set(FIX::TimeInForce(order.in_force));
  message.set(FIX::SecurityDesc(order.description));
  message.set(FIX::SecurityType(order.type));
  return message;
}

// All fields of the body, read with their types; the number of those that are there.
int read(const FIX44::NewOrderSingle& message) {
  int there = 0;
  const auto get = [&](auto field) {
    if (!message.isSet(field)) return;
    message.get(field);
    keep(field.getValue());
    ++there;
  };
  get(FIX::TransactTime());
  get(FIX::Account());
  get(FIX::OrderQty());
  get(FIX::Price());
  get(FIX::ClOrdID());
  get(FIX::HandlInst());
  get(FIX::OrdType());
  get(FIX::Side());
  get(FIX::Symbol());
  get(FIX::Text());
  get(FIX::TimeInForce());
  get(FIX::SecurityDesc());
  get(FIX::SecurityType());
  return there;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

class Codec {
public:
  explicit Codec(const std::string& folder)
    : fix42_(folder + "/FIX42.xml"), fix44_(folder + "/FIX44.xml"),
      s4b_(lines_of(folder + "/s4b").at(0), fix42_, true) {
    fix42_.validate(s4b_);
    if (!refuses(fix44_)) throw std::runtime_error("FIX44 takes Rule80A(47)");
    load(fixed_, folder + "/fixed");
    load(varied_, folder + "/varied");
    load_hftest(folder + "/hftest");
  }

  long run(const std::string& operation, const std::string& set_name, long n) {
    if (set_name == "hftest") return run_hftest(operation, n);
    const Set& set = set_name == "fixed" ? fixed_ : varied_;
    if (operation == "decode")
      return timed(n, [&](long i) { keep(decode(set, i)); });
    if (operation == "decode-read")
      return timed(n, [&](long i) { keep(read(decode(set, i))); });
    if (operation == "decode-validate")
      return timed(n, [&](long i) { fix44_.validate(decode(set, i)); });
    if (operation == "build-encode")
      return timed(n, [&](long i) {
        out_.clear();
        keep(built(order(set, i), moment(i)).toString(out_));
      });
    if (operation == "encode") return encode(set, n);
    if (operation == "validate-fix42")
      return timed(n, [&](long) { fix42_.validate(s4b_); });
    if (operation == "validate-fix44")
      return timed(n, [&](long) { keep(refuses(fix44_)); });
    throw std::runtime_error("unknown operation " + operation);
  }

private:
  // The messages of S2b, FIX 4.2, of both types in turn.
  long run_hftest(const std::string& operation, long n) {
    const auto frame = [&](long i) -> const std::string& { return hftest_[i % hftest_.size()]; };
    if (operation == "decode")
      return timed(n, [&](long i) { keep(decode42(frame(i))); });
    if (operation == "decode-validate")
      return timed(n, [&](long i) { fix42_.validate(decode42(frame(i))); });
    if (operation == "build-encode")
      return timed(n, [&](long i) {
        out_.clear();
        values_[i % values_.size()].encode(moment(i), out_);
        keep(out_);
      });
    throw std::runtime_error("unknown operation " + operation);
  }

  template <class Work>
  static long timed(long n, Work work) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < n; ++i) work(i);
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  }

  // Only the turning into bytes is timed; a message keeps what it has encoded, so each is built
  // anew, in batches that stay in the cache.
  long encode(const Set& set, long n) {
    constexpr long batch = 16;
    long ns = 0;
    for (long done = 0; done < n; done += batch) {
      std::vector<FIX44::NewOrderSingle> messages;
      messages.reserve(batch);
      for (long i = 0; i < batch; ++i)
        messages.push_back(built(order(set, done + i), moment(done + i)));
      const long count = std::min(batch, n - done);
      ns += timed(count, [&](long i) {
        out_.clear();
        keep(messages[i].toString(out_));
      });
    }
    return ns;
  }

  FIX44::NewOrderSingle decode(const Set& set, long i) const {
    FIX44::NewOrderSingle message;
    message.setString(set.frames[i % set.frames.size()], true, &fix44_, &fix44_);
    return message;
  }

  // As its session does, which does not know the type beforehand.
  FIX::Message decode42(const std::string& frame) const {
    FIX::Message message;
    message.setString(frame, true, &fix42_, &fix42_);
    return message;
  }

  static const Order& order(const Set& set, long i) { return set.orders[i % set.orders.size()]; }

  // The time steps on, so that digits change.
  static FIX::UtcTimeStamp moment(long i) {
    return FIX::UtcTimeStamp(time_t(1795262400 + i / 1000), int(i % 1000), 3);
  }

  // Judges the body alone: the message says FIX.4.2, which would be refused at once.
  bool refuses(const FIX::DataDictionary& dictionary) const {
    try {
      dictionary.validate(s4b_, true);
      return false;
    } catch (const std::exception&) {
      return true;
    }
  }

  void load(Set& set, const std::string& path) {
    set.frames = lines_of(path);
    for (std::size_t i = 0; i < set.frames.size(); ++i) {
      const FIX44::NewOrderSingle message = decode(set, long(i));
      fix44_.validate(message);
      set.orders.emplace_back(message);
      const Order& order = set.orders.back();
      const int there = read(message), expected = 11 + order.has_price + order.has_text;
      // Only the times differ, which are equally long.
      const std::string again = built(order, moment(long(i))).toString();
      if (there != expected || again.size() != set.frames[i].size())
        throw std::runtime_error("differs: " + set.frames[i] + "\n" + again);
    }
  }

  void load_hftest(const std::string& path) {
    hftest_ = lines_of(path);
    for (std::size_t i = 0; i < hftest_.size(); ++i) {
      const FIX::Message message = decode42(hftest_[i]);
      fix42_.validate(message);
      values_.emplace_back(message);
      // The first message is of the millisecond 123.
      std::string again;
      values_.back().encode(moment(long(i) + 123), again);
      for (const std::string& text : {again, message.toString()})
        if (sorted_fields(text) != sorted_fields(hftest_[i]))
          throw std::runtime_error("differs: " + hftest_[i] + "\n" + text);
    }
  }

  FIX::DataDictionary fix42_, fix44_;
  FIX::Message s4b_;
  Set fixed_, varied_;
  std::vector<std::string> hftest_;
  std::vector<HftestValues> values_;
  std::string out_;
};

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: qf_codec FOLDER");
    Codec codec(argv[1]);
    std::cout << "ready quickfix-cpp-" PEER_VERSION " decode decode-read decode-validate "
              << "build-encode encode validate-fix42 validate-fix44" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string operation, set;
      long n = 0;
      words >> operation >> set >> n;
      std::cout << codec.run(operation, set, n) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cerr << "qf_codec: " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}
