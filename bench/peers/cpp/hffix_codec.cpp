// The codec hffix: `hffix_codec FOLDER`. It reads fields in one pass, as they come, and writes each
// message anew.
#include <hffix.hpp>

#include "codec.hpp"

namespace {

using namespace bench_codec;
namespace tag = hffix::tag;

class Codec {
public:
  // BodyLength(9) has six digits.
  static constexpr std::size_t more_digits = 4;

  bool decode(const std::string& frame) { return decode_any(frame); }
  bool decode_heartbeat(const std::string& frame) { return decode_any(frame); }

  // Frame and CheckSum(10), and all fields passed through.
  bool decode_any(const std::string& frame) {
    hffix::message_reader reader(frame.data(), frame.size());
    if (!is_sound(reader)) return false;
    int tags = 0;
    for (const auto& field : reader) tags += field.tag();
    keep(tags);
    return true;
  }

  // The same, and all fields of the body with their types; the number of those that are there.
  int read(const std::string& frame) {
    hffix::message_reader reader(frame.data(), frame.size());
    if (!is_sound(reader)) return 0;
    int there = 0;
    for (auto field = reader.begin(); field != reader.end(); ++field) {
      const hffix::field_value& value = field->value();
      switch (field->tag()) {
        case tag::TransactTime: there += keep_moment(value); break;
        case tag::OrderQty:
        case tag::Price: there += keep_decimal(value); break;
        case tag::Account:
        case tag::ClOrdID:
        case tag::Symbol:
        case tag::Text:
        case tag::SecurityDesc:
        case tag::SecurityType: there += keep_text(value); break;
        case tag::HandlInst:
        case tag::OrdType:
        case tag::Side:
        case tag::TimeInForce: there += keep_char(value); break;
      }
    }
    return there;
  }

  int read_entries(const std::string& frame) {
    hffix::message_reader reader(frame.data(), frame.size());
    if (!is_sound(reader)) return 0;
    int there = 0;
    for (auto field = reader.begin(); field != reader.end(); ++field) {
      const hffix::field_value& value = field->value();
      switch (field->tag()) {
        case tag::MDEntryType: there += keep_char(value); break;
        case tag::MDEntryPx:
        case tag::MDEntrySize: there += keep_decimal(value); break;
        case tag::Currency: there += keep_text(value); break;
        case tag::MDEntryTime: {
          std::chrono::milliseconds time(0);
          there += value.as_timeonly(time);
          keep(time);
          break;
        }
        case tag::MDEntryPositionNo:
          keep(value.as_int<int>());
          ++there;
          break;
      }
    }
    return there;
  }

  // It has no header to prepare.
  std::string_view build(const Order& order, Moment now) { return write(order, sender_sub, now); }
  std::string_view build_all(const Order& order, Moment now) {
    return write(order, order.sender_sub, now);
  }

  std::string_view encode_heartbeat(int seq, Moment now) {
    hffix::message_writer writer(buffer_, buffer_ + sizeof buffer_);
    writer.push_back_header("FIX.4.4");
    writer.push_back_char(tag::MsgType, '0');
    writer.push_back_int(tag::MsgSeqNum, seq);
    writer.push_back_string(tag::SenderCompID, sender);
    writer.push_back_timestamp(tag::SendingTime, now);
    writer.push_back_string(tag::TargetCompID, target);
    return finished(writer);
  }

private:
  std::string_view write(const Order& order, std::string_view trader, Moment now) {
    hffix::message_writer writer(buffer_, buffer_ + sizeof buffer_);
    writer.push_back_header("FIX.4.4");
    writer.push_back_char(tag::MsgType, 'D');
    writer.push_back_int(tag::MsgSeqNum, order.seq);
    writer.push_back_string(tag::SenderCompID, sender);
    writer.push_back_string(tag::SenderSubID, trader);
    writer.push_back_timestamp(tag::SendingTime, now);
    writer.push_back_string(tag::TargetCompID, target);
    writer.push_back_string(tag::TargetSubID, target_sub);
    writer.push_back_string(tag::SenderLocationID, location);
    writer.push_back_timestamp(tag::TransactTime, now);
    writer.push_back_string(tag::Account, order.account);
    push_back_decimal(writer, tag::OrderQty, order.quantity);
    if (order.has_price) push_back_decimal(writer, tag::Price, order.price);
    writer.push_back_string(tag::ClOrdID, order.cl_ord_id);
    writer.push_back_char(tag::HandlInst, '1');
    writer.push_back_char(tag::OrdType, order.order_type);
    writer.push_back_char(tag::Side, order.side);
    writer.push_back_string(tag::Symbol, order.symbol);
    if (order.has_text) writer.push_back_string(tag::Text, order.text);
    writer.push_back_char(tag::TimeInForce, order.in_force);
    writer.push_back_string(tag::SecurityDesc, order.description);
    writer.push_back_string(tag::SecurityType, order.type);
    return finished(writer);
  }

  static void push_back_decimal(hffix::message_writer& writer, int tag, const Decimal& value) {
    writer.push_back_decimal<std::int64_t>(tag, value.mantissa, -value.scale);
  }

  static std::string_view finished(hffix::message_writer& writer) {
    writer.push_back_trailer();
    return {writer.message_begin(), writer.message_size()};
  }

  static bool is_sound(hffix::message_reader& reader) {
    return reader.is_complete() && reader.is_valid() &&
           reader.calculate_check_sum() == reader.check_sum()->value().as_int<unsigned char>();
  }

  static bool keep_moment(const hffix::field_value& value) {
    Moment moment{};
    const bool is_sound = value.as_timestamp(moment);
    keep(moment);
    return is_sound;
  }

  static bool keep_decimal(const hffix::field_value& value) {
    std::int64_t mantissa = 0, exponent = 0;
    value.as_decimal(mantissa, exponent);
    keep(mantissa);
    keep(exponent);
    return true;
  }

  static bool keep_text(const hffix::field_value& value) {
    const std::string_view text = value.as_string_view();
    keep(text.data());
    keep(text.size());
    return !text.empty();
  }

  static bool keep_char(const hffix::field_value& value) {
    keep(value.as_char());
    return true;
  }

  char buffer_[1024];
};

} // namespace

int main(int argc, char** argv) { return run<Codec>("hffix-" PEER_VERSION, argc, argv); }
