//! How many bytes of requests that are not complete yet may wait in memory, over all connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::Body;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tonic::Status;

/// Four of the largest requests. They are decompressed and decoded one at a time, as the receiver has one thread.
const IN_FLIGHT: usize = 4 * super::MESSAGE_LIMIT;

/// The bytes in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicUsize);

/// What one request holds of them, until it is dropped.
struct Held {
    of: Arc<InFlight>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Held {
    fn take(&mut self, chunk: Bytes) -> Result<Bytes, Status> {
        self.bytes += chunk.len();
        let before = self.of.0.fetch_add(chunk.len(), Ordering::Relaxed);
        if before + chunk.len() > IN_FLIGHT {
            return Err(Status::unavailable("too much is being received at once"));
        }
        Ok(chunk)
    }
}

impl InFlight {
    /// The chunks of `body`, counted as in flight as long as the stream lives. An error is a [`Status`] where there is
    /// no room, as both the gRPC and the HTTP side find one among the causes of an error.
    pub(super) fn meter(
        self: &Arc<Self>,
        body: Body,
    ) -> impl Stream<Item = Result<Bytes, axum::Error>> + use<> {
        let mut held = Held { of: self.clone(), bytes: 0 };
        body.into_data_stream().map(move |chunk| held.take(chunk?).map_err(axum::Error::new))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_bounded_over_all_requests_and_given_back() {
        let in_flight = Arc::new(InFlight::default());
        let half = Bytes::from(vec![0; IN_FLIGHT / 2]);
        let mut first = Held { of: in_flight.clone(), bytes: 0 };
        let mut second = Held { of: in_flight.clone(), bytes: 0 };
        assert!(first.take(half.clone()).is_ok());
        assert!(second.take(half.clone()).is_ok());
        assert!(second.take(Bytes::from_static(b"x")).is_err());
        drop(second);
        assert!(first.take(half).is_ok());
        drop(first);
        assert_eq!(in_flight.0.load(Ordering::Relaxed), 0);
    }
}
