// The codec of QuickFIX/J: carries out `OPERATION SET N` lines from standard input, and answers
// each by the nanoseconds that it took. Messages and dictionaries lie in the folder named first.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;
import quickfix.DataDictionary;
import quickfix.FieldMap;
import quickfix.Message;
import quickfix.UtcTimestampPrecision;
import quickfix.ValidationSettings;
import quickfix.field.*;
import quickfix.fix44.NewOrderSingle;

public final class Codec {
  private static final long EPOCH_S = 1_795_262_400L;

  /** An order's values as an application has them. */
  private record Order(int seq, String senderSub, String account, String clOrdId, double quantity,
      Double price, char ordType, char side, String symbol, String text, char inForce,
      String description, String type) {
    static Order of(Message m) throws Exception {
      FieldMap h = m.getHeader();
      return new Order(h.getInt(MsgSeqNum.FIELD), h.getString(SenderSubID.FIELD),
          m.getString(Account.FIELD), m.getString(ClOrdID.FIELD), m.getDouble(OrderQty.FIELD),
          m.isSetField(Price.FIELD) ? m.getDouble(Price.FIELD) : null, m.getChar(OrdType.FIELD),
          m.getChar(Side.FIELD), m.getString(Symbol.FIELD),
          m.isSetField(Text.FIELD) ? m.getString(Text.FIELD) : null, m.getChar(TimeInForce.FIELD),
          m.getString(SecurityDesc.FIELD), m.getString(SecurityType.FIELD));
    }
  }

  private record Set(List<String> frames, List<Order> orders) {}

  private interface Work {
    Object once(int i) throws Exception;
  }

  private final DataDictionary fix42;
  private final DataDictionary fix44;
  private final ValidationSettings settings = new ValidationSettings();
  private final Message s4b = new Message();
  private final Set fixed;
  private final Set varied;
  private final Hftest hftest;
  /** Where results go, so that nothing is optimised away. */
  private Object sink;

  private Codec(Path folder) throws Exception {
    fix42 = new DataDictionary(folder.resolve("FIX42.xml").toString());
    fix44 = new DataDictionary(folder.resolve("FIX44.xml").toString());
    s4b.fromString(lines(folder.resolve("s4b")).get(0), fix42, settings, true);
    fix42.validate(s4b, settings);
    if (!refuses(fix44)) {
      throw new IllegalStateException("FIX44 takes Rule80A(47)");
    }
    fixed = load(folder.resolve("fixed"));
    varied = load(folder.resolve("varied"));
    hftest = new Hftest(lines(folder.resolve("hftest")), fix42, settings);
  }

  private static List<String> lines(Path path) throws Exception {
    return Files.readAllLines(path, StandardCharsets.ISO_8859_1);
  }

  private Set load(Path path) throws Exception {
    Set set = new Set(lines(path), new ArrayList<>());
    for (int i = 0; i < set.frames.size(); i++) {
      String frame = set.frames.get(i);
      Message message = decode(frame);
      fix44.validate(message, settings);
      Order order = Order.of(message);
      set.orders.add(order);
      int expected = 11 + (order.price == null ? 0 : 1) + (order.text == null ? 0 : 1);
      // Only the times differ, which are equally long.
      String again = built(order, i).toString();
      if (read(message) != expected || again.length() != frame.length()) {
        throw new IllegalStateException("differs: " + frame + "\n" + again);
      }
    }
    return set;
  }

  private Message decode(String frame) throws Exception {
    NewOrderSingle message = new NewOrderSingle();
    message.fromString(frame, fix44, settings, true);
    return message;
  }

  /** The time steps on, so that digits change. */
  static LocalDateTime moment(int i) {
    return LocalDateTime.ofEpochSecond(EPOCH_S + i / 1000, i % 1000 * 1_000_000, ZoneOffset.UTC);
  }

  private static NewOrderSingle built(Order order, int i) {
    LocalDateTime now = moment(i);
    NewOrderSingle m = new NewOrderSingle();
    Message.Header header = (Message.Header) m.getHeader();
    header.setField(new MsgSeqNum(order.seq));
    header.setField(new SenderCompID("A12345B"));
    header.setField(new SenderSubID(order.senderSub));
    header.setUtcTimeStamp(SendingTime.FIELD, now, UtcTimestampPrecision.MILLIS);
    header.setField(new TargetCompID("COMPARO"));
    header.setField(new TargetSubID("G"));
    header.setField(new SenderLocationID("AU,SY"));
    m.setUtcTimeStamp(TransactTime.FIELD, now, UtcTimestampPrecision.MILLIS);
    m.set(new Account(order.account));
    m.setDouble(OrderQty.FIELD, order.quantity);
    if (order.price != null) {
      m.setDouble(Price.FIELD, order.price);
    }
    m.set(new ClOrdID(order.clOrdId));
    m.set(new HandlInst('1'));
    m.set(new OrdType(order.ordType));
    m.set(new Side(order.side));
    m.set(new Symbol(order.symbol));
    if (order.text != null) {
      m.set(new Text(order.text));
    }
    m.set(new TimeInForce(order.inForce));
    m.set(new SecurityDesc(order.description));
    m.set(new SecurityType(order.type));
    return m;
  }

