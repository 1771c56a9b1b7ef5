//! The embedded OTLP receiver: one loopback port that takes the spans of services and scenarios, keeps those of this run
//! and passes everything on to where the user wants it.

pub(crate) mod archive;
mod counts;
mod decode;
pub(crate) mod forward;
mod gone;
mod json;
pub(crate) mod redact;
mod said;
mod server;
pub(crate) mod signal;
pub(crate) mod store;
#[cfg(test)]
mod tests;
mod view;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::model::id::{RunId, TracePrefix};

pub(crate) use counts::ReceiverCounts;
pub(crate) use server::Outlet;

use counts::Counters;
use decode::Decoder;
use forward::{ForwardError, ForwardOptions, Forwarder};
use server::{Ingest, Shared};
use store::{CompletedTrace, Progress, SpanStore};

/// The registered port of OTLP: what exports to the default endpoint arrives here.
pub(crate) const OTLP_PORT: u16 = 4317;

/// How much of the spans of traces that are not complete is kept by default.
pub(crate) const STORE_BYTES: usize = 256 << 20;

/// How many complete traces are handed over at a time.
const SWEPT: usize = 256;

#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The port to listen on, if it is free; else, and with `None`, any that is.
    pub(crate) port: Option<u16>,
    /// Whose resource attribute `loadtest.run.id` may speak of the load.
    pub(crate) run: RunId,
    /// Whose traces are kept.
    pub(crate) trace_prefix: TracePrefix,
    /// How much is kept of traces that are not complete.
    pub(crate) store_bytes: usize,
    /// How long nothing may have come for a trace whose root is there, for it to count as complete.
    pub(crate) quiet: Duration,
    pub(crate) forward: Option<ForwardOptions>,
}

/// Why the receiver could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("cannot listen on a free port of 127.0.0.1")]
    Listen(#[source] io::Error),
    #[error("cannot start a thread for the receiver")]
    Thread(#[source] io::Error),
    #[error(transparent)]
    Forward(#[from] ForwardError),
}

/// A receiver that is running. Dropped, it stops at once; [`Receiver::stop`] lets what is under way end.
#[derive(Debug)]
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
    forwarder: Option<Forwarder>,
}

impl Receiver {
    /// Listens on a port of 127.0.0.1, on a thread of its own.
    pub(crate) fn start(options: Options) -> Result<Self, ReceiveError> {
        let (listener, address) = server::listen(options.port).map_err(ReceiveError::Listen)?;
        let counters = Arc::new(Counters::default());
        let (forwarder, queue) = options
            .forward
            .as_ref()
            .map(|forward| Forwarder::start(forward, address, counters.clone()))
            .transpose()?
            .unzip();
        let ingest = Ingest {
            decoder: Decoder::new(options.run, options.trace_prefix),
            store: SpanStore::new(options.store_bytes, options.quiet),
        };
        let shared = Arc::new(Shared::new(ingest, counters, queue));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(ReceiveError::Thread)?;
        let listener = {
            let _inside = runtime.enter();
            TcpListener::from_std(listener).map_err(ReceiveError::Listen)?
        };
        let (stop, stopped) = oneshot::channel();
        let serving = server::serve(listener, shared.clone(), address.port(), stopped);
        let thread = std::thread::Builder::new()
            .name("otlp-receive".to_owned())
            .spawn(move || runtime.block_on(serving))
            .map_err(ReceiveError::Thread)?;
        Ok(Self { address, shared, stop, thread, forwarder })
    }

    /// Where it listens, for gRPC and for HTTP.
    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// For what the tool itself has to tell the target that is forwarded to.
    pub(crate) fn outlet(&self) -> Outlet {
        Outlet::new(self.shared.clone())
    }

    pub(crate) fn counts(&self) -> ReceiverCounts {
        self.shared.counts()
    }

    /// How far the run's spans have come in. At the end of a run, wait until this stops changing.
    pub(crate) fn progress(&self) -> Progress {
        self.shared.ingest(|ingest| ingest.store.progress())
    }

    /// Hands over the traces that are complete at `now`. To be called some times a second: what is complete takes
    /// room until then.
    pub(crate) fn sweep(&self, now: Instant, mut sink: impl FnMut(CompletedTrace)) {
        loop {
            // Some at a time: spans come in meanwhile, and what was taken is still in the cache when it is looked at.
            let taken = self.shared.ingest(|ingest| ingest.store.take_complete(now, SWEPT));
            if taken.is_empty() {
                return;
            }
            taken.into_iter().for_each(&mut sink);
        }
    }

    /// Hands over all that is left, complete or not. What comes later counts as late.
    pub(crate) fn finish(&self, sink: impl FnMut(CompletedTrace)) {
        self.shared.ingest(|ingest| ingest.store.take_all()).into_iter().for_each(sink);
    }

    /// Stops: no new requests, about a second for those being answered, then at most `flush` for what waits to be
    /// forwarded. Answers the final counts.
    pub(crate) fn stop(self, flush: Duration) -> ReceiverCounts {
        let Self { address: _, shared, stop, thread, forwarder } = self;
        let _ = stop.send(());
        let _ = thread.join();
        if let Some(forwarder) = forwarder {
            forwarder.stop(flush);
        }
        shared.counts()
    }
}
