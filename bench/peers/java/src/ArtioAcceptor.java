// Artio as an acceptor of the common client: the options are in ../../README.md. Its codec, the
// package `venue`, is made from FIX42.xml when this is built.

import static io.aeron.CommonContext.IPC_CHANNEL;

import io.aeron.CommonContext;
import io.aeron.archive.Archive;
import io.aeron.archive.ArchiveThreadingMode;
import io.aeron.archive.ArchivingMediaDriver;
import io.aeron.archive.client.AeronArchive;
import io.aeron.driver.MediaDriver;
import io.aeron.driver.ThreadingMode;
import io.aeron.logbuffer.ControlledFragmentHandler.Action;
import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.IoUtil;
import org.agrona.concurrent.IdleStrategy;
import org.agrona.concurrent.YieldingIdleStrategy;
import uk.co.real_logic.artio.CommonConfiguration;
import uk.co.real_logic.artio.Pressure;
import uk.co.real_logic.artio.builder.Encoder;
import uk.co.real_logic.artio.engine.EngineConfiguration;
import uk.co.real_logic.artio.engine.FixEngine;
import uk.co.real_logic.artio.fields.UtcTimestampEncoder;
import uk.co.real_logic.artio.library.FixLibrary;
import uk.co.real_logic.artio.library.LibraryConfiguration;
import uk.co.real_logic.artio.library.OnMessageInfo;
import uk.co.real_logic.artio.library.SessionHandler;
import uk.co.real_logic.artio.messages.DisconnectReason;
import uk.co.real_logic.artio.messages.InitialAcceptedSessionOwner;
import uk.co.real_logic.artio.session.Session;
import uk.co.real_logic.artio.util.MutableAsciiBuffer;
import uk.co.real_logic.artio.validation.AuthenticationStrategy;
import uk.co.real_logic.artio.validation.MessageValidationStrategy;
import uk.co.real_logic.artio.validation.SessionPersistenceStrategy;
import venue.FixDictionaryImpl;
import venue.builder.ExecutionReportEncoder;
import venue.builder.NewOrderSingleEncoder;
import venue.builder.RejectEncoder;
import venue.decoder.NewOrderSingleDecoder;

public final class ArtioAcceptor implements SessionHandler {
  private static final int FRAGMENTS = 10;
  private static final long PAUSE_MS = 600_000;

  // A benchmark stops all processes but those that it measures: longer than Aeron waits for one that
  // gives no sign of life, as it comes. Its classes read the properties when they are loaded.
  static {
    System.setProperty("aeron.driver.timeout", Long.toString(PAUSE_MS));
    for (String name : List.of("client.liveness", "image.liveness", "publication.connection")) {
      System.setProperty("aeron." + name + ".timeout", PAUSE_MS + "ms");
    }
    System.setProperty("aeron.publication.unblock.timeout", 2 * PAUSE_MS + "ms");
  }
  private static long orders;

  private final Options options;
  private final MutableAsciiBuffer ascii = new MutableAsciiBuffer();
  private final NewOrderSingleDecoder order = new NewOrderSingleDecoder();
  private final NewOrderSingleEncoder back = new NewOrderSingleEncoder();
  private final ExecutionReportEncoder report = new ExecutionReportEncoder();
  private final RejectEncoder reject = new RejectEncoder();
  private final UtcTimestampEncoder time = new UtcTimestampEncoder();

  private ArtioAcceptor(Options options) {
    this.options = options;
    report.execTransType('0').execType('0').ordStatus('0').cumQty(0, 0).avgPx(0, 0);
  }

  public static void main(String[] arguments) {
    Options.serve(arguments, ArtioAcceptor::start);
  }

  private static int start(Options options) throws Exception {
    // Read once, when the first class of the codec is loaded.
    System.setProperty("fix.codecs.no_validation", Boolean.toString(!options.validate));
    String aeron = CommonContext.generateRandomDirName();
    String files = options.store == null ? aeron + "-artio" : options.store;
    Options.atEnd = () -> {
      IoUtil.delete(new File(aeron), true);
      if (options.store == null) {
        IoUtil.delete(new File(files), true);
      }
    };
    MediaDriver.Context driver = new MediaDriver.Context().aeronDirectoryName(aeron)
        .threadingMode(ThreadingMode.SHARED)
        .sharedIdleStrategy(CommonConfiguration.backoffIdleStrategy());
    if (options.store == null) {
      MediaDriver.launch(driver);
    } else {
      ArchivingMediaDriver.launch(driver, archive(aeron, files, options));
    }
    int port = Options.freePort();
    FixEngine.launch(engine(options, aeron, files, port));
    FixLibrary library = FixLibrary.connect(library(options, aeron, files));
    IdleStrategy idle = idle(options);
    while (!library.isConnected()) {
      idle.idle(library.poll(FRAGMENTS));
    }
    Thread loop = new Thread(() -> {
      while (true) {
        idle.idle(library.poll(FRAGMENTS));
      }
    });
    loop.setDaemon(true);
    loop.start();
    return port;
  }