  /** Reads all fields of the body with their types; the number of those that are there. */
  private int read(Message m) throws Exception {
    int there = 0;
    if (m.isSetField(TransactTime.FIELD)) {
      sink = m.getUtcTimeStamp(TransactTime.FIELD);
      there++;
    }
    for (int decimal : new int[] {OrderQty.FIELD, Price.FIELD}) {
      if (m.isSetField(decimal)) {
        sink = m.getDecimal(decimal);
        there++;
      }
    }
    for (int text : new int[] {Account.FIELD, ClOrdID.FIELD, Symbol.FIELD, Text.FIELD,
        SecurityDesc.FIELD, SecurityType.FIELD}) {
      if (m.isSetField(text)) {
        sink = m.getString(text);
        there++;
      }
    }
    for (int one : new int[] {HandlInst.FIELD, OrdType.FIELD, Side.FIELD, TimeInForce.FIELD}) {
      if (m.isSetField(one)) {
        sink = m.getChar(one);
        there++;
      }
    }
    return there;
  }

  /** Judges the body alone: the message says FIX.4.2, which would be refused at once. */
  private boolean refuses(DataDictionary dictionary) {
    try {
      dictionary.validate(s4b, true, settings);
      return false;
    } catch (Exception error) {
      return true;
    }
  }

  private long timed(int n, Work work) throws Exception {
    long start = System.nanoTime();
    for (int i = 0; i < n; i++) {
      sink = work.once(i);
    }
    return System.nanoTime() - start;
  }

  private long run(String operation, String setName, int n) throws Exception {
    if (setName.equals("hftest")) {
      return runHftest(operation, n);
    }
    Set set = setName.equals("fixed") ? fixed : varied;
    int size = set.frames.size();
    switch (operation) {
      case "decode":
        return timed(n, i -> decode(set.frames.get(i % size)));
      case "decode-read":
        return timed(n, i -> read(decode(set.frames.get(i % size))));
      case "decode-validate":
        return timed(n, i -> {
          Message message = decode(set.frames.get(i % size));
          fix44.validate(message, settings);
          return message;
        });
      case "build-encode":
        return timed(n, i -> built(set.orders.get(i % size), i).toString());
      case "encode":
        return encode(set, n);
      case "validate-fix42":
        return timed(n, i -> {
          fix42.validate(s4b, settings);
          return s4b;
        });
      case "validate-fix44":
        return timed(n, i -> refuses(fix44));
      default:
        throw new IllegalArgumentException("unknown operation " + operation);
    }
  }

  /** The messages of S2b, FIX 4.2, of both types in turn. */
  private long runHftest(String operation, int n) throws Exception {
    return switch (operation) {
      case "decode" -> timed(n, hftest::decode);
      case "decode-validate" -> timed(n, hftest::validated);
      case "build-encode" -> timed(n, i -> hftest.built(i, moment(i)).toString());
      default -> throw new IllegalArgumentException("unknown operation " + operation);
    };
  }

  /** Only the turning into text is timed: messages are built before, in small batches. */
  private long encode(Set set, int n) throws Exception {
    NewOrderSingle[] batch = new NewOrderSingle[16];
    long ns = 0;
    for (int done = 0; done < n; done += batch.length) {
      for (int i = 0; i < batch.length; i++) {
        batch[i] = built(set.orders.get((done + i) % set.orders.size()), done + i);
      }
      ns += timed(Math.min(batch.length, n - done), i -> batch[i].toString());
    }
    return ns;
  }

  public static void main(String[] arguments) throws Exception {
    if (arguments.length != 1) {
      System.err.println("usage: java -jar quickfixj.jar FOLDER");
      System.exit(2);
    }
    String version = Codec.class.getPackage().getImplementationVersion();
    try (var manifest = Codec.class.getResourceAsStream("/META-INF/MANIFEST.MF")) {
      String found = new java.util.jar.Manifest(manifest).getMainAttributes().getValue("Peer-Version");
      version = found == null ? "unknown" : found;
    }
    Codec codec = new Codec(Path.of(arguments[0]));
    String[] operations = {"decode", "decode-read", "decode-validate", "build-encode", "encode",
        "validate-fix42", "validate-fix44"};
    // Compiled code only is compared.
    for (int round = 0; round < 5; round++) {
      for (String operation : operations) {
        codec.run(operation, "fixed", 10_000);
        codec.run(operation, "varied", 10_000);
      }
      for (String operation : new String[] {"decode", "decode-validate", "build-encode"}) {
        codec.run(operation, "hftest", 10_000);
      }
    }
    System.out.println("ready quickfixj-" + version + " " + String.join(" ", operations));
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = input.readLine()) != null;) {
      String[] words = line.split(" ");
      System.out.println(codec.run(words[0], words[1], Integer.parseInt(words[2])));
    }
  }
}
