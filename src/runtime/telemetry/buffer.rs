//! Where finished spans wait for the export thread: a bounded buffer for each tracer, in which they are encoded already,
//! and a bounded queue for the author's own.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;

use bytes::Bytes;
use opentelemetry_sdk::trace::SpanData;

use super::encode::{self, Envelope};
use super::span::{SpanRecord, What};
use crate::model::secret::Secrets;
use crate::model::stats::Phase;

/// Spans of the author's own that may wait for the export thread.
const AUTHORS: usize = 8192;
/// What one request holds: some hundreds of spans. So much in one buffer, and the export thread is woken.
const CHUNK: usize = 256 << 10;
/// Chunks that may wait for the export thread: 64 MiB, more than 100,000 spans.
const CHUNKS: usize = 256;
/// Emptied chunks that are kept to be filled again.
const SPARES: usize = 8;

/// A sampled request that stands for others of about its duration.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) seconds: f64,
    pub(super) at_ns: u64,
    pub(super) trace: [u8; 16],
    pub(super) span: [u8; 8],
}

/// The latest sample of each power of two, by step.
pub(super) type Samples = HashMap<Arc<str>, BTreeMap<i32, Sample>>;

/// Encoded spans of one scenario, after room for what a request has before them.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) spans: u64,
    pub(super) samples: Samples,
}

impl Chunk {
    fn note(&mut self, span: &SpanRecord) {
        let What::Request(request) = &span.what else { return };
        if !request.expected || span.iteration.phase != Phase::Load {
            return;
        }
        let seconds = span.end_ns.saturating_sub(span.start_ns) as f64 / 1e9;
        let sample = Sample {
            seconds,
            at_ns: span.end_ns,
            trace: span.iteration.trace.0.to_be_bytes(),
            span: span.id.0.to_be_bytes(),
        };
        let class = seconds.max(1e-6).log2() as i32;
        match self.samples.get_mut(&request.name) {
            Some(samples) => {
                samples.insert(class, sample);
            }
            None => {
                self.samples.insert(request.name.clone(), BTreeMap::from([(class, sample)]));
            }
        }
    }
}

/// The spans of one scenario on one worker thread. The thread writes; some times a second the export thread takes what is
/// there, and holds the lock for as long as two vectors change places.
#[derive(Debug)]
pub(crate) struct SpanBuffer {
    scenario: Arc<str>,
    filling: Mutex<Filling>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Filling {
    chunk: Chunk,
    /// Room to build a span in.
    scratch: Vec<u8>,
}

impl SpanBuffer {
    /// Takes a finished span. When a chunk is full and too many wait already, its spans are dropped and counted.
    pub(super) fn push(&self, span: &SpanRecord) {
        let mut filling = self.lock();
        let Filling { chunk, scratch } = &mut *filling;
        if chunk.bytes.is_empty() {
            chunk.bytes.resize(self.shared.envelope.room(), 0);
        }
        encode::span(&mut chunk.bytes, scratch, span, &self.shared.secrets);
        chunk.spans += 1;
        chunk.note(span);
        if chunk.bytes.len() >= CHUNK {
            let bytes =
                locked(&self.shared.spares).pop().unwrap_or_else(|| Vec::with_capacity(CHUNK + CHUNK / 8));
            let full = mem::replace(chunk, Chunk { bytes, ..Chunk::default() });
            drop(filling);
            self.shared.hand_over(self.scenario.clone(), full);
        }
    }

    /// The scenario's name, for the spans: threads that count references to the same one get into each other's way.
    pub(super) fn scenario(&self) -> &Arc<str> {
        &self.scenario
    }

    fn lock(&self) -> MutexGuard<'_, Filling> {
        locked(&self.filling)
    }
}

/// What a panic elsewhere leaves is whole.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct Shared {
    envelope: Envelope,
    secrets: Secrets,
    buffers: Mutex<Vec<Arc<SpanBuffer>>>,
    full: Mutex<Vec<(Arc<str>, Chunk)>>,
    spares: Mutex<Vec<Vec<u8>>>,
    /// The export thread.
    thread: OnceLock<Thread>,
    dropped: AtomicU64,
}

