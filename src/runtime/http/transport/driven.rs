//! A connection of HTTP/1 that is driven by whoever waits for something on it, and by no task of its own: the answer is
//! handled where it is read, while all of it is at hand.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::coop::has_budget_remaining;

type Connection = Pin<Box<dyn Future<Output = hyper::Result<()>> + Send>>;

/// hyper's end of a connection.
pub(super) struct Driven {
    /// Until it has ended.
    connection: Option<Connection>,
    gate: Arc<Gate>,
    waker: Waker,
}

/// Where wake-ups of the connection go.
///
/// Everything happens on one thread; the atomics are for the compiler, which does not know.
#[derive(Debug)]
struct Gate {
    /// Something was woken since the connection was polled last.
    is_woken: AtomicBool,
    /// It is being driven: who drives it need not be woken.
    is_driven: AtomicBool,
    driver: AtomicWaker,
}

impl Wake for Gate {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Relaxed);
        if !self.is_driven.load(Ordering::Relaxed) {
            self.driver.wake();
        }
    }
}

impl Driven {
    pub(super) fn new(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) -> Self {
        let gate = Arc::new(Gate {
            is_woken: AtomicBool::new(true),
            is_driven: AtomicBool::new(false),
            driver: AtomicWaker::new(),
        });
        Self { connection: Some(Box::pin(connection)), waker: gate.clone().into(), gate }
    }

    /// Does `act`, which wakes the connection: it is polled the next time, and nobody need be told.
    pub(super) fn quietly<T>(&self, act: impl FnOnce() -> T) -> T {
        self.gate.is_driven.store(true, Ordering::Relaxed);
        let done = act();
        self.gate.is_driven.store(false, Ordering::Relaxed);
        done
    }

    /// Drives the connection until it is at rest or `wanted` is there, which nothing but the connection can bring.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.gate.is_driven.store(true, Ordering::Relaxed);
        let found = self.drive(cx, wanted);
        self.gate.is_driven.store(false, Ordering::Relaxed);
        // It wants to be polled again, or this task is to let others go first.
        if found.is_pending() && (self.is_woken() || !has_budget_remaining()) {
            cx.waker().wake_by_ref();
        }
        found
    }

    fn drive<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut wanted: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let quiet = &mut Context::from_waker(Waker::noop());
        let found = wanted(quiet);
        if found.is_ready() {
            return found;
        }
        self.gate.driver.register(cx.waker());
        if !self.gate.is_woken.swap(false, Ordering::Relaxed) {
            return Poll::Pending;
        }
        if let Some(connection) = &mut self.connection
            // Whoever waits for something on it is told an error too.
            && connection.as_mut().poll(&mut Context::from_waker(&self.waker)).is_ready()
        {
            self.connection = None;
        }
        wanted(quiet)
    }

    /// Whether the connection is to be polled: something happened to it since it was last.
    pub(super) fn is_woken(&self) -> bool {
        self.gate.is_woken.load(Ordering::Relaxed)
    }

    /// Has it polled the next time, or not, whatever happened.
    pub(super) fn set_woken(&self, is_woken: bool) {
        self.gate.is_woken.store(is_woken, Ordering::Relaxed);
    }

    /// Lets the connection see what has happened since it was polled last, such as its end.
    pub(super) fn look(&mut self, cx: &mut Context<'_>) {
        let mut first = true;
        let _ = self.poll(cx, |_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) });
    }
}

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driven").field("gate", &self.gate).finish_non_exhaustive()
    }
}
