// The order that both benchmarks read, and the ExecutionReport(8) it is answered with.
#pragma once

#include "settings.hpp"

#include <Session.h>
#include <fix42/ExecutionReport.h>
#include <fix42/NewOrderSingle.h>

#include <string>

namespace peer {

// Reads the order's fields and sends its report, as short as the published page has it or valid.
inline void report(const FIX42::NewOrderSingle& order, const FIX::SessionID& id, long number_of,
                   bool valid) {
  FIX::SenderCompID sender;
  FIX::TargetCompID target;
  FIX::ClOrdID cl_ord_id;
  FIX::Symbol symbol;
  FIX::Side side;
  FIX::OrdType ord_type;
  FIX::Price price;
  FIX::OrderQty order_qty;
  FIX::TimeInForce time_in_force;
  order.getHeader().getField(sender);
  order.getHeader().getField(target);
  order.get(cl_ord_id);
  order.get(symbol);
  order.get(side);
  order.get(ord_type);
  if (ord_type == FIX::OrdType_LIMIT) order.get(price);
  order.get(order_qty);
  if (order.isSet(time_in_force)) order.get(time_in_force);

  const std::string number = std::to_string(number_of);
  FIX42::ExecutionReport report;
  report.set(cl_ord_id);
  report.set(price);
  report.set(order_qty);
  report.set(FIX::TransactTime(now(), 3));
  report.set(FIX::ExecID(number));
  report.set(FIX::OrderID(number));
  report.set(FIX::LeavesQty(order_qty));
  if (valid) {
    report.set(FIX::ExecTransType(FIX::ExecTransType_NEW));
    report.set(FIX::ExecType(FIX::ExecType_NEW));
    report.set(FIX::OrdStatus(FIX::OrdStatus_NEW));
    report.set(symbol);
    report.set(side);
    report.set(FIX::CumQty(0));
    report.set(FIX::AvgPx(0));
  }
  FIX::Session::sendToTarget(report, id);
}

}  // namespace peer