  /** Several threads spin: those of one CPU must let each other run. */
  private static IdleStrategy idle(Options options) {
    return options.polling ? YieldingIdleStrategy.INSTANCE
        : CommonConfiguration.backoffIdleStrategy();
  }

  private static Archive.Context archive(String aeron, String files, Options options) {
    return new Archive.Context().aeronDirectoryName(aeron)
        .archiveDirectoryName(Path.of(files, "archive").toString())
        .threadingMode(ArchiveThreadingMode.SHARED)
        .idleStrategySupplier(() -> idle(options))
        .controlChannelEnabled(false)
        .recordingEventsEnabled(false)
        .archiveClientContext(new AeronArchive.Context().controlResponseChannel(IPC_CHANNEL))
        .replicationChannel("aeron:udp?endpoint=127.0.0.1:0");
  }

  private static EngineConfiguration engine(Options options, String aeron, String files, int port) {
    List<String> names = new ArrayList<>();
    for (int i = 0; i < options.sessions; i++) {
      names.add("C" + i);
    }
    boolean stores = options.store != null;
    EngineConfiguration engine = new EngineConfiguration()
        .bindTo("127.0.0.1", port)
        .libraryAeronChannel(IPC_CHANNEL)
        .logFileDir(Path.of(files, "logs").toString())
        .monitoringFile(Path.of(files, "engine-counters").toString())
        .logInboundMessages(stores)
        .logOutboundMessages(stores)
        .sessionPersistenceStrategy(stores ? SessionPersistenceStrategy.alwaysPersistent()
            : SessionPersistenceStrategy.alwaysTransient())
        .acceptorfixDictionary(FixDictionaryImpl.class)
        .initialAcceptedSessionOwner(InitialAcceptedSessionOwner.SOLE_LIBRARY)
        .authenticationStrategy(AuthenticationStrategy.of(MessageValidationStrategy
            .targetCompId("VENUE").and(MessageValidationStrategy.senderCompId(names))))
        .framerIdleStrategy(idle(options))
        .archiverIdleStrategy(idle(options));
    engine.replyTimeoutInMs(PAUSE_MS);
    engine.aeronContext().aeronDirectoryName(aeron);
    if (stores) {
      engine.aeronArchiveContext().aeronDirectoryName(aeron)
          .controlRequestChannel(AeronArchive.Configuration.localControlChannel())
          .controlRequestStreamId(AeronArchive.Configuration.localControlStreamId())
          .controlResponseChannel(IPC_CHANNEL);
    }
    return engine;
  }

  private static LibraryConfiguration library(Options options, String aeron, String files) {
    LibraryConfiguration library = new LibraryConfiguration()
        .libraryAeronChannels(List.of(IPC_CHANNEL))
        .monitoringFile(Path.of(files, "library-counters").toString())
        .libraryIdleStrategy(idle(options))
        .sessionAcquireHandler((session, acquired) -> new ArtioAcceptor(options));
    library.replyTimeoutInMs(PAUSE_MS);
    library.aeronContext().aeronDirectoryName(aeron);
    return library;
  }

  @Override
  public Action onMessage(DirectBuffer buffer, int offset, int length, int libraryId,
      Session session, int sequenceIndex, long messageType, long timestamp, long position,
      OnMessageInfo message) {
    if (messageType != NewOrderSingleDecoder.MESSAGE_TYPE) {
      return Action.CONTINUE;
    }
    ascii.wrap(buffer);
    order.reset();
    order.decode(ascii, offset, length);
    // The library leaves the check of its applications' messages to them.
    Encoder answer;
    if (options.validate && !order.validate()) {
      answer = reject();
    } else {
      answer = options.echo ? order.toEncoder(back) : report();
    }
    // Without room for it, the message comes again.
    return Pressure.apply(session.trySend(answer));
  }

  private RejectEncoder reject() {
    reject.reset();
    return reject.refSeqNum(order.header().msgSeqNum()).refTagID(order.invalidTagId())
        .refMsgType(order.header().msgType(), order.header().msgTypeLength())
        .sessionRejectReason(order.rejectReason());
  }

  /** Reads the order's fields, and fills the report that FIX 4.2 wants. */
  private ExecutionReportEncoder report() {
    order.header().senderCompID();
    order.header().targetCompID();
    if (order.hasTimeInForce()) {
      order.timeInForce();
    }
    if (order.ordType() == '2') {
      report.price(order.price());
    } else {
      report.resetPrice();
    }
    String number = Long.toString(++orders);
    int timeLength = time.encode(System.currentTimeMillis());
    return report.clOrdID(order.clOrdID(), order.clOrdIDLength()).orderID(number).execID(number)
        .symbol(order.symbol(), order.symbolLength()).side(order.side())
        .orderQty(order.orderQty()).leavesQty(order.orderQty())
        .transactTime(time.buffer(), timeLength);
  }

  @Override
  public Action onDisconnect(int libraryId, Session session, DisconnectReason reason) {
    return Action.CONTINUE;
  }

  @Override public void onTimeout(int libraryId, Session session) {}
  @Override public void onSlowStatus(int libraryId, Session session, boolean slow) {}
  @Override public void onSessionStart(Session session) {}
}
