// The messages of hftest (S2b), FIX 4.2: NewOrderSingle(D) and ExecutionReport(8), as values and
// built from them.

import java.time.LocalDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import quickfix.DataDictionary;
import quickfix.FieldMap;
import quickfix.Message;
import quickfix.UtcTimestampPrecision;
import quickfix.ValidationSettings;
import quickfix.field.*;
import quickfix.fix42.ExecutionReport;
import quickfix.fix42.NewOrderSingle;

final class Hftest {
  /** An order's values as an application has them, and what its report has more. */
  private record Values(int seq, String sender, String target, String clOrdId, String symbol,
      char side, double quantity, double price, char inForce, Report report) {
    static Values of(Message m) throws Exception {
      FieldMap h = m.getHeader();
      boolean isOrder = h.getString(MsgType.FIELD).equals("D");
      return new Values(h.getInt(MsgSeqNum.FIELD), h.getString(SenderCompID.FIELD),
          h.getString(TargetCompID.FIELD), m.getString(ClOrdID.FIELD), m.getString(Symbol.FIELD),
          m.getChar(Side.FIELD), m.getDouble(OrderQty.FIELD), m.getDouble(Price.FIELD),
          m.getChar(TimeInForce.FIELD), isOrder ? null : Report.of(m));
    }
  }

  private record Report(String orderId, String execId, char status, double left, double traded,
      double average, Character capacity) {
    static Report of(Message m) throws Exception {
      boolean isFirst = m.isSetField(LastCapacity.FIELD);
      return new Report(m.getString(OrderID.FIELD), m.getString(ExecID.FIELD),
          m.getChar(OrdStatus.FIELD), m.getDouble(LeavesQty.FIELD), m.getDouble(CumQty.FIELD),
          m.getDouble(AvgPx.FIELD), isFirst ? m.getChar(LastCapacity.FIELD) : null);
    }
  }

  private final List<String> frames;
  private final List<Values> values = new ArrayList<>();
  private final DataDictionary dictionary;
  private final ValidationSettings settings;

  Hftest(List<String> frames, DataDictionary dictionary, ValidationSettings settings)
      throws Exception {
    this.frames = frames;
    this.dictionary = dictionary;
    this.settings = settings;
    for (int i = 0; i < frames.size(); i++) {
      Message unknown = new Message();
      unknown.fromString(frames.get(i), dictionary, settings, true);
      values.add(Values.of(unknown));
      // The first message is of the millisecond 123.
      Message again = built(i, Codec.moment(i + 123));
      for (String text : new String[] {again.toString(), validated(i).toString()}) {
        if (!Arrays.equals(sorted(text), sorted(frames.get(i)))) {
          throw new IllegalStateException("differs: " + frames.get(i) + "\n" + text);
        }
      }
    }
  }

  /** The fields in an order that does not depend on the engine. */
  private static String[] sorted(String frame) {
    String[] fields = frame.split("\u0001");
    Arrays.sort(fields);
    return fields;
  }

  Message decode(int i) throws Exception {
    int at = i % frames.size();
    boolean isOrder = values.get(at).report == null;
    Message message = isOrder ? new NewOrderSingle() : new ExecutionReport();
    message.fromString(frames.get(at), dictionary, settings, true);
    return message;
  }

  Message validated(int i) throws Exception {
    Message message = decode(i);
    dictionary.validate(message, settings);
    return message;
  }

  /** Built anew with both times. */
  Message built(int i, LocalDateTime now) {
    Values v = values.get(i % values.size());
    Message m = v.report == null ? order(v) : report(v, v.report);
    FieldMap header = m.getHeader();
    header.setField(new SenderCompID(v.sender));
    header.setField(new TargetCompID(v.target));
    header.setField(new MsgSeqNum(v.seq));
    header.setUtcTimeStamp(SendingTime.FIELD, now, UtcTimestampPrecision.MILLIS);
    m.setUtcTimeStamp(TransactTime.FIELD, now, UtcTimestampPrecision.MILLIS);
    m.setDouble(OrderQty.FIELD, v.quantity);
    m.setDouble(Price.FIELD, v.price);
    return m;
  }

  private static Message order(Values v) {
    NewOrderSingle m = new NewOrderSingle();
    m.set(new ClOrdID(v.clOrdId));
    m.set(new HandlInst('1'));
    m.set(new Symbol(v.symbol));
    m.set(new Side(v.side));
    m.set(new OrdType('2'));
    m.set(new TimeInForce(v.inForce));
    return m;
  }

  private static Message report(Values v, Report r) {
    ExecutionReport m = new ExecutionReport();
    m.set(new OrderID(r.orderId));
    m.set(new ClOrdID(v.clOrdId));
    m.set(new ExecID(r.execId));
    m.set(new ExecTransType('0'));
    m.set(new ExecType('0'));
    m.set(new OrdStatus(r.status));
    m.set(new Symbol(v.symbol));
    m.set(new Side(v.side));
    m.set(new TimeInForce(v.inForce));
    m.setDouble(LeavesQty.FIELD, r.left);
    m.setDouble(CumQty.FIELD, r.traded);
    m.setDouble(AvgPx.FIELD, r.average);
    if (r.capacity != null) {
      m.setChar(LastCapacity.FIELD, r.capacity);
      m.setBoolean(ReportToExch.FIELD, true);
    }
    m.set(new HandlInst('1'));
    return m;
  }
}
