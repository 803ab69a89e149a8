// What codecs in C++ share: the messages, and the answers to lines `OPERATION SET N`.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#ifndef PEER_VERSION
#define PEER_VERSION "unknown"
#endif

namespace bench_codec {

using Moment = std::chrono::time_point<std::chrono::system_clock, std::chrono::milliseconds>;

// What the session writes into each header beside MsgSeqNum(34) and SendingTime(52).
inline constexpr std::string_view sender = "A12345B", sender_sub = "2DEFGH4", target = "COMPARO",
                                  target_sub = "G", location = "AU,SY";

// Keeps the compiler from dropping what nobody reads.
template <class T>
inline void keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// Mantissa and digits behind the point.
struct Decimal {
  std::int64_t mantissa = 0;
  int scale = 0;

  Decimal() = default;
  explicit Decimal(const std::string& text) {
    const auto point = text.find('.');
    std::string digits = text;
    if (point != std::string::npos) {
      digits.erase(point, 1);
      scale = int(text.size() - point - 1);
    }
    mantissa = std::stoll(digits);
  }
};

// An order's values as an application has them.
struct Order {
  unsigned seq = 0;
  std::string sender_sub, account, cl_ord_id, symbol, text, description, type;
  Decimal quantity, price;
  bool has_price = false, has_text = false;
  char side = 0, order_type = 0, in_force = 0;

  explicit Order(const std::string& frame) {
    for (std::size_t at = 0, end; (end = frame.find('\1', at)) != std::string::npos; at = end + 1) {
      const std::string field = frame.substr(at, end - at);
      const auto equals = field.find('=');
      take(std::stoi(field), field.substr(equals + 1));
    }
  }

  int body_fields() const { return 11 + has_price + has_text; }

private:
  void take(int tag, const std::string& value) {
    switch (tag) {
      case 1: account = value; break;
      case 11: cl_ord_id = value; break;
      case 34: seq = unsigned(std::stoul(value)); break;
      case 38: quantity = Decimal(value); break;
      case 40: order_type = value[0]; break;
      case 44: price = Decimal(value), has_price = true; break;
      case 50: sender_sub = value; break;
      case 54: side = value[0]; break;
      case 55: symbol = value; break;
      case 58: text = value, has_text = true; break;
      case 59: in_force = value[0]; break;
      case 107: description = value; break;
      case 167: type = value; break;
    }
  }
};

struct Set {
  std::vector<std::string> frames;
  std::vector<Order> orders;
};

inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// The time steps on, so that digits change.
inline Moment moment(long i) { return Moment(std::chrono::milliseconds(1795262400123 + i)); }

constexpr int entries = 20, entry_fields = 6;

template <class Codec>
class Server {
public:
  explicit Server(const std::string& folder)
    : heartbeat_(lines_of(folder + "/heartbeat").at(0)),
      snapshot_(lines_of(folder + "/snapshot").at(0)) {
    load(fixed_, folder + "/fixed");
    load(varied_, folder + "/varied");
    check(codec_.decode_heartbeat(heartbeat_), heartbeat_);
    check_encoded(codec_.encode_heartbeat(1078, moment(0)), heartbeat_);
    check(codec_.read_entries(snapshot_) == entries * entry_fields, snapshot_);
  }

  void serve(const char* name) {
    std::cout << "ready " << name << " decode decode-read build-encode scratch-encode heartbeat "
              << "heartbeat-encode decode-groups -hftest" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::string operation, set;
      long n = 0;
      words >> operation >> set >> n;
      std::cout << run(operation, set == "fixed" ? fixed_ : varied_, n) << std::endl;
    }
  }

private:
  long run(const std::string& operation, const Set& set, long n) {
    const auto frame = [&](long i) -> const std::string& {
      return set.frames[std::size_t(i) & (set.frames.size() - 1)];
    };
    const auto order = [&](long i) -> const Order& {
      return set.orders[std::size_t(i) & (set.orders.size() - 1)];
    };
    if (operation == "decode")
      return timed(n, [&](long i) { keep(codec_.decode(frame(i))); });
    if (operation == "decode-read")
      return timed(n, [&](long i) { keep(codec_.read(frame(i))); });
    if (operation == "build-encode")
      return timed(n, [&](long i) { keep(codec_.build(order(i), moment(i))); });
    if (operation == "scratch-encode")
      return timed(n, [&](long i) { keep(codec_.build_all(order(i), moment(i))); });
    if (operation == "heartbeat")
      return timed(n, [&](long) { keep(codec_.decode_heartbeat(heartbeat_)); });
    if (operation == "heartbeat-encode")
      return timed(n, [&](long i) { keep(codec_.encode_heartbeat(1078, moment(i))); });
    if (operation == "decode-groups")
      return timed(n, [&](long) { keep(codec_.read_entries(snapshot_)); });
    throw std::runtime_error("unknown operation " + operation);
  }

  template <class Work>
  static long timed(long n, Work work) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < n; ++i) work(i);
    const auto end = std::chrono::steady_clock::now();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  }

  void load(Set& set, const std::string& path) {
    set.frames = lines_of(path);
    for (std::size_t i = 0; i < set.frames.size(); ++i) {
      const std::string& frame = set.frames[i];
      set.orders.emplace_back(frame);
      const Order& order = set.orders.back();
      check(codec_.decode(frame) && codec_.read(frame) == order.body_fields(), frame);
      check_encoded(codec_.build_all(order, moment(long(i))), frame);
      // The prepared header has the trader of the first order.
      const std::string_view built = codec_.build(order, moment(long(i)));
      check(codec_.decode(std::string(built)), std::string(built));
    }
  }

  // Only the times differ, which are equally long, and a BodyLength(9) of six digits.
  void check_encoded(std::string_view encoded, const std::string& frame) {
    const std::size_t more = encoded.size() - frame.size();
    check(more <= Codec::more_digits, frame + "\n" + std::string(encoded));
    check(codec_.decode_any(std::string(encoded)), std::string(encoded));
  }

  static void check(bool is_right, const std::string& what) {
    if (!is_right) throw std::runtime_error("differs: " + what);
  }

  Codec codec_;
  Set fixed_, varied_;
  std::string heartbeat_, snapshot_;
};

template <class Codec>
int run(const char* name, int argc, char** argv) {
  try {
    if (argc != 2) throw std::runtime_error("usage: PROGRAM FOLDER");
    Server<Codec>(argv[1]).serve(name);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::cerr << name << ": " << error.what() << std::endl;
    return EXIT_FAILURE;
  }
}

} // namespace bench_codec
