//! Passing on what was received, byte for byte, on a thread of its own: whatever the target does, the receiver never
//! waits for it.

mod target;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::counts::Counters;
use super::signal::{Message, Signal};
pub(crate) use target::ForwardError;
use target::{Delivery, Target};

/// How much may wait for the target.
const QUEUE_MESSAGES: usize = 4096;
const QUEUE_BYTES: usize = 64 << 20;

/// How many requests are under way at once.
const CONCURRENT: usize = 4;

/// The pauses between attempts double from the first to the longest. No target may ask for less than the shortest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// How long a message is tried by default.
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardProtocol {
    Grpc,
    Http,
}

/// Where to forward to.
#[derive(Debug, Clone)]
pub(crate) struct ForwardOptions {
    pub(crate) protocol: ForwardProtocol,
    /// By signal; what has none is not forwarded.
    pub(crate) endpoints: BTreeMap<Signal, Endpoint>,
    /// How long a message is tried.
    pub(crate) give_up_after: Duration,
}

/// Where one signal goes.
#[derive(Clone)]
pub(crate) struct Endpoint {
    /// With HTTP it is used as it is, with gRPC its path is left out.
    pub(crate) url: String,
    /// Sent with every request of this signal, to nobody else, and secret.
    pub(crate) headers: BTreeMap<String, String>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("url", &self.url)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl ForwardOptions {
    /// What is tried for the usual time.
    pub(crate) fn new(protocol: ForwardProtocol, endpoints: BTreeMap<Signal, Endpoint>) -> Self {
        Self { protocol, endpoints, give_up_after: GIVE_UP_AFTER }
    }

    /// All signals to one endpoint, such as `http://127.0.0.1:4317` (gRPC) or `http://127.0.0.1:4318` (HTTP, to which
    /// the paths of the signals are added).
    #[cfg(test)]
    pub(crate) fn all_to(protocol: ForwardProtocol, endpoint: &str) -> Self {
        let url = |signal: Signal| match protocol {
            ForwardProtocol::Grpc => endpoint.to_owned(),
            ForwardProtocol::Http => format!("{}{}", endpoint.trim_end_matches('/'), signal.http_path()),
        };
        let endpoint = |signal| (signal, Endpoint { url: url(signal), headers: BTreeMap::new() });
        Self::new(protocol, Signal::ALL.map(endpoint).into())
    }
}

/// The end of the queue that the receiver puts messages into.
#[derive(Debug)]
pub(super) struct Queue {
    messages: mpsc::Sender<Waiting>,
    bytes: Arc<AtomicUsize>,
    target: Arc<Target>,
    counters: Arc<Counters>,
}

/// A message in the queue, or under way.
#[derive(Debug)]
struct Waiting {
    message: Message,
    bytes: Arc<AtomicUsize>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.message.len(), Ordering::Relaxed);
    }
}

impl Queue {
    /// Puts a message into the queue, or drops it and counts it.
    pub(super) fn offer(&self, message: Message) {
        if !self.target.takes(message.signal) {
            return;
        }
        let before = self.bytes.fetch_add(message.len(), Ordering::Relaxed);
        let fits = before + message.len() <= QUEUE_BYTES;
        let waiting = Waiting { message, bytes: self.bytes.clone() };
        if !fits || self.messages.try_send(waiting).is_err() {
            self.counters.forward_dropped.add(1);
        }
    }
}

/// The thread that forwards.
#[derive(Debug)]
pub(super) struct Forwarder {
    thread: JoinHandle<()>,
    stop: oneshot::Sender<Duration>,
}

impl Forwarder {
    /// Starts forwarding for the receiver at `ours`.
    pub(super) fn start(
        options: &ForwardOptions,
        ours: SocketAddr,
        counters: Arc<Counters>,
    ) -> Result<(Self, Queue), ForwardError> {
        let target = Arc::new(Target::new(options, ours)?);
        let (messages, waiting) = mpsc::channel(QUEUE_MESSAGES);
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ForwardError::Thread)?;
        let queue =
            Queue { messages, bytes: Arc::default(), target: target.clone(), counters: counters.clone() };
        let give_up_after = options.give_up_after;
        let thread = std::thread::Builder::new()
            .name("otlp-forward".to_owned())
            .spawn(move || {
                runtime.block_on(run(
                    waiting,
                    stopped,
                    &Arc::new(Courier { target, counters, give_up_after }),
                ));
                runtime.shutdown_background();
            })
            .map_err(ForwardError::Thread)?;
        Ok((Self { thread, stop }, queue))
    }

    /// Ends the thread, after at most `flush` for what is still in the queue.
    pub(super) fn stop(self, flush: Duration) {
        let _ = self.stop.send(flush);
        let _ = self.thread.join();
    }
}

#[derive(Debug)]
struct Courier {
    target: Arc<Target>,
    counters: Arc<Counters>,
    give_up_after: Duration,
}

async fn run(
    mut queue: mpsc::Receiver<Waiting>,
    mut stop: oneshot::Receiver<Duration>,
    courier: &Arc<Courier>,
) {
    let mut under_way = JoinSet::new();
    let flush = loop {
        tokio::select! {
            flush = &mut stop => break flush.unwrap_or_default(),
            Some(_) = under_way.join_next() => {}
            Some(waiting) = queue.recv(), if under_way.len() < CONCURRENT => {
                under_way.spawn(courier.clone().deliver(waiting));
            }
        }
    };
    queue.close();
    let _ = tokio::time::timeout(flush, async {
        loop {
            while under_way.len() < CONCURRENT
                && let Ok(waiting) = queue.try_recv()
            {
                under_way.spawn(courier.clone().deliver(waiting));
            }
            if under_way.join_next().await.is_none() {
                break;
            }
        }
    })
    .await;
    let mut left = under_way.len() as u64;
    while queue.try_recv().is_ok() {
        left += 1;
    }
    courier.counters.forward_dropped.add(left);
}

impl Courier {
    async fn deliver(self: Arc<Self>, waiting: Waiting) {
        let delivered = tokio::time::timeout(self.give_up_after, self.insist(&waiting.message)).await;
        let counter = match delivered {
            Ok(true) => &self.counters.forwarded,
            Ok(false) | Err(_) => &self.counters.forward_failed,
        };
        counter.add(1);
    }

    /// Tries until the target takes the message or refuses it for good; the caller bounds the time.
    async fn insist(&self, message: &Message) -> bool {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.target.send(message).await {
                Delivery::Taken => return true,
                Delivery::Refused => return false,
                Delivery::TryAgain { after } => {
                    // Not all at the same moment.
                    let own = || pause.mul_f64(0.5 + fastrand::f64());
                    tokio::time::sleep(after.unwrap_or_else(own).max(SHORTEST_PAUSE)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }
}
