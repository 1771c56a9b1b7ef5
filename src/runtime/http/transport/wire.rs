//! A stream that notes when a request went out and when its answer began to come in.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sys::clock;

/// What one exchange after the other on a connection looks like from the socket.
///
/// The connection and whoever waits for it are on one thread: the atomics are for the compiler, which does not know.
#[derive(Debug)]
pub(super) struct Marks {
    origin: Instant,
    /// Something of the request has left, or may have.
    touched: AtomicBool,
    /// When all that was written had been handed over, the last time before the answer began. Nanoseconds after
    /// `origin`; 0: not yet.
    sent: AtomicU64,
    /// When the first byte of the answer came, likewise.
    answered: AtomicU64,
}

impl Marks {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            origin: clock::now(),
            touched: AtomicBool::new(false),
            sent: AtomicU64::new(0),
            answered: AtomicU64::new(0),
        })
    }

    /// An exchange begins.
    pub(super) fn begin(&self) {
        self.touched.store(false, Ordering::Relaxed);
        self.sent.store(0, Ordering::Relaxed);
        self.answered.store(0, Ordering::Relaxed);
    }

    /// Whether any byte of the request can have reached the server.
    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    pub(super) fn sent(&self) -> Option<Instant> {
        self.instant(&self.sent)
    }

    pub(super) fn answered(&self) -> Option<Instant> {
        self.instant(&self.answered)
    }

    fn instant(&self, mark: &AtomicU64) -> Option<Instant> {
        match mark.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(self.origin + Duration::from_nanos(nanos)),
        }
    }

    fn note(&self, mark: &AtomicU64) {
        let nanos = clock::now().saturating_duration_since(self.origin).as_nanos() as u64;
        mark.store(nanos.max(1), Ordering::Relaxed);
    }

    fn has_answer(&self) -> bool {
        self.answered.load(Ordering::Relaxed) != 0
    }
}

/// The stream beneath HTTP/1.
#[derive(Debug)]
pub(super) struct Wire<S> {
    stream: S,
    marks: Arc<Marks>,
    /// Something was written since the last flush.
    is_dirty: bool,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, marks: Arc<Marks>) -> Self {
        Self { stream, marks, is_dirty: false }
    }

    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        if matches!(written, Poll::Ready(Ok(1..))) {
            self.is_dirty = true;
            self.marks.touched.store(true, Ordering::Relaxed);
        }
        if matches!(written, Poll::Ready(Ok(1..)) | Poll::Pending) && !self.marks.has_answer() {
            // More is to be sent than had been flushed before.
            self.marks.sent.store(0, Ordering::Relaxed);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buffer);
        // What comes before anything was sent is no answer.
        if buffer.filled().len() > before && !this.marks.has_answer() && this.marks.is_touched() {
            this.marks.note(&this.marks.answered);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(&written);
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.stream).poll_write_vectored(cx, slices);
        this.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let flushed = Pin::new(&mut this.stream).poll_flush(cx);
        if this.is_dirty && matches!(flushed, Poll::Ready(Ok(()))) {
            this.is_dirty = false;
            // An answer that comes before the request has gone out ends the sending, as far as it is waited for.
            if !this.marks.has_answer() {
                this.marks.note(&this.marks.sent);
            }
        }
        flushed
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
