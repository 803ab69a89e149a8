// QuickFIX/J as an acceptor of the common client, 1.6.3 and newer: the options are in
// ../../README.md.

import java.util.concurrent.atomic.AtomicLong;
import quickfix.Application;
import quickfix.DefaultMessageFactory;
import quickfix.FieldNotFound;
import quickfix.FileStoreFactory;
import quickfix.Log;
import quickfix.LogFactory;
import quickfix.MemoryStoreFactory;
import quickfix.Message;
import quickfix.MessageStoreFactory;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionNotFound;
import quickfix.SessionSettings;
import quickfix.SocketAcceptor;
import quickfix.field.*;
import quickfix.fix42.ExecutionReport;
import quickfix.fix42.NewOrderSingle;

public final class QuickfixjAcceptor implements Application {
  private final boolean echo;
  private final AtomicLong orders = new AtomicLong();

  private QuickfixjAcceptor(boolean echo) {
    this.echo = echo;
  }

  public static void main(String[] arguments) {
    Options.serve(arguments, QuickfixjAcceptor::start);
  }

  private static int start(Options options) throws Exception {
    options.refuse(options.polling, "mode polling");
    int port = Options.freePort();
    SessionSettings settings = settings(options, port);
    MessageStoreFactory stores =
        options.store == null ? new MemoryStoreFactory() : new FileStoreFactory(settings);
    new SocketAcceptor(new QuickfixjAcceptor(options.echo), stores, settings, new NoLogs(),
        new DefaultMessageFactory()).start();
    return port;
  }

  private static SessionSettings settings(Options options, int port) {
    SessionSettings settings = new SessionSettings();
    settings.setString("ConnectionType", "acceptor");
    settings.setString("NonStopSession", "Y");
    settings.setString("SocketAcceptAddress", "127.0.0.1");
    settings.setLong("SocketAcceptPort", port);
    settings.setString("SocketTcpNoDelay", "Y");
    settings.setString("UseDataDictionary", options.validate ? "Y" : "N");
    if (options.validate) {
      settings.setString("DataDictionary", options.dictionary);
    } else {
      settings.setString("ValidateIncomingMessage", "N");
      settings.setString("CheckLatency", "N");
    }
    if (options.store != null) {
      settings.setString("FileStorePath", options.store);
    }
    for (int i = 0; i < options.sessions; i++) {
      SessionID id = new SessionID("FIX.4.2", "VENUE", "C" + i);
      settings.setString(id, "BeginString", "FIX.4.2");
      settings.setString(id, "SenderCompID", "VENUE");
      settings.setString(id, "TargetCompID", "C" + i);
    }
    return settings;
  }

  @Override
  public void fromApp(Message message, SessionID id) throws FieldNotFound {
    try {
      if (echo) {
        Session.sendToTarget((Message) message.clone(), id);
      } else {
        Session.sendToTarget(report((NewOrderSingle) message), id);
      }
    } catch (SessionNotFound error) {
      throw new IllegalStateException(error);
    }
  }

  /** Reads the order's fields, and makes the report that FIX 4.2 wants. */
  private ExecutionReport report(NewOrderSingle order) throws FieldNotFound {
    order.getHeader().getString(SenderCompID.FIELD);
    order.getHeader().getString(TargetCompID.FIELD);
    Symbol symbol = order.getSymbol();
    Side side = order.getSide();
    Price price = order.getOrdType().getValue() == OrdType.LIMIT ? order.getPrice() : null;
    OrderQty quantity = order.getOrderQty();
    if (order.isSetTimeInForce()) {
      order.getTimeInForce();
    }
    String number = Long.toString(orders.incrementAndGet());
    ExecutionReport report = new ExecutionReport();
    report.set(order.getClOrdID());
    if (price != null) {
      report.set(price);
    }
    report.set(quantity);
    report.set(new TransactTime());
    report.set(new ExecID(number));
    report.set(new OrderID(number));
    report.set(new LeavesQty(quantity.getValue()));
    report.set(new ExecTransType(ExecTransType.NEW));
    report.set(new ExecType(ExecType.NEW));
    report.set(new OrdStatus(OrdStatus.NEW));
    report.set(symbol);
    report.set(side);
    report.set(new CumQty(0));
    report.set(new AvgPx(0));
    return report;
  }

  @Override public void onCreate(SessionID id) {}
  @Override public void onLogon(SessionID id) {}
  @Override public void onLogout(SessionID id) {}
  @Override public void toAdmin(Message message, SessionID id) {}
  @Override public void fromAdmin(Message message, SessionID id) {}
  @Override public void toApp(Message message, SessionID id) {}

  /** Without a factory, all goes to the screen. */
  private static final class NoLogs implements LogFactory, Log {
    // Version 1.6.3 asks for it.
    public Log create() {
      return this;
    }

    @Override
    public Log create(SessionID id) {
      return this;
    }

    @Override public void clear() {}
    @Override public void onIncoming(String message) {}
    @Override public void onOutgoing(String message) {}
    @Override public void onEvent(String text) {}
    @Override public void onErrorEvent(String text) {}
  }
}
