// The messages of hftest (S2b), FIX 4.2: NewOrderSingle(D) and ExecutionReport(8), as values and
// built from them.
#pragma once

#include <Message.h>
#include <fix42/ExecutionReport.h>
#include <fix42/NewOrderSingle.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

// A message's values as an application has them.
struct HftestValues {
  bool is_order = false, is_first = false;
  int seq = 0;
  std::string sender, target, cl_ord_id, symbol, order_id, exec_id;
  double quantity = 0, price = 0, left = 0, traded = 0, average = 0;
  char side = 0, in_force = 0, status = 0, capacity = 0;

  explicit HftestValues(const FIX::Message& message) {
    const FIX::Header& header = message.getHeader();
    is_order = header.getField(FIX::FIELD::MsgType) == "D";
    seq = std::stoi(header.getField(FIX::FIELD::MsgSeqNum));
    sender = header.getField(FIX::FIELD::SenderCompID);
    target = header.getField(FIX::FIELD::TargetCompID);
    cl_ord_id = message.getField(FIX::FIELD::ClOrdID);
    symbol = message.getField(FIX::FIELD::Symbol);
    quantity = std::stod(message.getField(FIX::FIELD::OrderQty));
    price = std::stod(message.getField(FIX::FIELD::Price));
    side = message.getField(FIX::FIELD::Side)[0];
    in_force = message.getField(FIX::FIELD::TimeInForce)[0];
    if (is_order) return;
    order_id = message.getField(FIX::FIELD::OrderID);
    exec_id = message.getField(FIX::FIELD::ExecID);
    status = message.getField(FIX::FIELD::OrdStatus)[0];
    left = std::stod(message.getField(FIX::FIELD::LeavesQty));
    traded = std::stod(message.getField(FIX::FIELD::CumQty));
    average = std::stod(message.getField(FIX::FIELD::AvgPx));
    is_first = message.isSetField(FIX::FIELD::LastCapacity);
    if (is_first) capacity = message.getField(FIX::FIELD::LastCapacity)[0];
  }

  // Builds the message anew with both times, and appends its bytes.
  void encode(const FIX::UtcTimeStamp& now, std::string& out) const {
    if (is_order) {
      FIX42::NewOrderSingle message;
      fill(message, now);
      message.set(FIX::OrdType('2'));
      message.toString(out);
      return;
    }
    FIX42::ExecutionReport message;
    fill(message, now);
    message.set(FIX::OrderID(order_id));
    message.set(FIX::ExecID(exec_id));
    message.set(FIX::ExecTransType('0'));
    message.set(FIX::ExecType('0'));
    message.set(FIX::OrdStatus(status));
    message.set(FIX::LeavesQty(left));
    message.set(FIX::CumQty(traded));
    message.set(FIX::AvgPx(average));
    if (is_first) {
      message.set(FIX::LastCapacity(capacity));
      message.set(FIX::ReportToExch(true));
    }
    message.toString(out);
  }

private:
  // What both types have.
  template <class Message>
  void fill(Message& message, const FIX::UtcTimeStamp& now) const {
    FIX::Header& header = message.getHeader();
    header.setField(FIX::SenderCompID(sender));
    header.setField(FIX::TargetCompID(target));
    header.setField(FIX::MsgSeqNum(seq));
    header.setField(FIX::SendingTime(now, 3));
    message.set(FIX::ClOrdID(cl_ord_id));
    message.set(FIX::HandlInst('1'));
    message.set(FIX::Symbol(symbol));
    message.set(FIX::Side(side));
    message.set(FIX::OrderQty(quantity));
    message.set(FIX::Price(price));
    message.set(FIX::TimeInForce(in_force));
    message.set(FIX::TransactTime(now, 3));
  }
};

// The fields in an order that does not depend on the engine.
inline std::vector<std::string> sorted_fields(const std::string& frame) {
  std::vector<std::string> fields;
  std::istringstream text(frame);
  for (std::string field; std::getline(text, field, '\x01');) fields.push_back(field);
  std::sort(fields.begin(), fields.end());
  return fields;
}
