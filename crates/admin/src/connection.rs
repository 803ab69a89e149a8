//! One HTTP/1.1 connection, from its start until it ends or exceeds a time limit.
//!
//! Invariant: each phase of a request has its own time limit, so no client can hold a connection
//! open. The phases are the head including the wait for its first byte, the body, and each part of
//! an answer.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{ConnectInfo, Request};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep, timeout};

use crate::answer::Refusal;
use crate::places::ConnectionPermit;

/// Time limit for a TLS handshake, and for the head of a request. The time for a head starts with
/// the connection or with the end of the previous answer.
pub(crate) const HEAD_TIME: Duration = Duration::from_secs(10);
/// Time limit for the body of a request.
const BODY_TIME: Duration = Duration::from_secs(10);
/// Time limit within which a client must read [`READ_BYTES`] of an answer, or the rest of the
/// answer.
const READ_TIME: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 64 << 10;
/// Maximum length of a request's body, in bytes.
const BODY_MAX: usize = 64 << 10;
/// Maximum length of a request's head, and size of the read and write buffers, in bytes.
const BUFFER_MAX: usize = 64 << 10;

/// Serves one connection of a client whose address is `from`.
pub(crate) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (from, seat): (SocketAddr, Arc<ConnectionPermit>),
    router: Router,
    open: Watcher,
) {
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        use tower::ServiceExt as _;
        request.extensions_mut().insert(ConnectInfo(from));
        request.extensions_mut().insert(Arc::clone(&seat));
        router.clone().oneshot(request)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(BUFFER_MAX);
    let stream = TokioIo::new(Written { stream, written: 0, timer: None });
    // The result is ignored, because a client that breaks the connection receives no answer.
    let _ = open.watch(builder.serve_connection(stream, service)).await;
}

/// Reads the whole body of a request before the handler runs; answers with 413 or 408 if the body
/// is too long or too slow.
pub(crate) async fn whole(request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    match timeout(BODY_TIME, to_bytes(body, BODY_MAX)).await {
        Ok(Ok(body)) => next.run(Request::from_parts(head, Body::from(body))).await,
        Ok(Err(_)) => {
            let why = format!(
                "the body has more than {BODY_MAX} bytes, or its end is missing; \
                               send a shorter or complete body"
            );
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, why).into_response()
        }
        Err(_) => {
            let why = "the body did not arrive in time; send the body immediately after the \
                       headers";
            Refusal::new(StatusCode::REQUEST_TIMEOUT, why).into_response()
        }
    }
}

/// A stream whose writes fail if the client stops reading.
struct Written<S> {
    stream: S,
    /// Number of bytes written since the timer was last reset.
    written: usize,
    /// Timer that runs while bytes wait to be written; `None` if none wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Written<S> {
    /// Returns `done` if the write or shutdown is ready, or a `TimedOut` error [`READ_TIME`] after
    /// the wait began.
    fn timed<T>(&mut self, cx: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            return done;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(READ_TIME)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn wrote(&mut self, done: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(n)) = done {
            self.written += n;
            if self.written >= READ_BYTES {
                self.rest();
            }
        }
    }

    fn rest(&mut self) {
        (self.written, self.timer) = (0, None);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Written<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Written<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.wrote(&done);
        self.timed(cx, done)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.wrote(&done);
        self.timed(cx, done)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(cx);
        if done.is_ready() {
            self.rest();
        }
        self.timed(cx, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.timed(cx, done)
    }
}

#[cfg(test)]
mod tests {
    use axum::middleware;
    use axum::routing::{get, post};
    use hyper_util::server::graceful::GracefulShutdown;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;
    use crate::places::Places;

    /// Connects to a test server that returns a long answer at `/long` and echoes the body at
    /// `/body`.
    fn client() -> DuplexStream {
        let (ours, theirs) = duplex(1 << 10);
        let router = Router::new()
            .route("/long", get(|| async { vec![b'x'; 4 << 20] }))
            .route("/body", post(|body: String| async { body }))
            .layer(middleware::from_fn(whole));
        let from = SocketAddr::from(([192, 0, 2, 1], 5));
        let (seat, _, _) = Arc::<Places>::default().enter(from, None);
        let open = GracefulShutdown::new();
        let watcher = open.watcher();
        tokio::spawn(async move {
            serve(theirs, (from, Arc::new(seat)), router, watcher).await;
            drop(open);
        });
        ours
    }

    /// Sends `sends`, the last `slow` bytes one at a time, and then only reads. Returns the answer
    /// and the seconds until the connection ends.
    async fn end_of(sends: &str, slow: usize) -> (String, u64) {
        let (mut client, begun) = (client(), Instant::now());
        let (at_once, slowly) = sends.split_at(sends.len() - slow);
        client.write_all(at_once.as_bytes()).await.unwrap();
        for byte in slowly.bytes() {
            sleep(Duration::from_secs(2)).await;
            if client.write_all(&[byte]).await.is_err() {
                break;
            }
        }
        let mut said = Vec::new();
        let _ = client.read_to_end(&mut said).await;
        (String::from_utf8_lossy(&said).into_owned(), begun.elapsed().as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn each_phase_of_a_request_ends_in_time() {
        let head = "POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\n\r\n";
        for (what, sends, slow, says) in [
            ("nothing", String::new(), 0, ""),
            ("half of a head", head[..30].to_owned(), 0, ""),
            ("a head byte by byte", head.to_owned(), head.len(), ""),
            ("no body", head.to_owned(), 0, "HTTP/1.1 408 "),
            ("a body byte by byte", format!("{head}{}", "x".repeat(30)), 30, "HTTP/1.1 408 "),
            ("no second request", format!("{head}{}", "x".repeat(30)), 0, "HTTP/1.1 200 "),
            ("HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 0, ""),
        ] {
            let (said, after_s) = end_of(&sends, slow).await;
            assert!(said.starts_with(says), "{what}: {said}");
            assert!(!said.contains("\0"), "{what}: an answer of HTTP/2");
            assert!(after_s <= HEAD_TIME.as_secs() + 2, "{what}: after {after_s} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_nobody_reads_ends_in_time() {
        for pause in [None, Some(Duration::from_secs(1))] {
            let (mut client, begun) = (client(), Instant::now());
            client.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let mut read = 0;
            if let Some(pause) = pause {
                // The client reads 1 KiB per second.
                let mut part = [0; 1 << 10];
                while let Ok(n @ 1..) = client.read(&mut part).await {
                    read += n;
                    sleep(pause).await;
                }
            } else {
                sleep(2 * READ_TIME).await;
                read = client.read_to_end(&mut Vec::new()).await.unwrap_or_default();
            }
            assert!(read < 1 << 20, "{read} bytes are no whole answer");
            assert!(begun.elapsed() <= 3 * READ_TIME, "after {:?}", begun.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_gets_all_of_its_answer() {
        let mut client = client();
        client.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let (mut part, mut read) = ([0; 1 << 10], 0);
        while let Ok(Ok(n @ 1..)) = timeout(HEAD_TIME, client.read(&mut part)).await {
            read += n;
            sleep(Duration::from_millis(100)).await;
        }
        assert!(read > 4 << 20, "{read} bytes");
    }
}