impl Shared {
    fn hand_over(&self, scenario: Arc<str>, chunk: Chunk) {
        let mut full = locked(&self.full);
        if full.len() < CHUNKS {
            full.push((scenario, chunk));
            drop(full);
            self.wake();
        } else {
            self.dropped.fetch_add(chunk.spans, Ordering::Relaxed);
        }
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The near end: where spans are handed in.
#[derive(Debug, Clone)]
pub(crate) struct SpanSink {
    shared: Arc<Shared>,
    authors: SyncSender<Box<SpanData>>,
}

/// The far end: where the export thread takes them.
#[derive(Debug)]
pub(crate) struct SpanSource {
    shared: Arc<Shared>,
    authors: Receiver<Box<SpanData>>,
}

/// Both ends of the way that spans take to the export thread. `attributes` are the resource's.
pub(crate) fn spans(attributes: &[(String, String)], secrets: Secrets) -> (SpanSink, SpanSource) {
    let (sender, receiver) = sync_channel(AUTHORS);
    let shared = Arc::new(Shared {
        envelope: Envelope::new(attributes),
        secrets,
        buffers: Mutex::default(),
        full: Mutex::default(),
        spares: Mutex::default(),
        thread: OnceLock::new(),
        dropped: AtomicU64::new(0),
    });
    (SpanSink { shared: shared.clone(), authors: sender }, SpanSource { shared, authors: receiver })
}

impl SpanSink {
    /// A buffer for the spans of `scenario` on one thread.
    pub(super) fn buffer(&self, scenario: &str) -> Arc<SpanBuffer> {
        let (filling, shared) = (Mutex::default(), self.shared.clone());
        let buffer = Arc::new(SpanBuffer { scenario: scenario.into(), filling, shared });
        locked(&self.shared.buffers).push(buffer.clone());
        buffer
    }

    /// Hands a span that is not the load's on; never waits. One that finds the queue full is dropped and counted.
    pub(crate) fn author(&self, span: SpanData) {
        if self.authors.try_send(Box::new(span)).is_err() {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many spans found no room.
    pub(super) fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Has the thread that takes spans look at once.
    pub(super) fn wake(&self) {
        self.shared.wake();
    }
}

impl SpanSource {
    /// From now on it is this thread that is woken.
    pub(super) fn be_woken(&self) {
        // The source is of one thread.
        let _ = self.shared.thread.set(std::thread::current());
    }

    /// All spans of the load that are there, by scenario.
    pub(super) fn take(&self) -> Vec<(Arc<str>, Chunk)> {
        let mut taken = mem::take(&mut *locked(&self.shared.full));
        locked(&self.shared.buffers).retain(|buffer| {
            // Asked before: nobody writes to a buffer that is held here alone.
            let is_in_use = Arc::strong_count(buffer) > 1;
            let mut filling = buffer.lock();
            if filling.chunk.spans > 0 {
                taken.push((buffer.scenario.clone(), mem::take(&mut filling.chunk)));
            }
            is_in_use
        });
        taken
    }

    /// Spans of the author's own, at most `most`.
    pub(super) fn take_authors(&self, most: usize) -> Vec<SpanData> {
        self.authors.try_iter().take(most).map(|span| *span).collect()
    }

    /// The chunk as a request's body.
    pub(super) fn request(&self, mut chunk: Vec<u8>) -> Bytes {
        let start = self.shared.envelope.close(&mut chunk);
        Bytes::from(chunk).slice(start..)
    }

    /// Keeps what a request's body was in for the next, unless it is in use still.
    pub(super) fn reuse(&self, body: Bytes) {
        let mut spares = locked(&self.shared.spares);
        if spares.len() < SPARES
            && let Ok(mut body) = body.try_into_mut()
        {
            body.clear();
            spares.push(body.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use prost::Message as _;

    use super::super::encode::tests::{iteration, request};
    use super::super::export::run_span;
    use super::*;
    use crate::model::id::{SpanId, TraceId};

    impl SpanSource {
        /// The spans that are there, as a receiver reads them.
        pub(crate) fn taken(&self) -> Vec<Span> {
            let read = |chunk: Chunk| {
                let request = self.request(chunk.bytes);
                let read = ExportTraceServiceRequest::decode(request.clone()).unwrap();
                assert_eq!(read.encode_to_vec(), request, "as short as can be");
                let spans = read.resource_spans.into_iter().flat_map(|of_resource| of_resource.scope_spans);
                let spans: Vec<_> = spans.flat_map(|of_scope| of_scope.spans).collect();
                assert_eq!(spans.len() as u64, chunk.spans);
                spans
            };
            self.take().into_iter().flat_map(|(_, chunk)| read(chunk)).collect()
        }
    }

    fn source() -> (SpanSink, SpanSource) {
        spans(&[("service.name".to_owned(), "loadtest".to_owned())], Secrets::default())
    }

    #[test]
    fn every_span_is_taken_once_whichever_buffer_and_chunk_it_is_in() {
        let (sink, source) = source();
        let buffers = [sink.buffer("a"), sink.buffer("b")];
        let mut pushed = 0;
        let mut taken = 0;
        for round in 0..3 {
            for n in 0..2000 * round {
                buffers[n % 2].push(&iteration());
                pushed += 1;
            }
            taken += source.taken().len();
            assert_eq!(taken, pushed);
        }
        assert_eq!(sink.dropped(), 0);
    }

    #[test]
    fn what_a_thread_that_is_gone_has_left_is_taken_and_its_buffer_forgotten() {
        let (sink, source) = source();
        sink.buffer("s").push(&iteration());
        assert_eq!(source.taken().len(), 1);
        assert_eq!(locked(&source.shared.buffers).len(), 0);
    }

    #[test]
    fn when_too_much_waits_spans_are_dropped_and_counted() {
        let (sink, source) = source();
        for _ in 0..CHUNKS + 2 {
            sink.shared.hand_over("s".into(), Chunk { spans: 7, ..Chunk::default() });
        }
        assert_eq!((source.take().len(), sink.dropped()), (CHUNKS, 14));

        let span = || run_span((TraceId(1), SpanId(1)), 1, 2);
        let before = sink.dropped();
        (0..AUTHORS + 3).for_each(|_| sink.author(span()));
        assert_eq!(sink.dropped() - before, 3);
        assert_eq!(source.take_authors(10).len(), 10);
        assert_eq!(source.take_authors(AUTHORS).len(), AUTHORS - 10);
    }

    #[test]
    fn the_latest_sample_of_each_power_of_two_is_kept_of_requests_as_they_should_be() {
        let (sink, source) = source();
        let buffer = sink.buffer("s");
        for (id, end_ns, expected) in [
            (1, 1_000_000_000, true),
            (2, 1_900_000_000, true),
            (3, 5_000_000_000, true),
            (4, 9_000_000_000, false),
        ] {
            buffer.push(&request(|span, facts| {
                (span.id, span.start_ns, span.end_ns) = (SpanId(id), 0, end_ns);
                facts.expected = expected;
            }));
        }
        buffer.push(&iteration());
        let (scenario, chunk) = source.take().remove(0);
        assert_eq!((&*scenario, chunk.spans), ("s", 5));
        let samples: Vec<_> =
            chunk.samples["GET /users/{id}"].values().map(|sample| sample.span[7]).collect();
        assert_eq!(samples, [2, 3]);
    }

    #[test]
    fn the_room_of_a_request_is_used_again_when_nobody_reads_it_any_more() {
        let (sink, source) = source();
        let buffer = sink.buffer("s");
        buffer.push(&iteration());
        let body = source.request(source.take().remove(0).1.bytes);
        source.reuse(body.clone());
        assert_eq!(locked(&source.shared.spares).len(), 0);
        source.reuse(body);
        let spare = locked(&source.shared.spares).pop().unwrap();
        assert!(spare.is_empty() && spare.capacity() > 0);
    }
}
