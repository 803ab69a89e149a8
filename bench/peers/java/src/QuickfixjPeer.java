// QuickFIX/J from a settings file, in the role that it says, as a counterparty that is driven by
// lines. It knows `send N`, `logout` and `quit` of the protocol in ../../README.md.

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.Iterator;
import quickfix.Application;
import quickfix.Connector;
import quickfix.DefaultMessageFactory;
import quickfix.FileStoreFactory;
import quickfix.Log;
import quickfix.LogFactory;
import quickfix.Message;
import quickfix.Session;
import quickfix.SessionID;
import quickfix.SessionSettings;
import quickfix.SocketAcceptor;
import quickfix.SocketInitiator;

public final class QuickfixjPeer implements Application {
  // The setters of times have other types in 1.6.3.
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("yyyyMMdd-HH:mm:ss.SSS");

  private final boolean acceptor;
  private int orders;
  private int reports;

  private QuickfixjPeer(boolean acceptor) {
    this.acceptor = acceptor;
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 2 || !arguments[0].equals("--settings")) {
      System.err.println("usage: QuickfixjPeer --settings FILE");
      System.exit(2);
    }
    SessionSettings settings;
    try (InputStream file = new FileInputStream(arguments[1])) {
      settings = new SessionSettings(file);
    }
    Iterator<SessionID> ids = settings.sectionIterator();
    SessionID id = ids.next();
    boolean acceptor = settings.getString(id, "ConnectionType").equals("acceptor");
    QuickfixjPeer peer = new QuickfixjPeer(acceptor);
    FileStoreFactory stores = new FileStoreFactory(settings);
    DefaultMessageFactory messages = new DefaultMessageFactory();
    Connector connector = acceptor
        ? new SocketAcceptor(peer, stores, settings, new Events(), messages)
        : new SocketInitiator(peer, stores, settings, new Events(), messages);
    connector.start();
    emit("ready", ",\"role\":\"" + (acceptor ? "acceptor" : "initiator") + "\"");
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      if (line.equals("quit")) {
        break;
      }
      try {
        peer.obey(line.split(" "), id);
        emit("done", ",\"command\":" + quoted(line));
      } catch (Exception error) {
        emit("error", ",\"command\":" + quoted(line) + ",\"text\":" + quoted(error.toString()));
      }
    }
    // A stop of the engine takes seconds, and says nothing more.
    Runtime.getRuntime().halt(0);
  }

  private void obey(String[] words, SessionID id) throws Exception {
    switch (words[0]) {
      case "send":
        for (int i = 0; i < Integer.parseInt(words[1]); i++) {
          Session.sendToTarget(order(id), id);
        }
        break;
      case "logout":
        Session.lookupSession(id).logout();
        break;
      default:
        throw new IllegalArgumentException("unknown command");
    }
  }

  private Message order(SessionID id) {
    Message order = new Message();
    order.getHeader().setString(35, "D");
    order.setString(11, (acceptor ? "A" : "I") + ++orders);
    order.setChar(21, '1');
    order.setString(55, "MSFT");
    order.setChar(54, '1');
    order.setInt(38, 100);
    order.setChar(40, '2');
    order.setString(44, "30.5");
    order.setString(60, LocalDateTime.now(ZoneOffset.UTC).format(TIME));
    return order;
  }

  private Message report(Message order, boolean isOld) throws Exception {
    Message report = new Message();
    report.getHeader().setString(35, "8");
    report.setString(37, "O" + ++reports);
    report.setString(17, "E" + reports);
    for (int tag : new int[] {11, 55, 54, 38, 44, 40}) {
      if (order.isSetField(tag)) {
        report.setString(tag, order.getString(tag));
      }
    }
    if (isOld) {
      report.setChar(20, '0');
    }
    report.setChar(39, '0');
    report.setChar(150, '0');
    report.setString(151, order.getString(38));
    report.setString(14, "0");
    report.setString(6, "0");
    report.setString(60, LocalDateTime.now(ZoneOffset.UTC).format(TIME));
    return report;
  }

  @Override
  public void fromApp(Message message, SessionID id) {
    emitMessage("app", message.toString());
    try {
      if (acceptor && message.getHeader().getString(35).equals("D")) {
        boolean isOld = id.getBeginString().compareTo("FIX.4.2") <= 0;
        Session.sendToTarget(report(message, isOld), id);
      }
    } catch (Exception error) {
      emit("error", ",\"command\":\"answer\",\"text\":" + quoted(error.toString()));
    }
  }

  @Override
  public void toApp(Message message, SessionID id) {
    if (!message.getHeader().isSetField(43)) {
      emitMessage("sent", message.toString());
    }
  }

  @Override public void onLogon(SessionID id) { emit("logon", ""); }
  @Override public void onLogout(SessionID id) { emit("logout", ""); }
  @Override public void onCreate(SessionID id) {}
  @Override public void toAdmin(Message message, SessionID id) {}
  @Override public void fromAdmin(Message message, SessionID id) {}

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char c : text.toCharArray()) {
      if (c == '\001') {
        out.append('|');
      } else if (c == '"' || c == '\\') {
        out.append('\\').append(c);
      } else if (c < ' ' || c > '~') {
        out.append(String.format("\\u%04x", (int) c));
      } else {
        out.append(c);
      }
    }
    return out.append('"').toString();
  }

  private static synchronized void emit(String event, String rest) {
    System.out.println("{\"event\":\"" + event + "\"" + rest + "}");
  }

  private static void emitMessage(String event, String message) {
    emit(event, ",\"msg\":" + quoted(message));
  }

  /** What passes the socket. */
  private static final class Events implements LogFactory, Log {
    // Version 1.6.3 asks for it.
    public Log create() {
      return this;
    }

    @Override
    public Log create(SessionID id) {
      return this;
    }

    @Override public void clear() {}
    @Override public void onIncoming(String message) { emitMessage("in", message); }
    @Override public void onOutgoing(String message) { emitMessage("out", message); }
    @Override public void onEvent(String text) { System.err.println(text); }
    @Override public void onErrorEvent(String text) { System.err.println(text); }
  }
}
