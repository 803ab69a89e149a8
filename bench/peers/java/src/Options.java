// The command line of the acceptors: `--key value` pairs, and what they have in common.

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

final class Options {
  /** What an engine's files in memory need before the process ends. */
  static Runnable atEnd = () -> {};

  final int sessions;
  /** A folder; null is memory. */
  final String store;
  final boolean validate;
  final String dictionary;
  final boolean echo;
  final boolean polling;

  private Options(Map<String, String> values) {
    sessions = Integer.parseInt(values.get("sessions"));
    store = values.get("store").equals("memory") ? null : values.get("store");
    validate = oneOf(values, "validate", "no", "yes");
    dictionary = values.get("dictionary");
    echo = oneOf(values, "answer", "report", "echo");
    polling = oneOf(values, "mode", "default", "polling");
    if (sessions < 1) {
      throw new IllegalArgumentException("--sessions is 1 or more");
    }
    if (validate && !Files.isRegularFile(Path.of(dictionary))) {
      throw new IllegalArgumentException("--validate yes needs --dictionary FILE");
    }
  }

  /** Starts an acceptor; what it throws is written to standard error, and ends it with code 2. */
  interface Start {
    /** Returns the port. */
    int with(Options options) throws Exception;
  }

  static void serve(String[] arguments, Start start) {
    int port;
    try {
      port = start.with(read(arguments));
    } catch (Exception error) {
      System.err.println(error);
      end(2);
      return;
    }
    System.out.println("127.0.0.1:" + port);
    waitForEnd();
    end(0);
  }

  /** Stopping an engine takes seconds, and says nothing more. */
  private static void end(int code) {
    atEnd.run();
    Runtime.getRuntime().halt(code);
  }

  private static Options read(String[] arguments) {
    Map<String, String> values = new HashMap<>(Map.of("sessions", "1", "store", "memory",
        "validate", "yes", "dictionary", "", "answer", "report", "mode", "default"));
    for (int i = 0; i < arguments.length; i += 2) {
      String key = arguments[i];
      if (!key.startsWith("--") || !values.containsKey(key.substring(2))) {
        throw new IllegalArgumentException("unknown option " + key);
      }
      if (i + 1 == arguments.length) {
        throw new IllegalArgumentException("no value for " + key);
      }
      values.put(key.substring(2), arguments[i + 1]);
    }
    return new Options(values);
  }

  private static boolean oneOf(Map<String, String> values, String key, String no, String yes) {
    String value = values.get(key);
    if (!List.of(no, yes).contains(value)) {
      throw new IllegalArgumentException("--" + key + " cannot be " + value);
    }
    return value.equals(yes);
  }

  /** For an engine that has no such mode, store or check. */
  void refuse(boolean refused, String what) {
    if (refused) {
      throw new IllegalArgumentException("this engine has no " + what);
    }
  }

  /** A port that is free now, for an engine that cannot let the system choose one. */
  static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static void waitForEnd() {
    try (InputStream input = System.in) {
      while (input.read() >= 0) {}
    } catch (IOException error) {
      // It has ended as well.
    }
  }
}
