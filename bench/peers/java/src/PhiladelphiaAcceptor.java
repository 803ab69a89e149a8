// Philadelphia as an acceptor of the common client: the options are in ../../README.md. The library
// leaves the loop over the connections to the application, and keeps no messages.

import static com.paritytrading.philadelphia.fix42.FIX42MsgTypes.ExecutionReport;
import static com.paritytrading.philadelphia.fix42.FIX42MsgTypes.OrderSingle;
import static com.paritytrading.philadelphia.fix42.FIX42Tags.*;

import com.paritytrading.philadelphia.FIXConfig;
import com.paritytrading.philadelphia.FIXConnection;
import com.paritytrading.philadelphia.FIXConnectionStatusListener;
import com.paritytrading.philadelphia.FIXException;
import com.paritytrading.philadelphia.FIXMessage;
import com.paritytrading.philadelphia.FIXMessageListener;
import com.paritytrading.philadelphia.FIXValue;
import com.paritytrading.philadelphia.FIXVersion;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class PhiladelphiaAcceptor {
  private static final int KEEP_ALIVE_MS = 1_000;

  private final Options options;
  private final ServerSocketChannel listener;
  private final Selector selector = Selector.open();
  private final List<Session> sessions = new ArrayList<>();
  private final Set<String> names = new HashSet<>();
  private long orders;
  private long kept;

  private PhiladelphiaAcceptor(Options options) throws IOException {
    this.options = options;
    listener = ServerSocketChannel.open();
    listener.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    listener.configureBlocking(false);
    listener.register(selector, SelectionKey.OP_ACCEPT);
    for (int i = 0; i < options.sessions; i++) {
      names.add("C" + i);
    }
  }

  public static void main(String[] arguments) {
    Options.serve(arguments, PhiladelphiaAcceptor::start);
  }

  private static int start(Options options) throws Exception {
    options.refuse(options.store != null, "file store");
    options.refuse(options.validate, "validation against a dictionary; use --validate no");
    PhiladelphiaAcceptor acceptor = new PhiladelphiaAcceptor(options);
    Thread loop = new Thread(options.polling ? acceptor::spin : acceptor::select);
    loop.setDaemon(true);
    loop.start();
    return acceptor.listener.socket().getLocalPort();
  }

  /** One thread sleeps until a connection has something to read. */
  private void select() {
    try {
      while (true) {
        selector.select(KEEP_ALIVE_MS);
        long now = System.currentTimeMillis();
        for (SelectionKey key : selector.selectedKeys()) {
          if (key.isAcceptable()) {
            accept();
          } else {
            serve((Session) key.attachment(), now);
          }
        }
        selector.selectedKeys().clear();
        keepAlive(now);
      }
    } catch (IOException error) {
      fail(error);
    }
  }

  /** One thread reads from all connections again and again, and never waits. */
  private void spin() {
    try {
      while (true) {
        long now = System.currentTimeMillis();
        for (int i = 0; i < sessions.size(); i++) {
          serve(sessions.get(i), now);
        }
        keepAlive(now);
      }
    } catch (IOException error) {
      fail(error);
    }
  }

  private static void fail(IOException error) {
    error.printStackTrace();
    Runtime.getRuntime().halt(1);
  }

  private void accept() throws IOException {
    SocketChannel channel = listener.accept();
    if (channel == null) {
      return;
    }
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    channel.configureBlocking(false);
    Session session = new Session(channel);
    sessions.add(session);
    channel.register(selector, SelectionKey.OP_READ, session);
  }

  private void serve(Session session, long now) {
    try {
      if (session.receive(now) >= 0) {
        return;
      }
    } catch (IOException error) {
      System.err.println(error);
    }
    session.close();
    sessions.remove(session);
  }

  /** Also looks for new connections, which a spinning loop need not do in each turn. */
  private void keepAlive(long now) throws IOException {
    boolean looks = sessions.isEmpty() || now != kept;
    if (options.polling && looks) {
      kept = now;
      accept();
    }
    for (int i = 0; looks && i < sessions.size(); i++) {
      sessions.get(i).keepAlive(now);
    }
  }

  /** The socket, in front of which stand the bytes that have been read already. */
  private static final class Socket implements ReadableByteChannel {
    private final SocketChannel channel;
    private ByteBuffer first;

    Socket(SocketChannel channel, ByteBuffer first) {
      this.channel = channel;
      this.first = first;
    }

    @Override
    public int read(ByteBuffer into) throws IOException {
      if (first == null) {
        return channel.read(into);
      }
      int bytes = first.remaining();
      into.put(first);
      first = null;
      return bytes;
    }

    @Override
    public boolean isOpen() {
      return channel.isOpen();
    }

    @Override
    public void close() throws IOException {
      channel.close();
    }
  }

  private final class Session implements FIXMessageListener, FIXConnectionStatusListener {
    private final SocketChannel channel;
    /** What comes before the Logon(A) is whole: the library must know its HeartBtInt(108). */
    private final ByteBuffer first = ByteBuffer.allocate(4096);
    private FIXConnection connection;
    private FIXMessage answer;
    private FIXValue orderId;
    private FIXValue clOrdId;
    private FIXValue execId;
    private FIXValue symbol;
    private FIXValue side;
    private FIXValue quantity;
    private FIXValue price;
    private FIXValue leaves;
    private FIXValue time;
    private long alive;

    Session(SocketChannel channel) {
      this.channel = channel;
    }

    int receive(long now) throws IOException {
      if (connection == null) {
        return connect(now);
      }
      if (connection.getCurrentTimeMillis() != now) {
        connection.setCurrentTimeMillis(now);
      }
      return channel.isOpen() ? connection.receive() : -1;
    }

    private int connect(long now) throws IOException {
      int bytes = channel.read(first);
      String logon = new String(first.array(), 0, first.position(), StandardCharsets.US_ASCII);
      if (bytes <= 0 || !logon.contains("\00110=")) {
        return bytes;
      }
      Matcher interval = Pattern.compile("\001108=([0-9]{1,6})\001").matcher(logon);
      if (!interval.find()) {
        return -1;
      }
      FIXConfig config = FIXConfig.newBuilder().setVersion(FIXVersion.FIX_4_2)
          .setSenderCompID("VENUE").setHeartBtInt(Integer.parseInt(interval.group(1))).build();
      first.flip();
      connection = new FIXConnection(new Socket(channel, first), channel, config, this, this, now);
      answer = connection.create();
      return connection.receive();
    }

    void keepAlive(long now) throws IOException {
      if (connection == null || now - alive < KEEP_ALIVE_MS) {
        return;
      }
      alive = now;
      connection.setCurrentTimeMillis(now);
      try {
        connection.keepAlive();
      } catch (FIXException error) {
        close();
      }
    }

    void close() {
      try {
        channel.close();
      } catch (IOException error) {
        System.err.println(error);
      }
    }

    /** Fields that stay the same from one report to the next are set once. */
    private void prepareReport() {
      connection.prepare(answer, ExecutionReport);
      orderId = answer.addField(OrderID);
      clOrdId = answer.addField(ClOrdID);
      execId = answer.addField(ExecID);
      answer.addField(ExecTransType).setChar('0');
      answer.addField(ExecType).setChar('0');
      answer.addField(OrdStatus).setChar('0');
      symbol = answer.addField(Symbol);
      side = answer.addField(Side);
      quantity = answer.addField(OrderQty);
      price = answer.addField(Price);
      leaves = answer.addField(LeavesQty);
      answer.addField(CumQty).setInt(0);
      answer.addField(AvgPx).setInt(0);
      time = answer.addField(TransactTime);
    }

    @Override
    public void message(FIXMessage message) throws IOException {
      if (options.echo) {
        echo(message);
      } else if (message.getMsgType().contentEquals(OrderSingle)) {
        report(message);
      }
    }

    private void echo(FIXMessage message) throws IOException {
      connection.prepare(answer, message.getMsgType());
      for (int i = 0; i < message.getFieldCount(); i++) {
        switch (message.tagAt(i)) {
          case BeginString, BodyLength, MsgType, SenderCompID, TargetCompID, MsgSeqNum,
              SendingTime, CheckSum -> {}
          default -> answer.addField(message.tagAt(i)).set(message.valueAt(i));
        }
      }
      connection.send(answer);
    }

    private void report(FIXMessage order) throws IOException {
      for (int i = 0; i < order.getFieldCount(); i++) {
        FIXValue value = order.valueAt(i);
        switch (order.tagAt(i)) {
          case ClOrdID -> clOrdId.set(value);
          case Symbol -> symbol.set(value);
          case Side -> side.set(value);
          case OrderQty -> quantity.set(value);
          case Price -> price.set(value);
          default -> {}
        }
      }
      orders++;
      orderId.setInt(orders);
      execId.setInt(orders);
      leaves.set(quantity);
      time.setString(connection.getCurrentTimestamp());
      connection.update(answer);
      connection.send(answer);
    }

    @Override
    public void logon(FIXConnection connection, FIXMessage message) throws IOException {
      String name = message.valueOf(SenderCompID).asString().toString();
      if (!names.contains(name) || !message.valueOf(TargetCompID).contentEquals("VENUE")) {
        close();
        return;
      }
      connection.setTargetCompID(name);
      connection.sendLogon(false);
      if (!options.echo) {
        prepareReport();
      }
    }

    @Override
    public void logout(FIXConnection connection, FIXMessage message) throws IOException {
      connection.sendLogout();
    }

    @Override
    public void close(FIXConnection connection, String text) {
      close();
    }

    @Override public void sequenceReset(FIXConnection connection) {}
    @Override public void tooLowMsgSeqNum(FIXConnection connection, long received, long expected) {}
    @Override public void reject(FIXConnection connection, FIXMessage message) {}
  }
}
