// The FileStore of QuickFIX/J: FOLDER N SYNC appends N messages of 200 bytes, each with its number
// as the engine does it, and reads 1,000 of them for a resend. SYNC is Y or N, its FileStoreSync.
// Prints the nanoseconds for each.

import java.util.ArrayList;
import java.util.List;
import quickfix.FileStoreFactory;
import quickfix.MessageStore;
import quickfix.SessionID;
import quickfix.SessionSettings;

public final class StoreBench {
  public static void main(String[] args) throws Exception {
    int n = Integer.parseInt(args[1]);
    SessionID id = new SessionID("FIX.4.4", "US", "THEM");
    SessionSettings settings = new SessionSettings();
    settings.setString("FileStorePath", args[0]);
    settings.setString("FileStoreSync", args[2]);
    MessageStore store = new FileStoreFactory(settings).create(id);
    String message = "x".repeat(200);
    double append = 0;
    // The first half warms the compiler up.
    for (int half = 0; half < 2; half++) {
      long begun = System.nanoTime();
      for (int seq = half * n / 2 + 1; seq <= (half + 1) * n / 2; seq++) {
        store.set(seq, message);
        store.incrNextSenderMsgSeqNum();
      }
      append = (System.nanoTime() - begun) / (n / 2.0);
    }
    long begun = System.nanoTime();
    List<String> read = new ArrayList<>();
    store.get(n / 2, n / 2 + 999, read);
    if (read.size() != 1000) throw new IllegalStateException("not all were read");
    System.out.println(append + " " + (System.nanoTime() - begun) / 1000.0);
  }
}
